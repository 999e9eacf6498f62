"""How a balanced stage will run, in words."""

from __future__ import annotations

from unskew.operators import Clock, Operator
from unskew.runtime.settings import Settings


def explanation(operator: Operator, settings: Settings) -> str:
    """Return a few lines: what runs by which key, on how many channels, and who combines and plans."""
    channels, planning, splitting = settings.channels, settings.planning, settings.splitting
    presum = operator.presum(Clock(0, 0)) if planning.presum and not splitting.by_tuple else None
    lines = [f"{operator!r} by {', '.join(operator.key)}", f"{channels.count} channels, {channels.slots} slots"]
    if presum is not None:
        lines += [
            f"Spark combines the rows of a key: {', '.join(presum.states)}",
            "Channels get one row per key, so nothing has to be planned.",
        ]
        return "\n".join(lines)
    lines.append("Python combines the rows of a key." if operator.mergeable else "Channels get every row.")
    if splitting.scheme is not None:
        lines.append(f"Rows go to workers by {splitting.scheme!r}.")
    elif planning.when == "own":
        lines.append(f"Every batch is counted and planned by {planning.planner!r}, where that can pay.")
    else:
        lines.append(f"Every batch is planned ahead by {planning.planner!r}, from what came before.")
    return "\n".join(lines)
