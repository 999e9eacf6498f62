"""Which way a batch goes: counted and planned first, directly under the table at hand, or whole in one task."""

from __future__ import annotations

from unskew.runtime.jobs import Jobs
from unskew.runtime.record import Record
from unskew.runtime.settings import Settings
from unskew.splitters.heavy import HeavyKeys

COUNTED, DIRECT, WHOLE, EMPTY = "counted", "direct", "whole", "empty"

# Rough costs, measured on two cores.
SECONDS_PER_ROW = 2e-6  # to prepare a row
SECONDS_PER_PRESUMMED_ROW = 0.4e-6  # the same where Spark combines rows
SECONDS_PER_CHANNEL = 5e-3  # to open, write and publish a channel's state, beside its rows
WORTH_SECONDS = 0.15  # of a second job and a shuffle; a batch that would gain less runs whole in one task
FEW_ROWS = 1_000  # a batch of up to so many rows is not split up for the number of its channels alone
WORTH_BYTES = 8 << 20  # a channel's state that takes as long to read from the checkpoint as homes cost: 0.1 s


def way_of(settings: Settings, before: Record, jobs: Jobs, channels: int, *, shuffled: bool, presummed: bool) -> str:
    """Return the way of a batch that may have rows, judged by the batch before it."""
    planning, scheme = settings.planning, settings.splitting.scheme
    if scheme is not None:
        return COUNTED if isinstance(scheme, HeavyKeys) else DIRECT
    if planning.when == "ahead":
        return DIRECT
    if planning.min_gain < 0 or before.table.split:
        return COUNTED
    long_way = DIRECT if presummed else COUNTED  # what Spark has combined is even enough
    settled = before.batch_id >= 0 and channels == before.table.channels
    if not settled or shuffled or (is_heavy(settings, before) and jobs.homes(channels)):
        return long_way
    return WHOLE if before.rows <= most_rows(before, jobs.cores, presummed) else long_way


def most_rows(before: Record, cores: int, presummed: bool) -> int:
    """Return the rows up to which a batch gains too little by a second job."""
    channels = before.table.channels
    apart = 1 - 1 / max(1, min(cores, channels))  # share of the work that other tasks could do
    if not apart:
        return 1 << 20
    price = before.costs.seconds_per_row + (SECONDS_PER_PRESUMMED_ROW if presummed else SECONDS_PER_ROW)
    worth = WORTH_SECONDS / apart
    return int(max((worth - SECONDS_PER_CHANNEL * channels) / price, min(worth / price, FEW_ROWS)))


def is_heavy(settings: Settings, before: Record) -> bool:
    """Tell whether the state is too large for one machine to keep a copy of all channels."""
    return sum(state.bytes for state in before.channels.values()) > settings.keeping.cache_bytes > 0


def is_worth_a_home(before: Record) -> bool:
    """Tell whether some channel's state takes longer to read than it takes to hold tasks to places."""
    return max((state.bytes for state in before.channels.values()), default=0) > WORTH_BYTES
