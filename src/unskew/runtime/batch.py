"""One batch that nobody has recorded yet: what is planned for it, what its tasks are told, and what they gave back."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.errors import StateError
from unskew.load.statistics import Statistics, combine
from unskew.operators import Clock, Operator
from unskew.operators.presum import Presum
from unskew.runtime import ways, wire
from unskew.runtime.channel import ChannelTask
from unskew.runtime.count import Counts
from unskew.runtime.extract import Extract
from unskew.runtime.intervals import Intervals
from unskew.runtime.jobs import Jobs, Whole, Work
from unskew.runtime.orders import dealt_out, orders_for
from unskew.runtime.planning import Controller, Plan
from unskew.runtime.prepare import Prepare
from unskew.runtime.record import Record
from unskew.runtime.results import Reports, Results
from unskew.runtime.route import Route, Worker
from unskew.runtime.settings import Settings
from unskew.runtime.site import Site
from unskew.runtime.tasks import channel_loads, tasks_at_home, tasks_for
from unskew.runtime.tuple_routes import Head
from unskew.runtime.ways import COUNTED, DIRECT, EMPTY, WHOLE
from unskew.splitters.heavy import HeavyKeys
from unskew.state.files import Piece
from unskew.state.piece_store import PieceStore


@dataclass
class Stopwatch:
    """Where the time of a batch goes."""

    seconds: dict[str, float] = field(default_factory=dict)
    _last: float = field(default_factory=time.perf_counter)

    def lap(self, name: str) -> None:
        """Add the time since the last lap under a name."""
        now = time.perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._last
        self._last = now


@dataclass(frozen=True, eq=False)
class Ran:
    """A batch whose channels have worked."""

    way: str
    plan: Plan
    work: Work
    counted: Counts
    reports: Reports
    results: Results
    intervals: Intervals  # what the next plan ahead goes by, without this batch
    statistics: Statistics  # of all channels together

    @property
    def measured(self) -> bool:
        """Whether costs are seconds; else they are rows."""
        return any(report.measured for report in self.reports.values())


@dataclass(eq=False)
class Batch:
    """Runs the tasks of a batch."""

    operator: Operator
    settings: Settings
    before: Record  # of the batch before
    clock: Clock
    site: Site
    jobs: Jobs
    channels: int  # how many there shall be
    memory_bytes: tuple[int, ...]
    empty: bool  # whether it is certain that there are no rows
    shuffled: bool  # whether the order of rows within a partition is not fixed
    watch: Stopwatch
    copies: dict[int, str]  # the place where each channel has run, at home if it has one; this batch adds its own

    def __post_init__(self) -> None:
        self._controller = Controller(self.settings.planning, self.settings.splitting)
        self._intervals = self.before.intervals
        self._presum = self._presum_of()
        self._given: dict[int, tuple[Piece, ...]] = {}

    def run(self) -> Ran:
        """Run the batch the way that fits; if it has more rows than expected, count them first after all."""
        presummed, way = self._presum is not None, EMPTY
        if self.shuffled or not self.empty:  # Spark's own state upstream may give rows though no source has any
            settings, before = self.settings, self.before
            way = ways.way_of(settings, before, self.jobs, self.channels, shuffled=self.shuffled, presummed=presummed)
        ran = {DIRECT: self._direct, EMPTY: self._without_rows, WHOLE: self._whole, COUNTED: self._counted}[way]()
        return ran or self._counted()

    def _presum_of(self) -> Presum | None:
        """Return how Spark combines the rows, if it can and no row is needed on its own."""
        settings = self.settings
        if not (self.jobs.presums and settings.planning.presum) or settings.splitting.by_tuple:
            return None
        presum = self.operator.presum(self.clock)
        return None if presum is not None and presum.ordered and self.shuffled else presum

    def _counted(self) -> Ran:
        """Count the rows, plan by the counts, then work."""
        blobs = self.jobs.count(self._prepare(counting=True))
        if not blobs:
            return self._without_rows()  # no partition, so nobody to carry orders
        counted = Counts.total(blobs, self.site.slots)
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
        """Do everything in one task, under the table at hand; None if there are too many rows for that."""
        plan = Plan.unchanged(self.before.table, self.before.memory)
        work = self._work(plan, None, forward=True, one_task=True)
        limit = 4 * ways.most_rows(self.before, self.jobs.cores, self._presum is not None)
        results = Results(self.jobs.whole(Whole(self._prepare(), work, limit)))
        if results.payloads(wire.TOO_MANY) or self._missed(results):
            return None
        if not results.payloads(wire.COUNTED):
            return self._without_rows()
        return self._ran(WHOLE, plan, work, results)

    def _without_rows(self) -> Ran:
        """Let time pass; call only the channels that have something to do."""
        plan, load_before = self._ahead()
        work = self._work(plan, load_before, one_task=True)
        first = self.before.batch_id < 0  # there may be initial state
        if not first and not any(order.called for order in work.route.orders):
            return self._ran(EMPTY, plan, replace(work, tasks=0), Results())
        return self._ran(EMPTY, plan, work, self._tried(self.jobs.errands, work))

    def _tried(self, run: Callable[[Work], pa.Table], work: Work) -> Results:
        """Run tasks; if some cannot read the state of their channels, run them again and bring that state along."""
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

    def _ran(self, way: str, plan: Plan, work: Work, results: Results, counted: Counts | None = None) -> Ran:
        counted = counted or Counts.total(results.payloads(wire.COUNTED), self.site.slots)
        called = {order.channel for order in work.route.orders if order.called}
        reports = results.reports(counted, called, first=self.before.batch_id < 0)
        states = (report.state for report in reports.values())
        self.site.files.deliver(results.written, (state.manifest for state in states if state is not None))
        ran_at = {channel: report.place for channel, report in reports.items()}
        if work.homes and {work.homes[work.route.task_of[channel]] for channel in ran_at} - set(ran_at.values()):
            self.jobs.leave_homes()
        self.copies.update(ran_at if work.homes else ran_at | self.copies)
        self.watch.lap("work")
        statistics = combine([report.statistics for report in reports.values()])
        return Ran(way, plan, work, counted, reports, results, self._intervals, statistics)

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
        """Return what runs first; rows that Spark has combined are counted by key only if necessary."""
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
        """Return what the tasks are told; without `split_rows` every split key may have rows."""
        settings, scheme, table = self.settings, self.settings.splitting.scheme, plan.table
        channels = max(plan.before.channels, table.channels)
        task_of, homes = self._tasks(plan, load_now, channels, one_task)
        manifests = {channel: state.manifest for channel, state in self.before.channels.items()}
        shared = table.split_keys if split_rows is None else split_rows
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
            dealt_out(orders, sources),
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
                seconds = costs.seconds(load_now.total_cost, tuples) + ways.SECONDS_PER_ROW * tuples
        if one_task:
            task_of = np.zeros(channels, np.int32)
        elif self.settings.splitting.scheme is not None:
            task_of = np.arange(channels, dtype=np.int32)
        else:
            task_of = tasks_for(loads, seconds, self.jobs.cores)
        many = not one_task and task_of.max() + 1 >= min(channels, self.jobs.cores)
        gainful = many and self.site.cache_bytes and ways.is_worth_a_home(self.before)
        homes = self.jobs.homes(channels) if gainful or ways.is_heavy(self.settings, self.before) else ()
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
