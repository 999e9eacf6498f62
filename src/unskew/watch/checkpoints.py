"""From what a user names to the history of a query."""

from __future__ import annotations

from pathlib import Path

from unskew.errors import CheckpointError
from unskew.runtime.history import History
from unskew.state.arrow_place import is_local, located
from unskew.state.files import Files

FOLDER = "unskew"


def open_history(checkpoint: str) -> History:
    """Return the history in a checkpoint; raise `CheckpointError` if it is not the checkpoint of a balanced query."""
    if is_local(checkpoint):
        path = Path(located(checkpoint)[1])
        if not path.exists():
            raise CheckpointError("there is no such folder", where=checkpoint, hint="name a checkpointLocation")
        if not path.is_dir():
            raise CheckpointError("this is a file", where=checkpoint, hint="name the folder of a checkpointLocation")
        checkpoint = str(path.absolute())
    files = Files(checkpoint.rstrip("/"))
    found = set(files.names())
    if FOLDER in found:
        return History(files.child(FOLDER))
    if "history" in found or "epochs" in found:
        what, hint = "this is a folder inside a checkpoint", "name the folder above it"
    elif {"offsets", "metadata"} & found:
        what, hint = "this is the checkpoint of a query that unskew does not balance", "only balanced queries are shown"
    else:
        what, hint = "this is not the checkpoint of a balanced query", "name its checkpointLocation"
    raise CheckpointError(what, where=checkpoint, hint=hint)
