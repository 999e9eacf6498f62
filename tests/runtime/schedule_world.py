"""Plays schedules: a query whose keys move, split and time out, drivers that die, and drivers that will not die."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
from schedule_drawn import CALM, FIRST_BATCHES, OTHER, SMALL, Schedule, Script, Story
from schedule_operators import Row, SmoothTruth, Truth
from schedule_troubles import DIE, DiedError, Gate, Shared, TroubledJobs, Turns, files_of, in_a_world_of

from chaos.ledger import RandomMoves
from unskew.errors import CheckpointError, FencedError
from unskew.operators import Mergeable, Operator
from unskew.planners import planner
from unskew.runtime.engine import Engine
from unskew.runtime.history import History
from unskew.runtime.log import RecordLog
from unskew.runtime.orders import Order
from unskew.runtime.record import Output, Record
from unskew.runtime.settings import Channels, Keeping, Planning, Settings, Splitting
from unskew.runtime.site import Site
from unskew.runtime.wire import unpack
from unskew.splitters import splitter
from unskew.state import KeyedState
from unskew.testing.jobs import LocalJobs
from unskew.testing.place import MemoryFiles, MemoryPlace

SLOTS = 8
MOST_STARTS = 12


@dataclass(frozen=True)
class Asked:
    """What is asked of the query before a batch, and how the batch is balanced."""

    channels: int | None
    memory_bytes: int | None
    sweep: bool
    settings: Settings
    order: np.random.Generator | None  # of what comes through a shuffle
    machine: int = 0

    @classmethod
    def drawn(cls, schedule: Schedule, draw: tuple[int, ...], batch_id: int) -> Asked:
        """Draw it all, then let what is calm have its plain value: so nothing else changes when it is."""
        if schedule.seed == SMALL:
            return cls.small(schedule, batch_id)
        story, rng = schedule.story, np.random.default_rng((*draw, batch_id))
        asks = {
            "resize": int(rng.choice([1, 2, 2, 3, 4])) if rng.random() < 0.3 else None,
            "limit": int(rng.integers(1, 500)) if rng.random() < 0.1 else None,
            "sweep": bool(rng.random() < 0.2),
            "moves": RandomMoves(float(rng.choice([0.0, 0.5])), seed=int(rng.integers(1 << 20)), slots_drawn=0.3),
            "way": str(rng.choice(["forced", "ahead", "quiet"], p=[0.5, 0.2, 0.3])),
            "cap": int(rng.choice([64 << 20, 100, 1])),
            "tracked": [None, 2000, 3, 1][rng.integers(4)],
            "split": bool(rng.random() < 0.9),
            "memory": () if rng.random() < 0.7 else (150, 400),
            "inline": 4 << 20 if rng.random() < 0.7 else 0,
            "machine": int(rng.integers(2)),
        }
        plain = [None, None, False, planner("keep"), "forced", 64 << 20, None, True, (), 4 << 20, 0]
        asks |= {name: value for name, value in zip(CALM, plain, strict=False) if name in story.calm}
        quiet = asks["way"] == "quiet"
        planning = Planning(
            planner("mixed") if quiet else asks["moves"],
            "ahead" if asks["way"] == "ahead" else "own",
            max_move_bytes=asks["cap"],
            min_gain=0.02 if quiet else -np.inf,
            tracked_keys=asks["tracked"],
        )
        splitting = Splitting(auto=asks["split"] and story.scheme == "auto")
        if story.scheme not in ("", "auto"):
            splitting = Splitting(scheme=splitter(story.scheme))
        keeping = Keeping(1 << 26 if schedule.copies else 0, asks["memory"], schedule.records, asks["inline"])
        settings = Settings(Channels(story.channels, slots=SLOTS), planning, splitting, keeping)
        order = None if "order" in story.calm else rng
        return cls(asks["resize"], asks["limit"], asks["sweep"], settings, order, asks["machine"])

    @classmethod
    def small(cls, schedule: Schedule, batch_id: int) -> Asked:
        """Let keys and a slot move in every batch; in the last one there is a channel less."""
        story = schedule.story
        planning = Planning(RandomMoves(seed=5, slots_drawn=0.3), min_gain=-np.inf)
        keeping = Keeping(cache_bytes=1 << 26 if schedule.copies else 0, records=1, inline_bytes=0)
        splitting = Splitting(auto=story.scheme == "auto")
        settings = Settings(Channels(story.channels, slots=SLOTS), planning, splitting, keeping)
        return cls(2 if batch_id == 2 else None, None, False, settings, None)


@dataclass(eq=False)
class World:
    """What outlives every driver: the disk, what the sink was given, and what Spark knows."""

    schedule: Schedule
    draw: tuple[int, ...]  # what is drawn on the way depends on these numbers
    shared: Shared = field(default_factory=Shared)
    shown: dict[int, list[Row]] = field(default_factory=dict)
    committed: int = -1
    cache: str | None = None
    last: int = -1
    drivers: list[Driver] = field(default_factory=list)
    wrong: BaseException | None = None
    seen: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.shared.seen = self.seen

    @property
    def story(self) -> Story:
        """The story."""
        return self.schedule.story

    @property
    def log(self) -> RecordLog:
        """The records, as they are."""
        return RecordLog(MemoryFiles("memory", MemoryPlace(self.shared.contents)))

    def start(self, troubles: Mapping[int, str]) -> Driver:
        """Start a driver."""
        driver = Driver(self, len(self.drivers), Gate(dict(troubles), lose=self.lose_copies, seen=self.seen))
        self.drivers.append(driver)
        return driver

    def lose_copies(self) -> bool:
        """Remove all local copies; tell whether there were any."""
        folders = [*Path(self.cache).iterdir()] if self.cache else []
        for folder in folders:
            shutil.rmtree(folder)
        return bool(folders)

    def give(self, output: Output, batch_id: int, files: MemoryFiles) -> None:
        """Take the rows of a batch, whoever gives them; the second time they must be the same."""
        schema = self.story.model.bound.result_schema
        blobs = [*output.inline, *(files.read_piece(piece) for piece in output.pieces)]
        rows = [row for blob in blobs for row in unpack(blob).cast(schema).to_pylist()]
        self.seen["rows given again"] += batch_id in self.shown
        assert self.shown.setdefault(batch_id, rows) == rows, f"the sink got other rows for batch {batch_id}"
        self.seen["output in files"] += bool(output.pieces)
        self.seen["time-outs"] += sum(row.get("secret", 0) is None for row in rows)

    def count_figures(self, batch_id: int) -> None:
        """Count what a batch's figures tell of it."""
        figures = History(self.log.files).refresh().get(batch_id)
        if figures is None:  # its driver died before it could write them
            return
        self.seen[f"way {figures.way}"] += 1
        for name in ("moved_keys", "moved_slots", "split_keys", "late_rows"):
            self.seen[name.replace("_", " ")] += getattr(figures, name) > 0
        for found in figures.channel_found:
            self.seen[f"state from {found or 'nowhere'}"] += 1
        self.seen["spilled"] += any(figures.channel_spilled)
        before = self.log.read(batch_id - 1) if batch_id else None
        now = figures.channels
        channels = self.story.channels if batch_id == 0 else now if before is None else before.table.channels
        self.seen["more channels"] += now > channels
        self.seen["fewer channels"] += now < channels


@dataclass(eq=False)
class Driver:
    """One start of the query: runs batches until it is done, dies, or is fenced off."""

    world: World
    number: int
    gate: Gate
    end: str = ""
    fingerprint: str | None = None  # of its batches, unless Spark plans what it planned before
    done: int = -1
    """The last batch that this driver, or whoever ran before it, told Spark to be done."""

    def __post_init__(self) -> None:
        world = self.world
        self.files = files_of(world.shared, self.gate, world.schedule.far)
        self.engine = Engine(
            world.story.model.bound,
            self._asked(world.committed + 1).settings,
            RecordLog(self.files),
            f"query {self.number}",
            world.story.shuffled,
        )

    def _asked(self, batch_id: int) -> Asked:
        return Asked.drawn(self.world.schedule, (*self.world.draw, self.number), batch_id)

    def run(self) -> None:
        """Run to the end, whichever it is."""
        try:
            self._run()
            self.end = "done"
        except DiedError:
            self.end = "died"
        except FencedError as error:
            self.end = "fenced"
            self.world.seen["fenced off"] += 1
            if self.gate.turns is None:  # it ran alone: whoever started before was gone, and nobody started since
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
            asked = self._asked(number)
            if asked.channels is not None:
                engine.log.ask(channels=asked.channels)
            if asked.memory_bytes is not None:
                engine.log.ask(memory_bytes=[asked.memory_bytes])
            if asked.sweep:
                engine.log.forget(engine._committed, world.schedule.records)
            engine.settings = asked.settings
            if world.cache is not None:  # tasks run on either of two machines
                engine.cache_folder = str(Path(world.cache) / str(asked.machine))
            batch = world.story.inputs[number]
            jobs = TroubledJobs(batch.partitions, self.gate, asked.order, far=world.schedule.far)
            facts = batch.facts if self.fingerprint is None else replace(batch.facts, fingerprint=self.fingerprint)
            engine.run(facts, jobs, self._sink)
            world.seen["rows drained"] += jobs.drained
            self.gate("before Spark's commit")
            self.done, world.committed = number, max(world.committed, number)
            self.gate("after Spark's commit")
            world.count_figures(number)

    def _sink(self, output: Output, batch_id: int) -> None:
        self.gate(f"before sink {batch_id}")
        self.world.give(output, batch_id, self.files)
        self.gate(f"after sink {batch_id}")


@dataclass(frozen=True, eq=False)
class Beginning:
    """The disk and the output before each of the first batches of a story."""

    disks: list[dict[str, bytes]]
    shown: list[dict[int, list[Row]]]


@lru_cache(maxsize=4)
def beginning(story: Story, seed: int) -> Beginning:
    """Run the first batches of a story smoothly."""
    batches = min(FIRST_BATCHES, len(story.batches))
    rng = np.random.default_rng((max(seed, 0), 2))
    schedule = Schedule(seed, story, 0, 0, (), records=1 if seed == SMALL else 10)
    world = World(schedule, (max(seed, 0), 2))
    disks, shown = list[dict[str, bytes]](), list[dict[int, list[Row]]]()
    with in_a_world_of(rng, sweep_every=1 if seed == SMALL else 100, even_clock="clock" in story.calm):
        driver = world.start({})
        for last in range(batches + 1):
            disks.append(dict(world.shared.contents))
            shown.append(dict(world.shown))
            if last < batches:
                world.last = last
                driver.run()
                check_not_wrong(world)
    return Beginning(disks, shown)


def play(schedule: Schedule, tell: Callable[[str], None] | None = None) -> World:
    """Play a schedule to its end and check everything."""
    story, seed, smooth = schedule.story, max(schedule.seed, 0), schedule.smooth
    first = beginning(story, SMALL if schedule.seed == SMALL else story.seed)
    rng = np.random.default_rng((seed, 4))
    shared = Shared(dict(first.disks[smooth]), rng.spawn(1)[0] if schedule.late else None)
    with tempfile.TemporaryDirectory(prefix="unskew-schedule-") if schedule.copies else nullcontext() as folder:
        world = World(schedule, (seed, 5), shared, dict(first.shown[smooth]), smooth - 1, folder, schedule.last)
        world.seen[f"operator {story.kind}"] = world.seen[f"scheme {story.scheme or 'none'}"] = 1
        world.seen["far"] = int(schedule.far)
        even = "clock" in story.calm
        with in_a_world_of(rng, schedule.sweep_every, schedule.pieces, even_clock=even):
            try:
                for start in schedule.starts:
                    if world.committed < world.last and world.wrong is None:
                        _other_rows(world) if start == OTHER else _start(world, Script.read(start))
                while world.committed < world.last and world.wrong is None:
                    assert len(world.drivers) < MOST_STARTS, "no driver comes to an end"
                    world.start({}).run()
                check_not_wrong(world)
            finally:
                if tell is not None:
                    _tell(world, tell)
            check(world)
    return world


def _start(world: World, script: Script) -> None:
    """Start a driver to which something happens, and another one if that is what happens."""
    if script.pause is None:
        world.start(script.troubles).run()
        return
    turns, threads = Turns(), dict[str, tuple[Driver, threading.Thread]]()

    def begin(name: str, troubles: Mapping[int, str]) -> None:
        driver = world.start(troubles)
        driver.gate.turns = turns

        def run() -> None:
            driver.gate.go.acquire()
            driver.run()
            turns.back.release()

        thread = threading.Thread(target=run, name=f"driver {driver.number}")
        thread.start()
        threads[name] = driver, thread

    def let_run(name: str, moments: float) -> None:
        driver = threads[name][0]
        if not driver.end:
            driver.gate.budget = moments
            driver.gate.go.release()
            turns.back.acquire()

    try:
        begin("old", script.troubles)
        let_run("old", script.pause - 1)
        world.seen["two drivers"] += not threads["old"][0].end
        begin("new", {} if script.second_dies is None else {script.second_dies: DIE})
        for name, moments in (*script.turns, ("new", np.inf), ("old", np.inf)):
            let_run(name, moments)
    finally:
        for driver, thread in threads.values():
            if not driver.end:
                driver.gate.ended = True
                driver.gate.go.release()
            thread.join(timeout=60)


def _other_rows(world: World) -> None:
    """Let Spark plan the next batch anew, as if somebody had removed its offsets."""
    number, before = world.committed + 1, {**world.shown}
    if world.log.read(number) is None:
        return
    world.seen["other rows"] += 1
    driver = world.start({})
    driver.fingerprint = "another"
    driver.run()
    assert driver.end.startswith("stopped: ") and f"offsets/{number}" in driver.end, driver.end
    assert world.shown == before, "the sink got rows"
    world.wrong = None


def check_not_wrong(world: World) -> None:
    """Raise what has gone wrong in a driver."""
    if world.wrong is not None:
        raise world.wrong


def check(world: World) -> None:
    """Check output, state, and that a sweep leaves what records name, and nothing else."""
    story, log = world.story, world.log
    truth, before_ms = truth_of(story), 0
    for batch in story.inputs[: world.last + 1]:
        assert batch.facts.batch_id in world.shown, f"the sink never got batch {batch.facts.batch_id}"
        truth.batch(batch, before_ms, world.shown[batch.facts.batch_id])
        before_ms = batch.facts.watermark_ms or 0
    _, committed = log.last()
    assert committed == world.last, "the last batch is committed"
    record = log.read(committed)
    assert record is not None, "the last batch has a record"
    if isinstance(truth, SmoothTruth):
        truth.held = smooth_run(story)[1][world.last]
    truth.state(held_rows(record, log, story.model.bound))
    log.forget(committed, world.schedule.records)
    check_files(log, world.shared.contents)


def truth_of(story: Story) -> Truth:
    """Return who knows what must come out."""
    model = story.model
    truth = model.truth(model.bound, not story.shuffled)
    if isinstance(truth, SmoothTruth):
        truth.shown = smooth_run(story)[0]
    return truth


@lru_cache(maxsize=4)
def smooth_run(story: Story) -> tuple[list[list[Row]], list[list[Row]]]:
    """Return the output of every batch and the state after it, with one channel and without any trouble."""
    operator, contents = story.model.bound, dict[str, bytes]()
    log = RecordLog(MemoryFiles("memory", MemoryPlace(contents)))
    settings = Settings(Channels(1, slots=SLOTS), Planning(planner("keep")), keeping=Keeping(cache_bytes=0))
    engine, shown, held = (
        Engine(operator, settings, log, "smooth", story.shuffled),
        list[list[Row]](),
        list[list[Row]](),
    )

    def sink(output: Output, batch_id: int) -> None:
        tables = [unpack(blob).cast(operator.result_schema) for blob in output.inline]
        shown.append([row for table in tables for row in table.to_pylist()])

    for batch in story.inputs:
        engine.run(batch.facts, LocalJobs(batch.partitions), sink)
        record = log.read(batch.facts.batch_id)
        assert record is not None
        held.append(held_rows(record, log, operator))
    return shown, held


def held_rows(record: Record, log: RecordLog, operator: Operator) -> list[Row]:
    """Return the state; every key must lie where the table says."""
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
        return []
    held = pa.concat_tables(parts)
    if isinstance(operator, Mergeable):
        groups, values = KeyedState.group_stored_rows(held, operator.key_schema, operator.value_schema)
        return operator.finish(groups.keys, operator.merge(values, groups)).to_pylist()
    return held.to_pylist()


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


def _tell(world: World, tell: Callable[[str], None]) -> None:
    tell(f"schedule {world.schedule}")
    for driver in world.drivers:
        tell(f"  driver {driver.number} {driver.end or 'never ended'} after {driver.gate.moments} moments:")
        for moment in driver.gate.trace:
            tell(f"    {moment}")
