"""What a channel tells the controller at the end of a batch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from unskew.load.statistics import Statistics
from unskew.spark.packing import pack, unpack

_PLAIN = (
    "channel",
    "installed",
    "rows",
    "late_rows",
    "seconds",
    "state_rows",
    "state_bytes",
    "watermark_ms",
    "worker_rows",
    "spilled_bytes",
    "spilled_slots",
)


@dataclass(frozen=True, eq=False)
class ChannelReport:
    """One channel's report of one batch; leaves the channel as a control row beside the user's rows.

    Parameters
    ----------
    channel
        Who reports.
    statistics
        Load of the batch, by key and by slot.
    installed
        Files of moved state that were installed before the batch's rows.
    extracted
        State that left, by the channel it goes to. A channel appears although nothing was known of its keys.
    rows, late_rows
        Rows of the batch, and those too late to count.
    seconds
        Time spent in the operator.
    state_rows, state_bytes
        What the channel holds after the batch.
    watermark_ms
        The watermark that the batch had; None without event time.
    worker_rows
        Under a splitting scheme, the rows that each worker has turned into partial states for this channel.
    spilled_bytes, spilled_slots
        State that the channel's memory has no room for, and the slots that make it up.
    """

    channel: int
    statistics: Statistics
    installed: tuple[str, ...] = ()
    extracted: Mapping[int, pa.Table] = field(default_factory=dict)
    rows: int = 0
    late_rows: int = 0
    seconds: float = 0.0
    state_rows: int = 0
    state_bytes: int = 0
    watermark_ms: int | None = None
    worker_rows: tuple[int, ...] = ()
    spilled_bytes: int = 0
    spilled_slots: tuple[int, ...] = ()

    def to_bytes(self) -> bytes:
        """Return the report as one blob."""
        header = {name: getattr(self, name) for name in _PLAIN}
        s = self.statistics
        keys = {"hash": s.hashes, "tuples": s.tuples, "cost": s.cost, "state": s.state}
        if s.keys is not None:
            keys["key"] = s.keys
        busy = np.flatnonzero((s.slot_tuples > 0) | (s.slot_state > 0))
        slots = {
            "slot": busy.astype(np.int32),
            "tuples": s.slot_tuples[busy],
            "cost": s.slot_cost[busy],
            "state": s.slot_state[busy],
        }
        header |= {"distinct_keys": s.distinct_keys, "slots": len(s.slot_tuples)}
        sections = {
            "header": json.dumps(header).encode(),
            "keys": pack(pa.table(keys)),
            "slots": pack(pa.table(slots)),
            **{f"to {target}": pack(state) for target, state in self.extracted.items()},
        }
        return pack(pa.table({"name": list(sections), "data": pa.array(sections.values(), pa.large_binary())}))

    @classmethod
    def from_bytes(cls, data: bytes) -> ChannelReport:
        """Read what `to_bytes` wrote."""
        table = unpack(data)
        sections = dict(zip(table["name"].to_pylist(), table["data"].to_pylist(), strict=True))
        header = json.loads(sections["header"])
        keys, slots = unpack(sections["keys"]), unpack(sections["slots"])
        per_slot = {name: np.zeros(header["slots"]) for name in ("tuples", "cost", "state")}
        for name, column in per_slot.items():
            column[slots["slot"].to_numpy()] = slots[name].to_numpy()
        statistics = Statistics(
            keys["hash"].to_numpy(),
            tuples=keys["tuples"].to_numpy(),
            cost=keys["cost"].to_numpy(),
            state=keys["state"].to_numpy(),
            slot_tuples=per_slot["tuples"],
            slot_cost=per_slot["cost"],
            slot_state=per_slot["state"],
            distinct_keys=header["distinct_keys"],
            keys=keys["key"].combine_chunks() if "key" in keys.column_names else None,
        )
        plain = {name: header[name] for name in _PLAIN} | {
            name: tuple(header[name]) for name in ("installed", "worker_rows", "spilled_slots")
        }
        extracted = {int(name[3:]): unpack(blob) for name, blob in sections.items() if name.startswith("to ")}
        return cls(statistics=statistics, extracted=extracted, **plain)
