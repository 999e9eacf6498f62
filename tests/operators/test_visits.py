"""The example of an operator of one's own: against its rules, row by row, and against the testing kit."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import unskew
from unskew.errors import ColumnError
from unskew.testing import check_operator, disturbed, run, write_batches

SECOND = 1_000_000
KIND = pa.timestamp("us", "UTC")
WATERMARK = ("ts", "20 seconds")


@pytest.fixture(scope="module")
def visits() -> Any:
    """The example as a module that workers cannot import: it travels with the operator, as a script does."""
    spec = importlib.util.spec_from_file_location("visits", Path(__file__).parents[2] / "examples" / "visits.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows_of(events: list[tuple[str, str, int]]) -> pa.Table:
    users, actions, seconds = zip(*events, strict=True) if events else ((), (), ())
    times = pa.array([second * SECOND for second in seconds], pa.int64()).cast(KIND)
    return pa.table({"user": pa.array(users, pa.string()), "action": pa.array(actions, pa.string()), "ts": times})


def random_batches(seed: int, batches: int = 4, rows: int = 30) -> list[pa.Table]:
    random = np.random.default_rng(seed)
    actions = ["view", "view", "view", "cart", "buy", "leave", "hum", None]
    return [
        rows_of(
            [
                (f"u{min(n, 6)}", actions[random.integers(len(actions))], 100 + 25 * batch + int(random.integers(25)))
                for n in random.zipf(1.5, rows).tolist()
            ]
        )
        for batch in range(batches)
    ]


def reference(batches: list[pa.Table], pause: int, delay: int) -> list[list[tuple[Any, ...]]]:
    """The rules, one row after the other."""
    known: dict[str, list[Any]] = {}
    outputs, now, before = [], 0, 0
    for batch in batches:
        over = []
        rows = batch.to_pylist()
        for row in rows:
            user, action, at = row["user"], row["action"], round(row["ts"].timestamp())
            if action not in ("view", "cart", "buy", "leave") or at <= before:
                continue
            if user in known and at - known[user][1] > pause:
                start, last, views, cart = known.pop(user)
                over.append((user, start, last, views, "gave up a cart" if cart else "gave up"))
            visit = known.setdefault(user, [at, at, 0, False])
            visit[1] = max(visit[1], at)
            visit[2] += action == "view"
            visit[3] |= action == "cart"
            if action in ("buy", "leave"):
                start, last, views, _ = known.pop(user)
                over.append((user, start, last, views, "bought" if action == "buy" else "left"))
        for user in [user for user, visit in known.items() if visit[1] + pause <= now]:
            start, last, views, cart = known.pop(user)
            over.append((user, start, last, views, "gave up a cart" if cart else "gave up"))
        outputs.append(sorted(over))
        before, now = now, max([now, *(round(row["ts"].timestamp()) - delay for row in rows)])
    return outputs


def plain(output: pa.Table) -> list[tuple[Any, ...]]:
    rows = output.to_pylist()
    return sorted(
        (r["user"], round(r["start"].timestamp()), round(r["end"].timestamp()), r["views"], r["outcome"]) for r in rows
    )


@pytest.mark.parametrize("channels", [1, 3])
def test_follows_its_rules(visits: Any, channels: int) -> None:
    batches = [*random_batches(1, batches=6), *[rows_of([])] * 2]
    steps = disturbed(batches, key="user", channels=channels, seed=3)
    result = run(visits.Visits("15 seconds"), steps, key="user", watermark=WATERMARK, channels=channels)
    expected = reference(batches, pause=15, delay=20)
    assert [plain(output) for output in result.outputs] == expected
    assert {visit[4] for output in expected for visit in output} == {"bought", "left", "gave up", "gave up a cart"}


def test_has_every_property_of_an_operator(visits: Any) -> None:
    check_operator(visits.Visits("15 seconds"), random_batches(2, 3, 20), key="user", watermark=WATERMARK, seeds=2)


def test_says_what_does_not_fit(visits: Any) -> None:
    with pytest.raises(ColumnError, match="no column of that name, got 'deed'"):
        run(visits.Visits(action="deed"), random_batches(0), key="user", watermark=WATERMARK)
    with pytest.raises(ColumnError, match="watermark"):
        run(visits.Visits(), random_batches(0), key="user")


@pytest.mark.spark
@pytest.mark.slow
def test_gives_the_same_on_spark(visits: Any, spark: Any, tmp_path: Path) -> None:
    batches = random_batches(5, rows=200)
    write_batches(tmp_path, batches)
    files = spark.readStream.schema("user string, action string, ts timestamp").option("maxFilesPerTrigger", 1)
    events = files.parquet(str(tmp_path)).withWatermark(*WATERMARK)
    written: list[tuple[Any, ...]] = []

    def write(rows: Any, batch_id: int) -> None:
        written.extend(plain(pa.Table.from_batches(rows.toArrow().to_batches())) if rows.count() else [])

    stage = unskew.balance(events, "user", channels=2, tolerance=0.01, min_gain=0.0).apply(visits.Visits("15 seconds"))
    assert stage.output_mode == "append"
    stage.writeStream.trigger(availableNow=True).foreachBatch(write).start().awaitTermination()
    expected = reference([*batches, rows_of([])], pause=15, delay=20)
    assert sorted(written) == sorted(visit for output in expected for visit in output)
