"""Advice in sentences, for the terminal and the page."""

from __future__ import annotations

from unskew.advice.advice import Advice
from unskew.bars import counted
from unskew.watch.words import duration


def facts(advice: Advice) -> str:
    """Say in one line what was looked at."""
    found = advice.found
    parts = [f"key {', '.join(found.key)}"] if found.key else []
    if found.operation:
        parts.append(found.operation)
    if advice.distinct_keys is not None:
        parts.append(counted(advice.distinct_keys, "key"))
    parts += [counted(advice.partitions, "partition"), counted(advice.cores, "core")]
    if advice.gains:
        parts.append(counted(len(advice.gains), "batch"))
    return ", ".join(parts)


def cost(advice: Advice) -> str:
    """Say what the skew costs now."""
    share = f"{advice.skew_share:.0%}"
    if advice.seconds is None or advice.skew_seconds is None:
        return f"Skew costs up to {share} of the time that a batch works on its rows."
    seconds, batch = duration(advice.skew_seconds), duration(advice.seconds)
    return f"A batch takes {batch}. Skew costs {seconds} of that, {share}."
