"""A check of the checkpoint before a query writes anything to it."""

from __future__ import annotations

from pathlib import Path

from unskew.errors import CheckpointError
from unskew.operators import Operator
from unskew.runtime.log import RecordLog
from unskew.runtime.record import Identity
from unskew.state.arrow_place import is_local, located
from unskew.state.chunks import Columns
from unskew.state.files import Files

FIRST_EDITION = "decisions"


def check_checkpoint(checkpoint: Files, log: RecordLog, identity: Identity, operator: Operator) -> str:
    """Return the name of the query that a checkpoint belongs to, or a new one if it is empty; writes nothing.

    Raises `CheckpointError` if it belongs to another query, to Spark alone, or to an older unskew.
    """
    path = Path(located(checkpoint.root)[1]) if is_local(checkpoint.root) else None
    if path is not None and path.exists() and not path.is_dir():
        raise CheckpointError("the checkpoint is a file", where=checkpoint.root, hint="name a folder")
    prepared, committed = log.last()
    last = max(prepared, committed)
    if last < 0:
        if log.files.names(FIRST_EDITION):
            raise CheckpointError(
                "this checkpoint was written by an older unskew",
                where=checkpoint.root,
                hint="start with a new checkpointLocation; the old state cannot be taken over",
            )
        if checkpoint.names("state"):
            raise CheckpointError(
                "this checkpoint belongs to a query of Spark alone",
                where=checkpoint.root,
                hint="start with a new checkpointLocation; initial_state= takes over what a native query knew",
            )
        return identity.name
    record = log.read(last)
    if record is None:
        raise CheckpointError(
            "the record of the last batch is missing",
            where=f"{log.files.root}/prepared/{last}",
            hint="restore the checkpoint from a copy, or start with a new checkpointLocation",
        )
    known = record.identity
    goes_on = operator.continues(known.operator)
    for part in ("key", "operator", "slots"):
        if getattr(known, part) != getattr(identity, part) and not (part == "operator" and goes_on):
            raise CheckpointError(
                f"this checkpoint was written with {part} = {getattr(known, part)!r}",
                where=checkpoint.root,
                got=getattr(identity, part),
                hint=f"use the same {part}, or start with a new checkpointLocation",
            )
    held, wanted = Columns.of_rows(record.columns.schema), Columns.of(operator.key_schema, operator.value_schema)
    same = known.operator == identity.operator
    if not (wanted.are(held.text) if same else wanted.cover(held.text)):
        raise CheckpointError(
            f"this checkpoint was written with a state of other types: {held.text}",
            where=checkpoint.root,
            got=wanted.text,
            hint="cast the stream's columns to the types that they had, or start with a new checkpointLocation",
        )
    return known.name
