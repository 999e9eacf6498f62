"""Every operator against a plain account of the same rows.

On uniform, Zipf and drifting streams, with rows out of order and late, null keys, values and times, while keys and
slots change their channel at every batch and everything but the store is lost in the middle.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from unskew.jobs.operators import known_operators
from unskew.operators import (
    Aggregate,
    DecisionTree,
    DecisionTreeModel,
    HeaviestKeys,
    HeavyHitters,
    Histogram,
    History,
    IntervalJoin,
    NaiveBayes,
    NaiveBayesClassifier,
    Operator,
    ProgressiveSort,
    SelfJoin,
    SessionAggregate,
    TableJoin,
    WindowAggregate,
    grow,
)
from unskew.testing import ABORT, MOVE, MOVE_SLOT, RESTART, run

BATCHES, ROWS, KEYS, CHANNELS, SLOTS, DELAY = 5, 150, 25, 3, 16, 15
LAST = 10_000  # a row far in the future, so that all that waits comes out
SHAPES = ("uniform", "zipf", "drifting")
CLASSES = ["x", "y"]

Row = dict[str, Any]


@cache
def stream(shape: str) -> tuple[list[Row], ...]:
    """Return batches of rows; times are in seconds, and the last batches let time pass."""
    random = np.random.default_rng(SHAPES.index(shape))
    weight = 1 / np.arange(1, KEYS + 1) ** (0.0 if shape == "uniform" else 1.2)
    batches = []
    for batch in range(BATCHES):
        ranks = random.choice(KEYS, ROWS, p=weight / weight.sum())
        users = (ranks + 7 * batch) % KEYS if shape == "drifting" else ranks
        seconds = 30 * batch + random.integers(0, 40, ROWS) - 70 * (random.random(ROWS) < 0.06)
        batches.append(
            [
                {
                    "user": None if user == 3 else f"u{user}",
                    "at": None if random.random() < 0.03 else int(second) + 1000,
                    "id": ROWS * batch + number,
                    "amount": None if random.random() < 0.1 else int(random.integers(-9, 9)),
                    "word": None if random.random() < 0.05 else f"w{random.zipf(1.5) % 20}",
                    "label": random.choice([*CLASSES, "?"]),
                    "input": "ab"[int(random.integers(2))],
                }
                for number, (user, second) in enumerate(zip(users.tolist(), seconds.tolist(), strict=True))
            ]
        )
    nobody = {"user": "nobody", "id": -1, "amount": 1, "word": "w1", "label": "x", "input": "a"}
    return (*batches, [{**nobody, "at": LAST}], [], [])


def on_time(batches: tuple[list[Row], ...]) -> list[list[Row]]:
    """Return the rows that are not late: rows are late by the watermark of the batch before."""
    kept, watermarks = [], [0, 0]
    for rows in batches:
        kept.append([row for row in rows if row["at"] is None or row["at"] > watermarks[-2]])
        greatest = max((row["at"] for row in rows if row["at"] is not None), default=0)
        watermarks.append(max(watermarks[-1], greatest - DELAY))
    return kept


def everything(batches: Any) -> list[Row]:
    return [row for rows in batches for row in rows]


def by_key(rows: list[Row], key: str = "user") -> dict[Any, list[Row]]:
    found: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        found[row[key]].append(row)
    return found


def table(rows: list[Row], columns: tuple[str, ...]) -> pa.Table:
    kinds = {"at": pa.timestamp("us", "UTC"), "time": pa.timestamp("us", "UTC"), "id": pa.int64(), "amount": pa.int64()}
    kinds["words"] = pa.list_(pa.string())
    arrays = {}
    for name in columns:
        source = {"time": "at"}.get(name, name)
        if name[:2] in ("a_", "b_"):
            values = [row["id"] if row["input"] == name[0] else None for row in rows]
        elif name == "words":
            values = [[row["word"], row["user"]] for row in rows]
        elif name == "told":
            values = [row["label"] if row["label"] in CLASSES else None for row in rows]
        else:
            values = [row[source] for row in rows]
        if source == "at":
            values = [None if value is None else 1_000_000 * value for value in values]
        arrays[name] = pa.array(values, pa.int64() if name[:2] in ("a_", "b_") else kinds.get(name, pa.string()))
    return pa.table(arrays)


def seconds(value: Any) -> int:
    return round(value.timestamp())


@dataclass(frozen=True)
class Case:
    """An operator, its rows, and what must come out: the last row of each key, or all rows."""

    operator: Operator
    expected: Callable[[tuple[list[Row], ...]], Any]
    shown: Callable[[list[pa.Table]], Any]
    key: str = "user"
    columns: tuple[str, ...] = ("user", "id", "amount", "word", "label")
    time: str | None = None


def plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else round(value, 9) if isinstance(value, float) else value


def last_rows(*names: str) -> Callable[[list[pa.Table]], Any]:
    """Return a function that gives these columns of the last row of each key."""

    def shown(outputs: list[pa.Table]) -> Any:
        rows = [row for output in outputs for row in output.to_pylist()]
        return {next(iter(row.values())): tuple(row[name] for name in names) for row in rows}

    return shown


def all_rows(*names: str) -> Callable[[list[pa.Table]], Any]:
    return lambda outputs: Counter(tuple(row[name] for name in names) for o in outputs for row in o.to_pylist())


def totals(batches: Any) -> Any:
    found = {}
    for user, rows in by_key(everything(batches)).items():
        values = [row["amount"] for row in rows if row["amount"] is not None]
        found[user] = (len(rows), sum(values), min(values), sorted(values, reverse=True)[:3])
    return found


def different(rows: list[Row]) -> tuple[Any, ...]:
    """Return what different values there are, how many, and which are in the middle."""
    words = sorted({row["word"] for row in rows if row["word"] is not None})
    pairs = {(row["word"], row["amount"]) for row in rows if row["word"] is not None and row["amount"] is not None}
    values = sorted(row["amount"] for row in rows if row["amount"] is not None)
    if not values:
        return len(words), len(pairs), tuple(words[:6]), None, None, None
    place = 0.9 * (len(values) - 1)
    low, high = values[int(place)], values[min(int(place) + 1, len(values) - 1)]
    upper = round(low + (place - int(place)) * (high - low), 9)
    return len(words), len(pairs), tuple(words[:6]), statistics.median(values), upper, values[-(-len(values) // 4) - 1]


DIFFERENT = {
    "words": "count_distinct(word)",
    "pairs": "count_distinct(word, amount)",
    "some": "collect_set(word, 6)",
    "middle": "median(amount)",
    "upper": "percentile(amount, 0.9)",
    "lower": "percentile_approx(amount, 0.25)",
}


def differences(batches: Any) -> Any:
    return {user: different(rows) for user, rows in by_key(everything(batches)).items()}


def windows(batches: Any, of: Callable[[list[Row]], Any] = len) -> Any:
    """Append mode: a row's part in a window is late if the window ended by the watermark of the batch before."""
    found, watermarks = defaultdict[Any, list[Row]](list), [0, 0]
    for rows in batches:
        for row in rows:
            for start in () if row["at"] is None else (row["at"] // 10 * 10, row["at"] // 10 * 10 - 10):
                if start + 20 > watermarks[-2]:
                    found[row["user"], start].append(row)
        greatest = max((row["at"] for row in rows if row["at"] is not None), default=0)
        watermarks.append(max(watermarks[-1], greatest - DELAY))
    return Counter((*window, of(rows)) for window, rows in found.items() if window[1] + 20 <= watermarks[-1])


def sessions(batches: Any, of: Callable[[list[Row]], Any] = len) -> Any:
    held: list[tuple[Any, int, int, list[Row]]] = []
    closed, watermarks = Counter[Any](), [0, 0]
    for rows in batches:
        for row in rows:
            if row["at"] is None or row["at"] + 4 <= watermarks[-2]:
                continue
            new = (row["user"], row["at"], row["at"] + 4, [row])
            for other in [s for s in held if s[0] == new[0] and s[1] <= new[2] and new[1] <= s[2]]:
                held.remove(other)
                new = (new[0], min(new[1], other[1]), max(new[2], other[2]), new[3] + other[3])
            held.append(new)
        watermark = watermarks[-1]
        closed.update((*s[:3], of(s[3])) for s in held if s[2] <= watermark)
        held = [s for s in held if s[2] > watermark]
        greatest = max((row["at"] for row in rows if row["at"] is not None), default=0)
        watermarks.append(max(watermark, greatest - DELAY))
    return closed


def in_windows(column: str, *names: str) -> Callable[[list[pa.Table]], Any]:
    def result(row: Row) -> Any:
        return tuple(plain(row[name]) for name in names) if names else row["n"]

    def shown(outputs: list[pa.Table]) -> Any:
        rows = [row for output in outputs for row in output.to_pylist()]
        ends = [() if column == "window" else (seconds(row[column]["end"]),) for row in rows]
        starts = [seconds(row[column]["start"]) for row in rows]
        return Counter((row["user"], s, *e, result(row)) for row, s, e in zip(rows, starts, ends, strict=True))

    return shown


def histories(batches: Any) -> Any:
    found = Counter[Any]()
    for rows in by_key(everything(batches)).values():
        for place, row in enumerate(rows):
            values = [r["amount"] for r in rows[max(0, place - 3) : place + 1] if r["amount"] is not None]
            found[row["id"], len(values), max(values, default=None)] += 1
    return found


def self_pairs(batches: Any) -> Any:
    rows = [row for row in everything(on_time(batches)) if row["user"] is not None and row["at"] is not None]
    return Counter(
        (user, left["id"], right["id"])
        for user, of_user in by_key(rows).items()
        for left in of_user
        for right in of_user
        if 0 <= right["at"] - left["at"] <= 6 and left["id"] < right["id"]
    )


def joined(batches: Any) -> Any:
    """A left join; rows without a key stay alone, and of those without a time it is never known."""
    rows = everything(on_time(batches))
    left, right = ([row for row in rows if row["input"] == side and row["at"] is not None] for side in "ab")
    found = Counter[Any]()
    for row in left:
        partners = [
            other["id"]
            for other in right
            if row["user"] is not None and other["user"] == row["user"] and -2 <= other["at"] - row["at"] <= 8
        ]
        found.update((row["user"], row["id"], partner) for partner in partners or [None] if row["at"] != LAST)
    return found


def looked_up(batches: Any) -> Any:
    known, found = dict[Any, int](), Counter[Any]()
    for row in everything(batches):
        if row["input"] == "a" and row["user"] is not None:
            known[row["user"]] = row["id"]
        elif row["input"] == "b":
            found[row["user"], known.get(row["user"]), row["id"]] += 1
    return found


def settled(batches: Any) -> Any:
    rows = [row for row in everything(on_time(batches)) if row["at"] is not None and row["at"] != LAST]
    return {user: sorted(row["at"] for row in of_user) for user, of_user in by_key(rows).items()}


def in_order(outputs: list[pa.Table]) -> Any:
    """Return the times as they came, batch by batch; within a batch the run has put rows into an order of its own."""
    found: dict[Any, list[int]] = defaultdict(list)
    for output in outputs:
        for user, rows in by_key(output.to_pylist()).items():
            found[user] += sorted(seconds(row["at"]) for row in rows)
    return found


def words(batches: Any) -> Any:
    rows = by_key(everything(batches))
    counts = {user: Counter(r["word"] for r in of_user if r["word"] is not None) for user, of_user in rows.items()}
    return {user: (sum(count.values()), dict(count)) for user, count in counts.items()}


def hitters(outputs: list[pa.Table]) -> Any:
    rows = {row["user"]: row for output in outputs for row in output.to_pylist()}
    assert all(entry["error"] == 0 for row in rows.values() for entry in row["top"]), "there is room for all"
    return {user: (row["n"], {e["item"]: e["count"] for e in row["top"]}) for user, row in rows.items()}


def bins(batches: Any) -> Any:
    rows = by_key(everything(batches))
    counts = {u: Counter(r["amount"] for r in of_user if r["amount"] is not None) for u, of_user in rows.items()}
    return {user: ([*map(float, sorted(c))], [c[value] for value in sorted(c)]) for user, c in counts.items()}


def labels(batches: Any) -> Any:
    rows = by_key(everything(batches), "word")
    counts = {word: Counter(row["label"] for row in of_word) for word, of_word in rows.items()}
    return {word: ([count[label] for label in CLASSES],) for word, count in counts.items()}


def answers(batches: Any) -> Any:
    """Choose the likelier class, by the rows of the batches before; in fractions, so that nothing is rounded."""
    found, before, words = [], list[Row](), set[str]()
    for rows in batches:
        of = {name: [row for row in before if row["label"] == name] for name in CLASSES}
        counts = {name: Counter(word for row in of[name] for word in (row["word"], row["user"])) for name in CLASSES}
        said = {}
        for row in rows:
            if row["label"] not in CLASSES:
                likely = {name: Fraction(len(of[name])) for name in CLASSES}
                for name in CLASSES:
                    known = sum(counts[name][word] + 1 for word in words)
                    for word in words & {row["word"], row["user"]}:
                        likely[name] *= Fraction(counts[name][word] + 1, known)
                said[row["id"]] = max(CLASSES, key=likely.__getitem__) if before else None
        found.append(said)
        before += [row for row in rows if row["label"] in CLASSES]
        words |= {word for row in before for word in (row["word"], row["user"]) if word is not None}
    return found


def tree(batches: Any) -> Any:
    """Grow the tree of each round from histograms that are plain counts."""
    model, counts, rounds = DecisionTreeModel.root(["id", "amount"], CLASSES), Counter[Any](), []
    for rows in batches:
        sent = model.messages(table(rows, ("id", "amount", "label")), "label").to_pylist()
        for message in sent:
            counts[message["leaf"], message["feature"], message["label"], message["value"]] += 1
        held: dict[Any, dict[float, int]] = defaultdict(dict)
        for (*key, value), n in sorted(counts.items()):
            held[tuple(key)][value] = n
        columns = {name: [key[place] for key in held] for place, name in enumerate(("leaf", "feature", "label"))}
        lists = {"centres": [[*of_key] for of_key in held.values()], "counts": [[*k.values()] for k in held.values()]}
        model = grow(model, pa.table({**columns, **lists}), TREE.growth)
        rounds.append(model.to_json())
    return rounds


TREE = DecisionTree(["id", "amount"], CLASSES, bins=2000, candidates=50, min_rows=60, min_gain=0.0, max_leaves=8)
TIMED = {"columns": ("user", "at", "id"), "time": "at"}
TIMED_WORDS = {"columns": ("user", "at", "amount", "word"), "time": "at"}

CASES: dict[str, Case] = {
    "Aggregate": Case(
        Aggregate(n="count", total="sum(amount)", least="min(amount)", t="top(amount, 3)"),
        totals,
        last_rows("n", "total", "least", "t"),
    ),
    "WindowAggregate": Case(
        WindowAggregate("20 seconds", "10 seconds", n="count"), windows, in_windows("window"), **TIMED
    ),
    "SessionAggregate": Case(SessionAggregate("4 seconds", n="count"), sessions, in_windows("session_window"), **TIMED),
    "Aggregate: different values": Case(
        Aggregate(**DIFFERENT),
        differences,
        lambda outputs: {u: tuple(map(plain, row)) for u, row in last_rows(*DIFFERENT)(outputs).items()},
    ),
    "WindowAggregate: different values": Case(
        WindowAggregate("20 seconds", "10 seconds", **DIFFERENT),
        partial(windows, of=different),
        in_windows("window", *DIFFERENT),
        **TIMED_WORDS,
    ),
    "SessionAggregate: different values": Case(
        SessionAggregate("4 seconds", **DIFFERENT),
        partial(sessions, of=different),
        in_windows("session_window", *DIFFERENT),
        **TIMED_WORDS,
    ),
    "History": Case(History(4, n="count(amount)", most="max(amount)"), histories, all_rows("id", "n", "most")),
    "SelfJoin": Case(
        SelfJoin("at", "6 seconds", columns=["id"], where="left_id < right_id"),
        self_pairs,
        all_rows("user", "left_id", "right_id"),
        **TIMED,
    ),
    "IntervalJoin": Case(
        IntervalJoin("a", "b", earliest="-2 seconds", latest="8 seconds", how="left"),
        joined,
        all_rows("user", "a_id", "b_id"),
        columns=("user", "input", "time", "a_id", "b_id"),
        time="time",
    ),
    "TableJoin": Case(
        TableJoin("a", how="left"),
        looked_up,
        all_rows("user", "a_id", "b_id"),
        columns=("user", "input", "a_id", "b_id"),
    ),
    "ProgressiveSort": Case(ProgressiveSort("at"), settled, in_order, **TIMED),
    "HeavyHitters": Case(HeavyHitters("word", capacity=30), words, hitters),
    "HeaviestKeys": Case(
        HeaviestKeys(30, buckets=4),
        lambda batches: Counter(row["user"] for row in everything(batches)),
        lambda outputs: {row["user"]: row["count"] for row in outputs[-1].to_pylist()},
    ),
    "Histogram": Case(Histogram("amount", bins=30), bins, last_rows("centres", "counts")),
    "NaiveBayes": Case(NaiveBayes("label", CLASSES), labels, last_rows("counts"), key="word"),
    "NaiveBayesClassifier": Case(
        NaiveBayesClassifier("words", "told", CLASSES),
        answers,
        lambda outputs: [{row["id"]: row["predicted"] for row in output.to_pylist()} for output in outputs],
        key="id",
        columns=("id", "words", "told"),
    ),
    "DecisionTree": Case(TREE, tree, lambda outputs: [o["model"][0].as_py() for o in outputs], key="label"),
}


def disturbed(tables: list[pa.Table], case: Case) -> list[Any]:
    """Move keys and slots before every batch; in the middle a batch fails and all memory is lost."""
    random, steps = np.random.default_rng(9), list[Any]()
    for number, rows in enumerate(tables):
        steps += [MOVE_SLOT(int(slot), int(random.integers(CHANNELS))) for slot in random.integers(0, SLOTS, 6)]
        if rows.num_rows and not case.operator.learns:
            keys = random.choice(rows.num_rows, min(rows.num_rows, 5), replace=False).tolist()
            steps += [MOVE((rows[case.key][key].as_py(),), int(random.integers(CHANNELS))) for key in keys]
        steps += [ABORT(), RESTART()] if number == BATCHES // 2 else []
        steps.append(rows)
    return steps


def test_every_operator_is_in_the_matrix() -> None:
    assert {type(case.operator).__name__ for case in CASES.values()} == {k.__name__ for k in known_operators().values()}


@pytest.mark.parametrize("shape", ["drifting", *(pytest.param(s, marks=pytest.mark.slow) for s in ("uniform", "zipf"))])
@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_a_plain_account(name: str, shape: str) -> None:
    case, batches = CASES[name], stream(shape)
    tables = [table(rows, case.columns) for rows in batches]
    watermark = None if case.time is None else (case.time, f"{DELAY} seconds")
    settings: dict[str, Any] = {"key": case.key, "watermark": watermark, "slots": SLOTS, "seed": 1}
    result = run(case.operator, disturbed(tables, case), channels=CHANNELS, **settings)
    assert result.attempts == len(tables) + 1, "one batch ran twice"
    got, expected = case.shown(result.outputs), case.expected(batches)
    assert len(expected) >= 5
    assert got == expected
