"""Random schedules: a query whose keys move, split and time out, drivers that die, and drivers that will not die."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from schedule_operators import OPERATORS, SCHEMA, Input, Row, Truth, operator_and_truth
from schedule_troubles import DIE, FAIL, DiedError, Gate, Shared, TroubledJobs, Turns, files_of, in_a_world_of

from unskew.errors import CheckpointError, FencedError
from unskew.operators import Mergeable, Operator
from unskew.planners import Assignment, Memory, Planner, Problem, planner
from unskew.routing import RoutingTable
from unskew.runtime.engine import Engine
from unskew.runtime.jobs import Facts
from unskew.runtime.log import RecordLog
from unskew.runtime.orders import Order
from unskew.runtime.record import Output, Record
from unskew.runtime.settings import Channels, Keeping, Planning, Settings, Splitting
from unskew.runtime.site import Site
from unskew.runtime.wire import unpack
from unskew.splitters import splitter
from unskew.state import KeyedState
from unskew.testing.place import MemoryFiles, MemoryPlace

SLOTS = 8
PER_STORY = 25
"""Schedules that begin with the same batches."""

KINDS = (*OPERATORS, "integers", "floats")
FIRST_BATCHES = 5
MOST_BATCHES = FIRST_BATCHES + 3


@dataclass(frozen=True)
class RandomMoves(Planner):
    """Gives half of the keys and a third of the slots to channels drawn at random."""

    tolerance: float = 0.0
    seed: int = 0

    def slots(self, table: RoutingTable, channels: int) -> np.ndarray:
        rng, slots = np.random.default_rng((self.seed, table.version)), super().slots(table, channels)
        drawn = rng.integers(0, channels, len(slots))
        return np.where(rng.random(len(slots)) < 0.3, drawn, slots).astype(np.int32)

    def assign(self, problem: Problem, memory: Memory) -> Assignment:
        drawn = int(memory.values.get("drawn", 0))
        rng = np.random.default_rng((self.seed, drawn, 1))
        stay = (rng.random(len(problem.hashes)) < 0.5) & (problem.current < problem.channels)
        owner = np.where(stay, problem.current, rng.integers(0, problem.channels, len(problem.hashes)))
        return Assignment(owner.astype(np.int32), memory=Memory({"drawn": drawn + 1}))


@dataclass(frozen=True, eq=False)
class Story:
    """A stream: the operator, the rows of all batches, and what does not change from start to start."""

    seed: int
    kind: str
    batches: tuple[Input, ...]
    shuffled: bool
    scheme: str | None
    splits: bool
    channels: int

    @property
    def operator(self) -> Operator:
        """The operator, bound."""
        return operator_and_truth(self.kind)[0]

    @classmethod
    def drawn(cls, seed: int) -> Story:
        """Draw a story."""
        rng = np.random.default_rng((seed, 1))
        kind = KINDS[seed % len(KINDS)]
        splits = kind in ("integers", "floats")
        scheme = str(rng.choice(["pkg", "d-choices", "shuffle"])) if splits and rng.random() < 0.35 else None
        shuffled = bool(rng.random() < 0.2)
        batches = drawn_batches(rng, MOST_BATCHES, heat=0.85 if splits else 0.5)
        channels = int(rng.choice([2, 3, 4] if splits else [1, 2, 2, 3]))
        return cls(seed, kind, batches, shuffled, scheme, splits, channels)


def drawn_batches(rng: np.random.Generator, count: int, heat: float = 0.5) -> tuple[Input, ...]:
    """Draw batches: few keys, skewed, and the hot ones change; some have no rows."""
    sequences: dict[int, int] = {}
    now, watermark, batches = 10_000, 0, []
    for number in range(count):
        now, watermark = now + int(rng.integers(0, 3000)), watermark + int(rng.choice([0, 0, 1000, 3000]))
        rows = int(rng.choice([0, rng.integers(1, 4), rng.integers(4, 14)], p=[0.2, 0.3, 0.5]))
        partitions = []
        for source in range(int(rng.integers(1, 3))):
            some = rows if source == 0 else rows // 2
            first = sequences.get(source, 0)
            sequences[source] = first + some
            hot = rng.random(some) < heat
            keys = np.where(hot, number // 3, rng.integers(0, 7, some))
            times = (watermark + rng.integers(-6000, 6000, some)).clip(0) * 1000
            columns = [
                [f"k{key}" for key in keys],
                np.full(some, source),
                np.arange(first, first + some),
                rng.integers(-9, 100, some),
                rng.random(some) * 10 ** rng.integers(0, 6),
                pa.array(times, pa.timestamp("us")),
            ]
            partitions.append(pa.table(columns, schema=SCHEMA))
        if rows == 0 and rng.random() < 0.3:
            partitions = []
        empty = sum(each.num_rows for each in partitions) == 0 and bool(rng.random() < 0.6)
        facts = Facts(number, f"offsets of {number}", now, watermark, empty)
        batches.append(Input(facts, tuple(partitions)))
    return tuple(batches)


@dataclass(eq=False)
class World:
    """What outlives every driver: the disk, what the sink was given, and what Spark knows."""

    story: Story
    rng: np.random.Generator
    last: int
    records: int = 10
    rough: float = 0.0
    cache: str | None = None
    shared: Shared = field(default_factory=Shared)
    shown: dict[int, list[Row]] = field(default_factory=dict)
    committed: int = -1
    far: bool = False
    drivers: list[Driver] = field(default_factory=list)
    wrong: BaseException | None = None

    @property
    def log(self) -> RecordLog:
        """The records, as they are."""
        return RecordLog(MemoryFiles("memory", MemoryPlace(self.shared.contents)))

    def start(self, troubles: dict[int, str]) -> Driver:
        """Start a driver."""
        driver = Driver(self, len(self.drivers), Gate(troubles))
        self.drivers.append(driver)
        return driver

    def before_batch(self, driver: Driver, number: int) -> None:
        """Draw what happens before a batch, and how it is balanced."""
        engine, rng = driver.engine, driver.rng
        if rng.random() < 0.3:
            engine.log.ask(channels=int(rng.choice([1, 2, 2, 3, 4])))
        if rng.random() < 0.1:
            engine.log.ask(memory_bytes=[int(rng.integers(1, 500))])
        if rng.random() < 0.2:
            engine.log.forget(engine._committed, self.records)
        engine.settings = self.settings(rng)

    def settings(self, rng: np.random.Generator) -> Settings:
        """Draw how a batch is balanced."""
        story = self.story
        told = RandomMoves(float(rng.choice([0.0, 0.5])), seed=int(rng.integers(1 << 20)))
        way = rng.choice(["forced", "ahead", "quiet"], p=[0.5, 0.2, 0.3])
        planning = Planning(
            told if way != "quiet" else planner("mixed"),
            "ahead" if way == "ahead" else "own",
            max_move_bytes=int(rng.choice([64 << 20, 100, 1])),
            min_gain=0.02 if way == "quiet" else -np.inf,
            tracked_keys=[None, 2000, 3, 1][rng.integers(4)],
        )
        splitting = Splitting()
        if story.scheme is not None:
            splitting = Splitting(scheme=splitter(story.scheme))
        elif story.splits:
            splitting = Splitting(auto=bool(rng.random() < 0.9))
        keeping = Keeping(
            cache_bytes=1 << 26 if self.cache else 0,
            memory_bytes=() if rng.random() < 0.7 else (150, 400),
            records=self.records,
            inline_bytes=4 << 20 if rng.random() < 0.7 else 0,
        )
        return Settings(Channels(story.channels, slots=SLOTS), planning, splitting, keeping)

    def give(self, output: Output, batch_id: int, files: MemoryFiles) -> None:
        """Take the rows of a batch, whoever gives them; the second time they must be the same."""
        schema = self.story.operator.result_schema
        blobs = [*output.inline, *(files.read_piece(piece) for piece in output.pieces)]
        rows = [row for blob in blobs for row in unpack(blob).cast(schema).to_pylist()]
        assert self.shown.setdefault(batch_id, rows) == rows, f"the sink got other rows for batch {batch_id}"


@dataclass(eq=False)
class Driver:
    """One start of the query: runs batches until it is done, dies, or is fenced off."""

    world: World
    number: int
    gate: Gate
    end: str = ""
    done: int = -1
    """The last batch that this driver, or whoever ran before it, told Spark to be done."""

    def __post_init__(self) -> None:
        world = self.world
        self.rng = np.random.default_rng((world.rng.integers(1 << 30), self.number))
        self.files = files_of(world.shared, self.gate, world.far)
        self.engine = Engine(
            world.story.operator,
            world.settings(self.rng),
            RecordLog(self.files),
            f"query {self.number}",
            world.story.shuffled,
            world.cache and str(Path(world.cache) / str(self.rng.integers(2))),
        )

    def run(self) -> None:
        """Run to the end, whichever it is."""
        try:
            self._run()
            self.end = "done"
        except DiedError:
            self.end = "died"
        except FencedError as error:
            self.end = "fenced"
            if len(self.world.drivers) == 1:
                self.world.wrong = error
        except CheckpointError as error:
            self.end = f"stopped: {error}"
            overtaken = self.world.drivers[-1] is not self or self.world.committed > self.done
            if not (overtaken or self.gate.failed):
                self.world.wrong = error
        except BaseException as error:
            self.end = f"broke: {error!r}"
            self.world.wrong = error

    def _run(self) -> None:
        world, engine = self.world, self.engine
        self.done = world.committed
        for number in range(world.committed + 1, world.last + 1):
            world.before_batch(self, number)
            batch = world.story.batches[number]
            jobs = TroubledJobs(batch.partitions, self.gate, self.rng, world.rough, far=world.far)
            engine.run(batch.facts, jobs, self._sink)
            self.gate("before Spark's commit")
            self.done, world.committed = number, max(world.committed, number)
            self.gate("after Spark's commit")

    def _sink(self, output: Output, batch_id: int) -> None:
        self.gate(f"before sink {batch_id}")
        self.world.give(output, batch_id, self.files)
        self.gate(f"after sink {batch_id}")


@dataclass(frozen=True, eq=False)
class Beginning:
    """The disk and the output before each of the first batches of a story, and the moments that a batch takes."""

    story: Story
    disks: list[dict[str, bytes]]
    shown: list[dict[int, list[Row]]]
    moments: int


@lru_cache(maxsize=4)
def beginning(story_seed: int) -> Beginning:
    """Run the first batches of a story smoothly."""
    rng = np.random.default_rng((story_seed, 2))
    world = World(Story.drawn(story_seed), rng, -1)
    with in_a_world_of(rng, sweep_every=100):
        return smooth_run(world, FIRST_BATCHES)


def smooth_run(world: World, batches: int) -> Beginning:
    """Run batches without any trouble."""
    driver, disks, shown = world.start({}), list[dict[str, bytes]](), list[dict[int, list[Row]]]()
    for last in range(batches + 1):
        disks.append(dict(world.shared.contents))
        shown.append(dict(world.shown))
        if last < batches:
            world.last = last
            driver.run()
            check_not_wrong(world)
    return Beginning(world.story, disks, shown, driver.gate.moments // batches)


def play(seed: int, tell: Callable[[str], None] | None = None) -> World:
    """Play a schedule to its end and check everything."""
    rng = np.random.default_rng((seed, 3))
    start = beginning(seed // PER_STORY)
    first = int(rng.integers(0, FIRST_BATCHES + 1))
    last = first + int(rng.choice([0, 1, 2], p=[0.75, 0.2, 0.05]))
    records, rough = int(rng.choice([1, 2, 10])), float(rng.choice([0.0, 0.05]))
    shared = Shared(dict(start.disks[first]), rng.spawn(1)[0] if rng.random() < 0.2 else None)
    cached, far = rng.random() < 0.25, seed % 8 == 7
    with tempfile.TemporaryDirectory(prefix="unskew-schedule-") if cached else nullcontext() as folder:
        world = World(start.story, rng, last, records, rough, folder, shared, dict(start.shown[first]), first - 1, far)
        with in_a_world_of(rng, sweep_every=int(rng.integers(1, 4)), in_small_pieces=bool(rng.random() < 0.3)):
            try:
                _troubled(world, start.moments)
                while world.committed < last and world.wrong is None:
                    assert len(world.drivers) < 12, "no driver comes to an end"
                    world.start({}).run()
                check_not_wrong(world)
            finally:
                if tell is not None:
                    _tell(world, seed, first, tell)
            check(world)
    return world


def _troubled(world: World, per_batch: int) -> None:
    """Start drivers in turn, to each of which something happens: it dies, its disk fails, or another one takes over."""
    rng = world.rng
    for _ in range(int(rng.choice([1, 2, 3], p=[0.6, 0.3, 0.1]))):
        if world.committed >= world.last or world.wrong is not None:
            return
        at = int(rng.integers(1, per_batch))
        trouble = str(rng.choice([DIE, FAIL, "pause"], p=[0.5, 0.15, 0.35]))
        if trouble == "pause":
            duel(world, at, per_batch)
        else:
            world.start({at: trouble}).run()


def duel(world: World, pause_at: int, per_batch: int) -> None:
    """Let a driver run up to some moment, start a second one, then let both go on in turns."""
    rng, turns = world.rng, Turns()
    threads: list[tuple[Driver, threading.Thread]] = []

    def begin() -> None:
        troubles = {int(rng.integers(1, 2 * per_batch)): DIE} if rng.random() < 0.2 else {}
        driver = world.start(troubles)
        driver.gate.turns = turns

        def run() -> None:
            driver.gate.go.acquire()
            driver.run()
            turns.back.release()

        thread = threading.Thread(target=run, name=f"driver {driver.number}")
        thread.start()
        threads.append((driver, thread))

    def let_run(driver: Driver, moments: float) -> None:
        driver.gate.budget = moments
        driver.gate.go.release()
        turns.back.acquire()

    try:
        begin()
        let_run(threads[0][0], pause_at)
        begin()
        while alive := [driver for driver, _ in threads if not driver.end]:
            driver = alive[int(rng.integers(len(alive)))]
            let_run(driver, float(rng.choice([1, 5, 30, np.inf])))
    finally:
        for driver, thread in threads:
            if not driver.end:
                driver.gate.ended = True
                driver.gate.go.release()
            thread.join(timeout=60)


def check_not_wrong(world: World) -> None:
    """Raise what has gone wrong in a driver."""
    if world.wrong is not None:
        raise world.wrong


def check(world: World) -> None:
    """Check output, state, and that a sweep leaves what records name, and nothing else."""
    story, log = world.story, world.log
    _, truth = operator_and_truth(story.kind, orderly=not story.shuffled)
    before_ms = 0
    for batch in story.batches[: world.last + 1]:
        truth.batch(batch, before_ms, world.shown[batch.facts.batch_id])
        before_ms = batch.facts.watermark_ms or 0
    _, committed = log.last()
    assert committed == world.last, "the last batch is committed"
    record = log.read(committed)
    assert record is not None, "the last batch has a record"
    check_state(record, log, story.operator, truth)
    log.forget(committed, world.records)
    check_files(log, world.shared.contents)


def check_state(record: Record, log: RecordLog, operator: Operator, truth: Truth) -> None:
    """Read the state and compare it; every key must lie where the table says."""
    site, parts = Site(log.files, "reader", operator, SLOTS, cache_bytes=0), []
    for channel, kept in record.channels.items():
        state, _ = site.open(Order(channel, kept.manifest))
        with state:
            assert state.rows == kept.rows, "rows as recorded"
            rows = pa.concat_tables([state.row_schema.empty_table(), *state.scan()])
        for key in rows.column("hash").to_pylist():
            assert channel in record.table.candidates(key), f"state of {key} in channel {channel}"
        parts.append(rows)
    if not parts:
        truth.state([])
        return
    held = pa.concat_tables(parts)
    if isinstance(operator, Mergeable):
        groups, values = KeyedState.group_stored_rows(held, operator.key_schema, operator.value_schema)
        truth.state(operator.finish(groups.keys, operator.merge(values, groups)).to_pylist())
    else:
        truth.state(held.to_pylist())


def check_files(log: RecordLog, contents: dict[str, bytes]) -> None:
    """Check that all files belong to records, and all files of records are there."""
    named, numbers = set(), log._numbers("prepared")
    for number in numbers:
        record = log.read(number)
        assert record is not None
        named |= {name for channel in record.channels.values() for name in channel.files}
        named |= {piece.file for piece in record.output.pieces}
    found = {name for name in contents if name.startswith(("state/", "output/"))}
    assert named - found == set(), "files that a record names are missing"
    assert found - named == set(), "files are left that no record names"
    assert log._numbers("commit") == numbers, "a record and a mark for each batch retained"
    known = ("state", "output", "prepared", "commit", "epochs", "history", "requests", "tick")
    assert {name.split("/")[0] for name in contents} <= set(known), "no other files"


def _tell(world: World, seed: int, first: int, tell: Callable[[str], None]) -> None:
    story = world.story
    tell(f"schedule {seed}: {story.kind}, batches {first} to {world.last}, {world.records} records retained")
    tell(f"  scheme {story.scheme}, shuffled {story.shuffled}, local copies {world.cache is not None}")
    for driver in world.drivers:
        tell(f"  driver {driver.number} {driver.end or 'never ended'} after {driver.gate.moments} moments:")
        for moment in driver.gate.trace:
            tell(f"    {moment}")


def figures_of(world: World) -> dict[str, Any]:
    """Return how much a schedule covered."""
    return {
        "drivers": len(world.drivers),
        "moments": sum(driver.gate.moments for driver in world.drivers),
        "struck": sum(driver.gate.struck for driver in world.drivers),
        "fenced": sum(driver.end == "fenced" for driver in world.drivers),
    }
