"""One batch that nobody has recorded yet: which way it goes, what is planned for it, and what its tasks are told."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.codec import load
from unskew.errors import StateError
from unskew.load.statistics import Statistics
from unskew.operators import Clock, Operator
from unskew.operators.presum import Presum
from unskew.runtime.channel import ChannelTask
from unskew.runtime.count import Counted
from unskew.runtime.extract import Extract
from unskew.runtime.homes import tasks_at_home
from unskew.runtime.intervals import Intervals
from unskew.runtime.jobs import Jobs, Whole, Work
from unskew.runtime.orders import Order, orders_for
from unskew.runtime.planning import Controller, Plan, channel_loads, tasks_for
from unskew.runtime.prepare import Counts, Prepare
from unskew.runtime.record import Record
from unskew.runtime.results import Reports, Results
from unskew.runtime.route import Route
from unskew.runtime.settings import Settings
from unskew.runtime.site import Site
from unskew.runtime.tuple_routes import Head
from unskew.runtime.worker import Worker
from unskew.splitters.heavy import HeavyKeys
from unskew.state.files import Piece
from unskew.state.piece_store import PieceStore

COUNTED, DIRECT, WHOLE, EMPTY = "counted", "direct", "whole", "empty"

SECONDS_PER_ROW = 2e-6
"""What preparing a row takes, about."""

SECONDS_PER_PRESUMMED_ROW = 0.4e-6
"""The same where Spark combines rows."""

SECONDS_PER_CHANNEL = 5e-3
"""What opening, writing and publishing the state of a channel takes beside its rows, about."""

FEW_ROWS = 1_000
"""Up to so many rows, a batch is not split up for the number of its channels alone."""

WORTH_SECONDS = 0.15
"""What a second job and a shuffle cost; a batch that would gain less runs whole in one task."""

WORTH_BYTES = 8 << 20
"""State of a channel that takes about as long to read from the checkpoint as homes cost: a tenth of a second."""


@dataclass
class Stopwatch:
    """Where the time of a batch goes."""

    seconds: dict[str, float] = field(default_factory=dict)
    _last: float = field(default_factory=time.perf_counter)

    def lap(self, name: str) -> None:
        """Put the time since the last lap under a name."""
        now = time.perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._last
        self._last = now


@dataclass(frozen=True, eq=False)
class Ran:
    """A batch whose channels have worked.

    Parameters
    ----------
    way
        How it was run.
    plan
        What was planned for it.
    tasks, homes
        Tasks that its channels ran in, and the place that each was held to, if any.
    counted, reports, results
        Its rows by key, what channels reported, and their output.
    intervals
        What plans that are made ahead go by from now on, without this batch.
    """

    way: str
    plan: Plan
    tasks: int
    homes: tuple[str, ...]
    counted: Counted
    reports: Reports
    results: Results
    intervals: Intervals


@dataclass(eq=False)
class Batch:
    """Runs the tasks of a batch.

    Parameters
    ----------
    operator
        What runs per key; knows its lesson.
    settings
        How it is balanced.
    before
        The record of the batch before.
    clock
        The time of the batch.
    site
        Where state lies.
    jobs
        The rows, and who runs tasks on them.
    channels, memory_bytes
        How many channels there shall be, and the state that each may hold.
    empty
        Whether it is certain that there are no rows.
    shuffled
        Whether the order of rows within a partition is not fixed.
    watch
        Takes the time.
    copies
        The place where each channel has run, at home if it has one; this batch adds its own.
    """

    operator: Operator
    settings: Settings
    before: Record
    clock: Clock
    site: Site
    jobs: Jobs
    channels: int
    memory_bytes: tuple[int, ...]
    empty: bool
    shuffled: bool
    watch: Stopwatch
    copies: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._controller = Controller(self.settings.planning, self.settings.splitting)
        self._intervals = self.before.intervals
        self._presum = self._presum_of()
        self._given: dict[int, tuple[Piece, ...]] = {}

    def run(self) -> Ran:
        """Run it on its way; if it turns out to be larger than expected, on the long one."""
        way = self._way()
        ran = {DIRECT: self._direct, EMPTY: self._without_rows, WHOLE: self._whole, COUNTED: self._counted}[way]()
        return ran or self._counted()

    def _presum_of(self) -> Presum | None:
        """Return how Spark combines the rows, where it can and nobody wants to see them one by one."""
        settings = self.settings
        if not (self.jobs.presums and settings.planning.presum) or settings.splitting.by_tuple:
            return None
        presum = self.operator.presum(self.clock)
        return None if presum is not None and presum.ordered and self.shuffled else presum

    def _way(self) -> str:
        before, planning, scheme = self.before, self.settings.planning, self.settings.splitting.scheme
        if self.empty and not self.shuffled:  # Spark's own state upstream may give rows though no source has any
            return EMPTY
        if scheme is not None:
            return COUNTED if isinstance(scheme, HeavyKeys) else DIRECT
        if planning.when == "ahead":
            return DIRECT
        settled = before.batch_id >= 0 and self.channels == before.table.channels and not before.table.split
        if planning.min_gain < 0 or before.table.split:
            return COUNTED
        long_way = COUNTED if self._presum is None else DIRECT  # what Spark has combined is even enough
        if not settled or self.shuffled or (self._is_heavy and self.jobs.homes(self.channels)):
            return long_way
        return WHOLE if before.rows <= self._most_rows() else long_way

    @property
    def _is_heavy(self) -> bool:
        """Whether the state is too large for one machine to keep a copy of all channels."""
        return sum(state.bytes for state in self.before.channels.values()) > self.settings.keeping.cache_bytes > 0

    def _most_rows(self) -> int:
        """Return the rows up to which a batch gains too little by a second job."""
        channels = self.before.table.channels
        apart = 1 - 1 / max(1, min(self.jobs.cores, channels))
        if not apart:
            return 1 << 20
        price = SECONDS_PER_ROW if self._presum is None else SECONDS_PER_PRESUMMED_ROW
        price += self.before.costs.seconds_per_row
        worth = WORTH_SECONDS / apart
        return int(max((worth - SECONDS_PER_CHANNEL * channels) / price, min(worth / price, FEW_ROWS)))

    def _counted(self) -> Ran:
        """Count the rows, plan by the counts, then work."""
        blobs = self.jobs.count(self._prepare(counting=True))
        if not blobs:
            return self._without_rows()  # no partition, so nobody to carry orders
        counted = Counted.of([load(Counts, blob) for blob in blobs], self.site.slots)
        self.watch.lap("count")
        load_now = counted.load(self.before.costs, self.before.held, self.before.table)
        plan = self._controller.plan(load_now, self.before.table, self.before.memory, self.channels)
        self.watch.lap("plan")
        split = plan.table.split_keys
        work = self._work(plan, load_now, counted.sources, split_rows=split[counted.may_have(split)])
        return self._ran(COUNTED, plan, work, self._tried(self.jobs.work, work), counted)

    def _direct(self) -> Ran:
        """Work under the table at hand, or one that past intervals suggest; count on the way."""
        plan, load_before = self._ahead()
        self.watch.lap("plan")
        work = self._work(plan, load_before, forward=True)
        return self._ran(DIRECT, plan, work, self._tried(partial(self.jobs.direct, self._prepare()), work))

    def _whole(self) -> Ran | None:
        """Do everything in one task, under the table at hand."""
        plan = Plan.unchanged(self.before.table, self.before.memory)
        work = self._work(plan, None, forward=True, one_task=True)
        results = Results(self.jobs.whole(Whole(self._prepare(), work, 4 * self._most_rows())))
        if results.too_many or self._missed(results):
            return None
        if not results.counts:
            return self._without_rows()
        return self._ran(WHOLE, plan, work, results)

    def _without_rows(self) -> Ran:
        """Let time pass; call only the channels that have something to do."""
        plan, load_before = self._ahead()
        work = self._work(plan, load_before, one_task=True)
        first = self.before.batch_id < 0  # there may be state to begin with
        if not first and not any(order.called for order in work.route.errands[0]):
            return self._ran(EMPTY, plan, replace(work, tasks=0), Results.none())
        return self._ran(EMPTY, plan, work, self._tried(self.jobs.errands, work))

    def _tried(self, run: Callable[[Work], pa.Table], work: Work) -> Results:
        """Run tasks, and again with the state of channels that was not where they ran, if they cannot read it."""
        while True:
            results = Results(run(work.giving(self._given) if self._given else work))
            if not self._missed(results):
                return results

    def _missed(self, results: Results) -> bool:
        """Tell whether tasks lacked the state of channels; from now on it comes with the parcels."""
        missing = results.missing
        if missing and missing <= self._given.keys():
            raise StateError("a channel did not find its state in its files", got=min(missing))
        for channel in missing:
            self._given[channel] = PieceStore(self.site.files, self.before.channels[channel].manifest).pieces
        return bool(missing)

    def _ran(self, way: str, plan: Plan, work: Work, results: Results, counted: Counted | None = None) -> Ran:
        counted = counted or Counted.of(results.counts, self.site.slots)
        called = {order.channel for orders in work.route.errands.values() for order in orders if order.called}
        reports = results.reports(counted, called, first=self.before.batch_id < 0)
        self.site.files.deliver(
            results.written, (each.manifest for each in reports.by_channel.values() if each.manifest)
        )
        ran_at = {channel: report.place for channel, report in reports.by_channel.items()}
        if work.homes and {work.homes[work.route.task_of[channel]] for channel in ran_at} - set(ran_at.values()):
            self.jobs.leave_homes()
        self.copies.update(ran_at if work.homes else ran_at | self.copies)
        self.watch.lap("work")
        return Ran(way, plan, work.tasks, work.homes, counted, reports, results, self._intervals)

    def _ahead(self) -> tuple[Plan, Statistics]:
        """Plan without counts of this batch: by past intervals, or not at all."""
        before, planning = self.before, self.settings.planning
        slot_state = before.held.beside(np.empty(0, np.int64), before.table)[1]
        zeros = np.zeros(len(slot_state))
        load_before = replace(Statistics.of_keys([], []), slot_tuples=zeros, slot_cost=zeros, slot_state=slot_state)
        due = planning.when == "ahead" and self._intervals.due(planning, self.clock.processing_time_ms)
        if due:
            load_before, self._intervals = self._intervals.close(planning, before.held, before.table)
        if due or self.channels != before.table.channels:
            return self._controller.plan(load_before, before.table, before.memory, self.channels), load_before
        return Plan.unchanged(before.table, before.memory), load_before

    def _prepare(self, counting: bool = False) -> Prepare:
        """Return what runs first; what Spark has combined is not counted by key without need."""
        return Prepare(
            self.operator,
            self.site.slots,
            0 if self._presum is not None and not counting else self.settings.planning.tracked_keys,
            self.channels,
            combine=not self.settings.splitting.by_tuple,
            canonical=self.shuffled,
            clock=self.clock,
            presum=self._presum,
        )

    def _work(
        self,
        plan: Plan,
        load_now: Statistics | None,
        sources: tuple[int, ...] = (0,),
        *,
        split_rows: NDArray[np.int64] | None = None,
        forward: bool = False,
        one_task: bool = False,
    ) -> Work:
        """Return what the tasks are told."""
        settings, scheme, table = self.settings, self.settings.splitting.scheme, plan.table
        channels = max(plan.before.channels, table.channels)
        task_of, homes = self._tasks(plan, load_now, channels, one_task)
        shared = table.split_keys if split_rows is None else np.intersect1d(table.split_keys, split_rows)
        manifests = {channel: state.manifest for channel, state in self.before.channels.items()}
        orders = orders_for(plan.before, table, plan.moves, manifests, self._due(), shared, self.memory_bytes)
        enclosed = self.site.files.enclosed(manifests.values())
        if enclosed:
            orders = [replace(each, enclosed=enclosed[each.manifest]) if each.manifest else each for each in orders]
        head = Head()
        if isinstance(scheme, HeavyKeys) and load_now is not None:
            head = Head.of(load_now, scheme.threshold_for(table.channels))
        route = Route(
            self.operator,
            table,
            task_of,
            Extract(self.site, task_of),
            _spread(orders, sources or (0,)),
            combine=settings.splitting.by_tuple,
            forward=forward,
            scheme=scheme,
            head=head,
        )
        channel_task = ChannelTask(
            self.site,
            self.clock,
            table.listed_keys,
            settings.planning.tracked_keys,
            settings.keeping.inline_bytes // channels,
            0 if scheme is None else channels,
            presummed=self._presum is not None,
        )
        worker = None if scheme is None else Worker(self.operator, table, task_of)
        return Work(route, channel_task, len(homes) or int(task_of.max()) + 1, worker, homes)

    def _tasks(
        self, plan: Plan, load_now: Statistics | None, channels: int, one_task: bool
    ) -> tuple[NDArray[np.int32], tuple[str, ...]]:
        """Return the task that each channel runs in, and the homes of tasks where those are worth it."""
        loads, seconds, costs = np.zeros(channels), None, self.before.costs
        if load_now is not None and load_now.total_cost > 0:
            loads[: plan.table.channels] = channel_loads(load_now, plan.table)
            if costs.seconds_per_row:
                tuples = load_now.total_tuples
                seconds = costs.seconds(load_now.total_cost, tuples) + SECONDS_PER_ROW * tuples
        if one_task:
            task_of = np.zeros(channels, np.int32)
        elif self.settings.splitting.scheme is not None:
            task_of = np.arange(channels, dtype=np.int32)
        else:
            task_of = tasks_for(loads, seconds, self.jobs.cores)
        many = not one_task and task_of.max() + 1 >= min(channels, self.jobs.cores)
        large = max((state.bytes for state in self.before.channels.values()), default=0) > WORTH_BYTES
        homes = self.jobs.homes(channels) if self._is_heavy or (many and large and self.site.cache_bytes) else ()
        return tasks_at_home(loads, homes, self.copies) if homes else task_of, homes

    def _due(self) -> set[int]:
        """Return the channels in which a deadline has come; in complete mode all that have state."""
        if self.operator.output_mode == "complete":
            return set(self.before.channels)
        mode = self.operator.time_mode
        now = self.clock.watermark_ms if mode == "event" else self.clock.processing_time_ms
        if mode == "none" or now is None:
            return set()
        return {c for c, s in self.before.channels.items() if s.earliest is not None and s.earliest <= now}


def _spread(orders: list[Order], sources: tuple[int, ...]) -> dict[int, tuple[Order, ...]]:
    """Deal orders out to the sources that carry them; those that have state read cost time, so each gets some."""
    heavy = [order for order in orders if len(order.moves)]
    errands: dict[int, list[Order]] = {source: [] for source in sources}
    for number, order in enumerate(heavy):
        errands[sources[number % len(sources)]].append(order)
    errands[sources[0]] += [order for order in orders if not len(order.moves)]
    return {source: tuple(each) for source, each in errands.items()}
