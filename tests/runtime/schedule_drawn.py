"""A schedule as a plain value: drawn from a seed, written as a line of text, and read back from it."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from schedule_operators import KINDS, SCHEMA, Input, Kind
from schedule_troubles import AGAIN, DIE, DOWN, FAIL, LOSE, TASK_DIES, TWICE, UNSAID

from unskew.runtime.jobs import Facts

SMALL = -1
"""The seed of the small case, whose moments are tried one by one."""

PER_STORY = 25
"""Schedules that begin with the same batches."""

FIRST_BATCHES = 4
MOST_BATCHES = FIRST_BATCHES + 3
MOMENTS = 70
"""About as many as a batch takes, so that most troubles strike in the first one."""

OTHER = "other"
"""A start to which Spark gives other rows for the next batch; if the batch has a record, it must be refused."""

Kept = tuple[tuple[int, tuple[int, ...]], ...]

CALM = (
    *("resize", "limit", "sweep", "moves", "way", "cap", "tracked", "split", "memory", "inline", "machine"),
    *("order", "clock"),
)
"""What a schedule draws for every batch; those that are calm have the same plain value in all batches."""


@dataclass(frozen=True)
class Story:
    """A stream, and what does not change from start to start."""

    seed: int
    kind: str
    batches: Kept  # the number of a batch as it was drawn, and which of its rows are kept
    channels: int
    scheme: str = ""  # "auto" splits keys that are too hot
    shuffled: bool = False
    calm: tuple[str, ...] = ()

    @property
    def model(self) -> Kind:
        """The operator."""
        return KINDS[self.kind]

    @cached_property
    def inputs(self) -> tuple[Input, ...]:
        """The rows of the batches, as the operator reads them."""
        drawn, inputs = drawn_batches(self.seed, heat_of(self.kind)), []
        for batch_id, (number, rows) in enumerate(self.batches):
            batch, first, partitions = drawn[number], 0, []
            for part in batch.partitions:
                some = [row - first for row in rows if first <= row < first + part.num_rows]
                partitions.append(self.model.shape(part if len(some) == part.num_rows else part.take(some)))
                first += part.num_rows
            facts = replace(batch.facts, batch_id=batch_id, fingerprint=f"offsets of {batch_id}")
            inputs.append(Input(facts, tuple(partitions)))
        return tuple(inputs)


@dataclass(frozen=True)
class Schedule:
    """A story, and what happens to its drivers: all that a run depends on, except the code."""

    seed: int
    story: Story
    smooth: int  # batches that ran smoothly before
    last: int  # the last batch
    starts: tuple[str, ...]  # what happens to each start of the query; see `schedule_troubles.TROUBLES`
    records: int = 10
    sweep_every: int = 100
    late: bool = False  # listings show new files late
    copies: bool = False  # tasks keep local copies of state
    far: bool = False  # tasks cannot reach files
    pieces: bool = False  # whatever is cut into pieces is cut into small ones

    @classmethod
    def drawn(cls, seed: int) -> Schedule:
        """Draw a schedule."""
        if seed == SMALL:
            return cls.small()
        story, rng = drawn_story(seed // PER_STORY), np.random.default_rng((seed, 3))
        smooth = int(rng.integers(0, FIRST_BATCHES + 1))
        count = int(rng.choice([1, 2, 3], p=[0.6, 0.3, 0.1]))
        copies = bool(rng.random() < 0.2)
        others = (OTHER,) if rng.random() < 0.2 else ()
        return cls(
            seed,
            story,
            smooth,
            last=smooth + int(rng.choice([0, 1, 2], p=[0.4, 0.3, 0.3] if copies else [0.8, 0.15, 0.05])),
            starts=(*(_drawn_start(rng, copies) for _ in range(count)), *others),
            records=int(rng.choice([1, 2, 10])),
            sweep_every=int(rng.integers(1, 4)),
            late=bool(rng.random() < 0.2),
            copies=copies,
            far=seed % 8 == 7,
            pieces=bool(rng.random() < 0.3),
        )

    @classmethod
    def small(cls, kind: str = "integers", last: int = 2, **others: Any) -> Schedule:
        """Return the small case: three batches in which keys move, split or whole, a slot moves, and a channel goes."""
        scheme = "auto" if KINDS[kind].bound.splittable else ""
        story = Story(72, kind, every_row(drawn_batches(72, heat_of(kind))[:3]), 3, scheme)
        return cls(SMALL, story, last, last, (), records=1, sweep_every=1, **others)

    def __str__(self) -> str:
        """The seed, and all in which the schedule differs from the one that the seed draws."""
        usual = Schedule.drawn(self.seed)
        said = [f"{name}={_text(value)}" for name, value in _values(self).items() if value != _values(usual)[name]]
        return " ".join([str(self.seed), *said])

    @classmethod
    def read(cls, text: str) -> Schedule:
        """Read what `str` wrote."""
        seed, *said = text.split(" ")
        schedule = cls.drawn(int(seed))
        for name, _, value in (part.partition("=") for part in said):
            schedule = schedule.having(**{name: _value(name, value, _values(schedule)[name])})
        return schedule

    def having(self, **changes: Any) -> Schedule:
        """Return the schedule with other values, its own or the story's."""
        of_story = {name: changes.pop(name) for name in [*changes] if name in _STORY}
        return replace(self, story=replace(self.story, **of_story), **changes)


_STORY = tuple(each.name for each in fields(Story) if each.name != "seed")


def _values(schedule: Schedule) -> dict[str, Any]:
    own = {each.name: getattr(schedule, each.name) for each in fields(schedule) if each.name not in ("seed", "story")}
    return {name: getattr(schedule.story, name) for name in _STORY} | own


def _text(value: Any) -> str:
    if not isinstance(value, tuple):
        return str(value)
    if value and isinstance(value[0], tuple):  # batches and their rows
        return ",".join(f"{number}:{'.'.join(map(str, rows))}" for number, rows in value)
    return ",".join(value)


def _value(name: str, text: str, like: Any) -> Any:
    if isinstance(like, bool):
        return text == "True"
    if isinstance(like, (int, str)):
        return type(like)(text)
    parts = text.split(",") if text else []
    if name == "batches":
        pairs = (part.split(":") for part in parts)
        return tuple((int(number), tuple(int(row) for row in rows.split(".") if row)) for number, rows in pairs)
    return tuple(parts)


def _drawn_start(rng: np.random.Generator, copies: bool) -> str:
    """Draw what happens to a start: mostly it dies, its disk fails, or another start takes over."""

    def moment(most: int = MOMENTS) -> int:
        return int(rng.integers(1, most))

    chosen = str(rng.choice([DIE, FAIL, UNSAID, DOWN, "pause"], p=[0.4, 0.1, 0.1, 0.05, 0.35]))
    troubles = [f"{chosen}@{moment()}"]
    if chosen == "pause":
        turns = [f"{rng.choice(['old', 'new'])}{rng.choice(['1', '5', '30', ''])}" for _ in range(rng.integers(1, 9))]
        dies = [f"die{moment(2 * MOMENTS)}"] if rng.random() < 0.2 else []
        troubles = ["/".join([troubles[0], *dies, *turns])]
    if rng.random() < 0.5:
        troubles.append(f"{rng.choice([TASK_DIES, TWICE, AGAIN])}@{moment()}")
    if copies and rng.random() < 0.4:
        troubles.append(f"{LOSE}@{moment()}")
    return "+".join(troubles)


@lru_cache(maxsize=8)
def drawn_story(seed: int) -> Story:
    """Draw a story."""
    rng = np.random.default_rng((seed, 1))
    kind = [*KINDS][seed % len(KINDS)]
    splits = KINDS[kind].bound.splittable
    scheme = "auto" if splits else ""
    if splits and rng.random() < 0.35:
        scheme = str(rng.choice(["pkg", "d-choices", "shuffle"]))
    channels = int(rng.choice([2, 3, 4] if splits else [1, 2, 2, 3]))
    batches = every_row(drawn_batches(seed, heat_of(kind)))
    return Story(seed, kind, batches, channels, scheme, shuffled=bool(rng.random() < 0.2))


def heat_of(kind: str) -> float:
    """Return the share of rows that have the hottest key."""
    return 0.85 if KINDS[kind].bound.splittable else 0.5


def every_row(batches: tuple[Input, ...]) -> Kept:
    """Return what keeps all rows."""
    sizes = [sum(part.num_rows for part in batch.partitions) for batch in batches]
    return tuple((number, tuple(range(size))) for number, size in enumerate(sizes))


@lru_cache(maxsize=8)
def drawn_batches(seed: int, heat: float) -> tuple[Input, ...]:
    """Draw batches: few keys, skewed, and the hot ones change; some have no rows."""
    rng = np.random.default_rng((seed, 11))
    sequences: dict[int, int] = {}
    now, watermark, batches = 10_000, 0, []
    for number in range(MOST_BATCHES):
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
        batches.append(Input(Facts(number, "", now, watermark, empty), tuple(partitions)))
    return tuple(batches)


@dataclass(frozen=True)
class Script:
    """What happens to one start, and to the one that takes over from it, if one does."""

    troubles: dict[int, str] = field(default_factory=dict)
    pause: int | None = None  # the moment before which a second start begins
    second_dies: int | None = None
    turns: tuple[tuple[str, float], ...] = ()  # who goes on then, and for how many moments

    @classmethod
    def read(cls, text: str) -> Script:
        """Read one of `Schedule.starts`."""
        troubles, pause, dies, turns = dict[int, str](), None, None, list[tuple[str, float]]()
        for part in text.split("+"):
            head, *rest = part.split("/")
            kind, _, moment = head.partition("@")
            if kind != "pause":
                troubles[int(moment)] = kind
                continue
            pause = int(moment)
            for each in rest:
                if each.startswith("die"):
                    dies = int(each[3:])
                else:
                    turns.append((each[:3], float(each[3:] or "inf")))
        return cls(troubles, pause, dies, tuple(turns))
