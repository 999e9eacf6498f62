"""The protocol of moves without Spark: channels are dictionaries, and some of them are not called in some batches."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.load import Statistics
from unskew.planners import Assignment, Memory, Planner, Problem, planner
from unskew.routing import RoutingTable
from unskew.spark.controller import Controller
from unskew.spark.decision import Decision
from unskew.spark.packing import unpack
from unskew.spark.reports import ChannelReport
from unskew.spark.runtime import Runtime
from unskew.spark.scaling import Scaling

CHANNELS, SLOTS = 4, 16


@dataclass(frozen=True)
class RandomMoves(Planner):
    """Moves keys and slots at random; what it draws next is in its memory."""

    tolerance: float = 0.0
    seed: int = 0

    def slots(self, table: RoutingTable, channels: int) -> np.ndarray:
        rng, slots = np.random.default_rng((self.seed, table.version)), super().slots(table, channels)
        return np.where(rng.random(SLOTS) < 0.2, rng.integers(0, channels, SLOTS), slots).astype(np.int32)

    def assign(self, problem: Problem, memory: Memory) -> Assignment:
        drawn = int(memory.values.get("drawn", 0))
        rng = np.random.default_rng((self.seed, drawn, 1))
        stay = (rng.random(len(problem.hashes)) < 0.5) & (problem.current < problem.channels)
        owner = np.where(stay, problem.current, rng.integers(0, problem.channels, len(problem.hashes)))
        return Assignment(owner.astype(np.int32), memory=Memory({"drawn": drawn + 1}))


@dataclass
class Channel:
    number: int
    merging: bool = False
    counts: Counter = field(default_factory=Counter)

    def run(self, decision: Decision, rows: list[int], files: dict[str, bytes]) -> ChannelReport:
        for file in decision.install.get(self.number, ()):
            for row in unpack(files[file]).to_pylist():
                assert row["key"] not in self.counts or self.merging, "state arrives before the rows"
                self.counts[row["key"]] += row["count"]
        self.counts.update(rows)
        extract, listed = decision.extract, set(decision.listed_keys.tolist())
        extracted = {}
        for target in range(CHANNELS):
            slots = extract.slots[(extract.slot_sources == self.number) & (extract.slot_targets == target)].tolist()
            keys = extract.keys[(extract.key_sources == self.number) & (extract.key_targets == target)].tolist()
            if slots or keys:
                leaving = [k for k in self.counts if k in keys or (k % SLOTS in slots and k not in listed)]
                columns = {"key": leaving, "count": [self.counts.pop(k) for k in leaving]}
                schema = pa.schema([("key", pa.int64()), ("count", pa.int64())])
                extracted[target] = pa.table(columns, schema=schema)
        seen = Counter(rows)
        statistics = Statistics.of_keys(list(seen), list(seen.values()))
        return ChannelReport(self.number, statistics, decision.install.get(self.number, ()), extracted)


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.sampled_from([1, 30, 10**9]), st.booleans(), st.booleans())
def test_state_is_where_the_rows_go_whoever_is_not_called(
    seed: int, max_move_bytes: int, resizing: bool, splitting: bool
) -> None:
    rng = np.random.default_rng(seed)
    controller = Controller(
        RandomMoves(seed=seed), max_move_bytes=max_move_bytes, min_gain=-np.inf, splitting=splitting
    )
    channels = [Channel(c, merging=splitting) for c in range(CHANNELS)]
    files: dict[str, bytes] = {}

    def keep(channel: int, state: bytes) -> str:
        files[f"{channel}.{len(files)}"] = state
        return f"{channel}.{len(files) - 1}"

    decision, truth, tables, split = Decision(0, RoutingTable.initial(CHANNELS, SLOTS)), Counter(), set(), 0
    for batch in range(30):
        wish = int(rng.integers(1, CHANNELS + 1)) if resizing and rng.random() < 0.3 else None
        rows = rng.integers(-20, 20, rng.integers(0, 12))
        if splitting:  # some keys are hot for a while
            rows = np.where(rng.random(len(rows)) < 0.5, batch // 5, rows)
        truth.update(rows.tolist())
        owner = np.array([rng.choice(decision.table.candidates(key)) for key in rows.tolist()])
        ticks = rng.random() < 0.5
        reports = {}
        for channel in channels:
            mine = rows[owner == channel.number].tolist()
            assert channel.number < decision.table.channels or not mine
            if mine or (ticks and channel.number < decision.channels_called):
                report = channel.run(Decision.from_json(decision.for_tasks()), mine, files)
                reports[channel.number] = ChannelReport.from_bytes(report.to_bytes())
        tables.add(decision.table.version)
        split += len(decision.table.split) > 0
        for channel in channels:
            if channel.number in reports:
                leaving = {m.id for m in decision.extract if m.kind == "key" and m.source == channel.number}
                for key in {*channel.counts} & {*decision.table.split_keys.tolist()} - leaving:
                    assert channel.number in decision.table.candidates(key), "parts are where they are looked for"
        decision, _ = controller.next_decision(Decision.from_json(decision.to_json()), reports, keep, channels=wish)
        assert decision.batch_id == batch + 1
    in_flight = {f: row for fs in decision.install.values() for f in fs for row in [unpack(files[f]).to_pylist()]}
    total = sum((c.counts for c in channels), Counter())
    for row in [row for rows in in_flight.values() for row in rows]:
        total[row["key"]] += row["count"]
    assert total == truth
    assert len(tables) > 1, "something moved"
    assert (split > 0) == splitting


def test_a_balanced_stream_is_left_alone() -> None:
    table = RoutingTable.initial(CHANNELS, SLOTS)
    reports = {
        c: ChannelReport(c, Statistics([], [], [], [], *(np.where(table.slots == c, 1.0, 0.0) for _ in range(3))))
        for c in range(CHANNELS)
    }
    controller = Controller(planner("mixed", tolerance=0.05))
    decision, _ = controller.next_decision(Decision(4, table), reports, keep=pytest.fail)
    assert decision.target is None
    assert decision.table == table


def test_an_interval_of_several_batches_is_waited_for() -> None:
    hot = Statistics.of_keys([1, 2, 3], [10.0, 10.0, 10.0])
    table = RoutingTable.initial(CHANNELS, SLOTS).with_explicit([1, 2, 3], [0, 0, 0])
    controller, decision = Controller(planner("mixed"), interval_batches=3), Decision(0, table)
    planned = []
    for _ in range(6):
        decision, report = controller.next_decision(decision, {0: ChannelReport(0, hot)}, keep=pytest.fail)
        planned.append(report is not None)
        decision = Decision(decision.batch_id, table, batches_since_plan=decision.batches_since_plan)
    assert planned == [False, False, True, False, False, True]


def test_an_interval_of_time_is_waited_for_and_survives_a_restart() -> None:
    hot = Statistics.of_keys([1, 2, 3], [10.0, 10.0, 10.0])
    table = RoutingTable.initial(CHANNELS, SLOTS).with_explicit([1, 2, 3], [0, 0, 0])
    controller, decision = Controller(planner("mixed"), interval_ms=30_000), Decision(0, table)
    planned = []
    for second in (1_000_000, 1_000_010, 1_000_031, 1_000_032, 1_000_090):
        reports = {0: ChannelReport(0, hot)}
        decision, plan = controller.next_decision(decision, reports, pytest.fail, now_ms=second * 1000)
        planned.append(plan is not None)
        again = Decision.from_json(decision.to_json())
        decision = Decision(again.batch_id, table, planned_at_ms=again.planned_at_ms)
    assert planned == [True, False, True, False, True]


def test_a_key_beyond_the_tolerance_gets_a_channel_for_itself() -> None:
    """One key has 60 % of the load of four channels: nobody shares its channel, and the others are even."""
    costs = [60.0, 8.0, 8.0, 8.0, 6.0, 5.0, 5.0]
    statistics = Statistics.of_keys(list(range(7)), costs)
    table = RoutingTable.initial(CHANNELS, SLOTS).with_explicit(list(range(7)), [0, 0, 0, 1, 1, 2, 3])
    controller = Controller(planner("mixed", tolerance=0.08))
    decision, plan = controller.next_decision(Decision(0, table), {0: ChannelReport(0, statistics)}, pytest.fail)
    assert decision.target is not None
    assert plan is not None
    owners = decision.target.lookup(list(range(7)))
    assert (owners[1:] != owners[0]).all()
    assert plan.imbalance_after == pytest.approx(60 / 25 - 1)


@pytest.mark.parametrize(("name", "at_once"), [("mixed", True), ("flux-load", False)])
def test_the_next_plan_is_made_when_a_migration_ends_unless_it_goes_by_how_busy_channels_were(
    name: str, at_once: bool
) -> None:
    """Keys 1 to 4 leave channel 0 as planned; meanwhile keys 5 to 8 became hot, all of them on channel 1."""
    owners = dict.fromkeys((1, 2, 3, 4), 0) | dict.fromkeys((5, 6, 7, 8), 1)
    old = RoutingTable.initial(CHANNELS, SLOTS).with_explicit(list(owners), list(owners.values()))
    target = old.with_explicit(list(owners), [0, 1, 2, 3, 1, 1, 1, 1])
    last = Decision(5, old, target=target, extract=old.moves_to(target), batches_since_plan=1)
    empty = pa.table({"key": pa.array([], pa.int64())})
    reports = {
        0: ChannelReport(0, Statistics.of_keys([1, 2, 3, 4], [1.0] * 4), extracted=dict.fromkeys((1, 2, 3), empty)),
        1: ChannelReport(1, Statistics.of_keys([5, 6, 7, 8], [50.0] * 4), seconds=9.0),
    }
    decision, plan = Controller(planner(name)).next_decision(last, reports, pytest.fail)
    assert decision.table.lookup([1, 2, 3, 4]).tolist() == [0, 1, 2, 3]
    assert (plan is not None) == at_once
    if at_once:
        assert decision.target is not None
        assert sorted(decision.target.lookup([5, 6, 7, 8]).tolist()) == [0, 1, 2, 3]
        assert len(decision.extract.keys) == 3


def test_nothing_is_planned_while_state_is_not_installed() -> None:
    table = RoutingTable.initial(2, SLOTS).with_explicit([1, 2], [0, 0])
    last = Decision(5, table, install={1: ("moved/5.1.ab",)}, batches_since_plan=1)
    reports = {0: ChannelReport(0, Statistics.of_keys([1, 2], [50.0, 50.0]))}
    decision, plan = Controller(planner("mixed")).next_decision(last, reports, pytest.fail)
    assert plan is None
    assert decision.install == last.install


def test_flux_sees_who_waited_for_whom() -> None:
    table = RoutingTable.initial(2, SLOTS)
    busy = {0: 8.0, 1: 2.0}
    reports = {
        c: ChannelReport(
            c,
            Statistics([], [], [], [], *(np.where(table.slots == c, busy[c], 0.0) for _ in range(3))),
            seconds=busy[c],
        )
        for c in (0, 1)
    }
    controller = Controller(planner("flux-load"), min_gain=0.9)
    decision, _ = controller.next_decision(Decision(0, table), reports, pytest.fail)
    assert decision.extract.slot_sources.tolist() == [0]
    assert decision.extract.slot_targets.tolist() == [1]


def test_a_large_migration_spreads_over_batches_cheapest_gain_first() -> None:
    statistics = Statistics([1, 2, 3], [1, 1, 1], cost=[10, 30, 20], state=[100, 100, 100])
    old = RoutingTable.initial(2, SLOTS).with_explicit([1, 2, 3], [0, 0, 0])
    new = old.with_explicit([1, 2, 3], [1, 1, 1])
    moved = Controller(planner("mixed"), max_move_bytes=200)._portion(old.moves_to(new), statistics, SLOTS)
    assert sorted(moved.keys.tolist()) == [2, 3]
    one = Controller(planner("mixed"), max_move_bytes=1)._portion(old.moves_to(new), statistics, SLOTS)
    assert one.keys.tolist() == [2], "one move at least"


def test_keys_on_the_move_do_not_keep_a_query_from_shrinking() -> None:
    """Where every batch moves some key, there is never one without a migration; only another resize is waited for."""
    table = RoutingTable.initial(4, SLOTS)
    nothing: Any = None
    scaling = Scaling(trigger_seconds=10.0, max_channels=4)
    runtime = Runtime(nothing, "query", nothing, nothing, nothing, nothing, nothing, nothing, scaling)
    wished: list[int] = []
    runtime.resize = wished.append  # type: ignore[method-assign]
    for batch_id in range(3):
        runtime._scale(Decision(batch_id, table, target=table.resize(3)), seconds=1.0)
    assert wished == []
    for batch_id in range(3):
        runtime._scale(Decision(batch_id, table, target=table.with_explicit([1], [2])), seconds=1.0)
    assert wished == [1]
