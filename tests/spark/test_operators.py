"""Each operator once on Spark, with keys that move, against Spark's own SQL on the same rows."""

from __future__ import annotations

import runpy
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import functions as F

import unskew
from chaos.ledger import RandomMoves
from unskew.operators import DecisionTree, HeavyHitters, History, NaiveBayes, ProgressiveSort, SelfJoin, TableJoin, TopK
from unskew.testing import run as reference
from unskew.testing import write_batches

pytestmark = pytest.mark.spark


EXAMPLES = Path(__file__).parents[2] / "examples"


def stream(spark: Any, folder: str) -> Any:
    schema = spark.read.parquet(folder).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(folder)


def run(stage: Any, checkpoint: Path) -> tuple[list[pa.Table], Any]:
    """Return each batch's rows, and the query."""
    batches: dict[int, pa.Table] = {}

    def keep(rows: Any, batch_id: int) -> None:
        batches[batch_id] = rows.toArrow()

    writer = stage.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    query = writer.foreachBatch(keep).start()
    query.awaitTermination()
    return [batches[batch] for batch in sorted(batches)], query


def balanced(events: Any, key: str | list[str]) -> Any:
    return unskew.balance(events, key, channels=3, tolerance=0.01, min_gain=0.0)


def as_text(rows: list[Any]) -> list[str]:
    return sorted(map(repr, rows))


@pytest.mark.slow
def test_history_equals_sparks_windows(spark: Any, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    users = [np.where(random.random(300) < 0.5, 1, random.zipf(1.3, 300) % 40) for _ in range(4)]
    tables = [
        pa.table(
            {
                "user": pa.array(user, mask=user == 7),
                "id": np.arange(300) + 300 * batch,
                "value": pa.array(random.integers(-9, 9, 300), mask=random.random(300) < 0.1),
            }
        )
        for batch, user in enumerate(users)
    ]
    folder = write_batches(tmp_path / "data", tables)
    operator = History(5, mean="mean(value)", least="min(value)", most="max(value)", spread="variance(value)")
    outputs, query = run(balanced(stream(spark, folder), "user").apply(operator), tmp_path / "checkpoint")
    assert len(query.moves) > 0
    over = "over (partition by user order by id rows between 4 preceding and current row)"
    expected = spark.read.parquet(folder).selectExpr(
        "id", f"avg(value) {over}", f"min(value) {over}", f"max(value) {over}", f"var_samp(value) {over}"
    )
    true = {row[0]: row[1:] for row in expected.collect()}
    got = {row["id"]: row for row in pa.concat_tables(outputs).to_pylist()}
    assert got.keys() == true.keys()
    for number, values in true.items():
        ours = [got[number][name] for name in ("mean", "least", "most", "spread")]
        assert ours == [pytest.approx(value) for value in values]


def trades(random: np.random.Generator, batches: int, rows: int) -> list[pa.Table]:
    """Out of order and at times late; null keys and times."""
    tables = []
    for batch in range(batches):
        stock = np.where(random.random(rows) < 0.3, 1, random.integers(0, 30, rows))
        behind = random.geometric(0.1, rows) + np.where(random.random(rows) < 0.03, 120, 0)
        at = 1_000_000 * (1_700_000_000 + 60 * batch + random.integers(0, 60, rows) - behind)
        tables.append(
            pa.table(
                {
                    "stock": pa.array(stock, mask=stock == 7),
                    "at": pa.array(at, pa.timestamp("us", "UTC"), mask=random.random(rows) < 0.03),
                    "id": np.arange(rows) + batch * rows,
                }
            )
        )
    return tables


PAIRS = "l.stock = r.stock and r.at >= l.at and r.at <= l.at + interval 20 seconds and l.id < r.id"


@pytest.mark.slow
def test_self_join_equals_sparks_join_of_the_rows_that_are_not_late(spark: Any, tmp_path: Path) -> None:
    tables = trades(np.random.default_rng(1), batches=3, rows=300)
    folder = write_batches(tmp_path / "data", tables)
    events = stream(spark, folder).withWatermark("at", "15 seconds")
    operator = SelfJoin("at", "20 seconds", columns=["id"], where=pc.field("left_id") < pc.field("right_id"))
    outputs, query = run(balanced(events, "stock").apply(operator), tmp_path / "checkpoint")
    assert len(query.moves) > 0
    greatest = [0, 0, *np.maximum.accumulate([pc.max(table["at"].cast(pa.int64())).as_py() for table in tables])]
    on_time = [  # the watermark of a batch follows from the batches before; rows are late by that of the batch before
        table.filter(pc.fill_null(pc.greater(table["at"].cast(pa.int64()), seen - 15_000_000), True))
        for table, seen in zip(tables, greatest, strict=False)
    ]
    assert 0 < sum(rows.num_rows for rows in on_time) < 900, "some rows are late"
    spark.read.parquet(write_batches(tmp_path / "on_time", on_time)).createOrReplaceTempView("on_time")
    true = spark.sql(f"select l.stock, l.id, r.id from on_time l join on_time r on {PAIRS}").collect()
    got = [tuple(row.values()) for row in pa.concat_tables(outputs).to_pylist()]
    assert as_text(got) == as_text([tuple(row) for row in true])


@pytest.mark.slow
def test_self_join_equals_sparks_own_streaming_join(spark: Any, tmp_path: Path) -> None:
    """Late rows are those that Spark passes over, and the pairs those that it yields, over the whole run."""
    folder = write_batches(tmp_path / "data", trades(np.random.default_rng(2), batches=5, rows=300))
    events = stream(spark, folder).withWatermark("at", "15 seconds")
    operator = SelfJoin("at", "20 seconds", columns=["id"], where=pc.field("left_id") < pc.field("right_id"))
    outputs, _ = run(balanced(events, "stock").apply(operator), tmp_path / "ours")
    native = events.alias("l").join(events.alias("r"), F.expr(PAIRS)).selectExpr("l.stock", "l.id", "r.id as other")
    theirs, _ = run(native, tmp_path / "native")
    ours = [tuple(row.values()) for row in pa.concat_tables(outputs).to_pylist()]
    assert as_text(ours) == as_text([tuple(row.values()) for row in pa.concat_tables(theirs).to_pylist()])
    assert len(ours) > 100


@pytest.mark.slow
def test_a_hot_key_in_cells_gives_the_pairs_of_sparks_join(spark: Any, tmp_path: Path) -> None:
    """The recipe of the gallery."""
    folder = write_batches(tmp_path / "data", trades(np.random.default_rng(7), batches=3, rows=200))
    salts, hot = 3, "stock in (1, 2)"
    cells = f"filter(sequence(0L, {salts**2 - 1}L), c -> salt in (c div {salts}, c % {salts}))"
    rows = (
        stream(spark, folder)
        .selectExpr("*", f"if({hot}, pmod(xxhash64(id), {salts}), 0L) as salt")
        .selectExpr("*", f"explode(if({hot}, {cells}, array(0L))) as cell")
        .selectExpr("*", f"cell div {salts} = salt as leads", f"cell % {salts} = salt as follows")
    )
    operator = SelfJoin("at", "20 seconds", columns=["id"], sides=["leads", "follows"])
    outputs, _ = run(balanced(rows, ["stock", "cell"]).apply(operator), tmp_path / "checkpoint")
    spark.read.parquet(folder).createOrReplaceTempView("trades")
    pairs = PAIRS.removesuffix(" and l.id < r.id")
    true = spark.sql(f"select l.stock, l.id, r.id from trades l join trades r on {pairs}").collect()
    got = [(row["stock"], row["left_id"], row["right_id"]) for row in pa.concat_tables(outputs).to_pylist()]
    assert as_text(got) == as_text([tuple(row) for row in true])


@pytest.mark.slow
def test_a_stream_looks_up_what_a_table_says_in_its_batch(spark: Any, tmp_path: Path) -> None:
    random = np.random.default_rng(6)
    changes = [pa.table({"user": random.integers(0, 40, 30), "city": random.integers(0, 9, 30)}) for _ in range(3)]
    users = np.where(random.random(600) < 0.4, 1, random.integers(0, 60, 600)).reshape(3, 200)
    clicks = [pa.table({"user": user, "id": np.arange(200) + 200 * batch}) for batch, user in enumerate(users)]
    folders = [write_batches(tmp_path / name, tables) for name, tables in (("users", changes), ("clicks", clicks))]
    rows = unskew.tagged("user", users=stream(spark, folders[0]), clicks=stream(spark, folders[1]))
    outputs, query = run(balanced(rows, "user").apply(TableJoin("users", how="left")), tmp_path / "checkpoint")
    assert len(query.moves) > 0
    cities: dict[int, int] = {}
    for change, click, output in zip(changes, clicks, outputs, strict=True):
        cities.update(zip(change["user"].to_pylist(), change["city"].to_pylist(), strict=True))
        expected = [(row["user"], cities.get(row["user"]), row["id"]) for row in click.to_pylist()]
        assert as_text([tuple(row.values()) for row in output.to_pylist()]) == as_text(expected)


@pytest.mark.slow
def test_sorted_rows_come_by_time_over_all_batches(spark: Any, tmp_path: Path) -> None:
    tables = trades(np.random.default_rng(5), batches=4, rows=200)
    events = stream(spark, write_batches(tmp_path / "data", tables)).withWatermark("at", "15 seconds")
    outputs, query = run(balanced(events, "stock").apply(ProgressiveSort("at")), tmp_path / "checkpoint")
    rows = pa.concat_tables(outputs)
    for stock in set(rows["stock"].to_pylist()):
        of_stock = rows.filter(pc.is_null(rows["stock"]) if stock is None else pc.equal(rows["stock"], stock))
        times = of_stock["at"].cast(pa.int64()).to_numpy()
        assert (np.diff(times) >= 0).all()
    watermark = max(pc.max(table["at"].cast(pa.int64())).as_py() for table in tables) - 15_000_000
    everything = pa.concat_tables(tables)
    settled = everything.filter(pc.less_equal(everything["at"].cast(pa.int64()), watermark))
    late = sum(figures.late_rows for figures in query.figures)
    assert late > 0
    assert rows.num_rows == settled.num_rows - late


def zipf_words(seed: int, batches: int, rows: int) -> list[pa.Table]:
    random = np.random.default_rng(seed)
    return [pa.table({"word": np.char.add("w", (random.zipf(1.3, rows) % 300).astype(str))}) for _ in range(batches)]


@pytest.mark.slow
def test_heavy_hitters_of_a_stream_go_on_where_their_checkpoint_ended(spark: Any, tmp_path: Path) -> None:
    """Buckets change their channel in every batch, and a second start goes on with what the first one counted."""
    tables = zipf_words(3, batches=3, rows=2000)
    folder, lists, true = write_batches(tmp_path / "data", tables[:2]), list[pa.Table](), Counter[str]()
    for number in range(2):
        settings = {"channels": 3, "planner": RandomMoves(seed=number), "min_gain": -np.inf, "slots": 64}
        stage = unskew.balance(stream(spark, folder), "word", **settings).heavy_hitters(k=10, capacity=11)
        outputs, query = run(stage, tmp_path / "checkpoint")
        lists += outputs
        assert len(query.moves) > 0
        assert query.figures[-1].hash_imbalance is None, "Spark would not hash buckets"
        if number == 0:
            write_batches(folder, tables[2:], first=2)
    for rows, listed in zip(tables, lists, strict=True):
        true.update(rows["word"].to_pylist())
        assert listed["rank"].to_pylist() == [*range(1, 11)]
        assert set(listed["rows"].to_pylist()) == {true.total()}
        for row in listed.to_pylist():
            assert row["count"] - row["error"] <= true[row["word"]] <= row["count"]
        shown, least = {*listed["word"].to_pylist()}, listed["count"].to_pylist()[-1]
        assert all(count <= least for word, count in true.items() if word not in shown)
    assert {word for word, _ in true.most_common(5)} <= shown


@pytest.mark.slow
def test_heavy_hitters_of_keys_and_top_words_of_a_stream(spark: Any, tmp_path: Path) -> None:
    tables = zipf_words(3, batches=3, rows=2000)
    folder = write_batches(tmp_path / "data", tables)
    true = Counter(pa.concat_tables(tables)["word"].to_pylist())
    initials = stream(spark, folder).selectExpr("word", "left(word, 2) as initial")
    outputs, _ = run(balanced(initials, "initial").apply(HeavyHitters("word", capacity=20)), tmp_path / "hitters")
    for row in outputs[-1].to_pylist():
        for entry in row["top"]:
            assert entry["count"] - entry["error"] <= true[entry["item"]] <= entry["count"]
            assert entry["error"] <= row["n"] / 20
    outputs, _ = run(balanced(stream(spark, folder), "word").aggregate(n="count"), tmp_path / "top")
    top = TopK(10, by="n", key=["word"])
    for rows in outputs:
        top = top.after(rows)
    assert top.rows is not None
    expected = sorted(true.items(), key=lambda item: (-item[1], item[0]))[:10]
    assert [(row["word"], row["n"]) for row in top.rows.to_pylist()] == expected


@pytest.mark.slow
@pytest.mark.parametrize("split", ["auto", "pkg"])
def test_naive_bayes_with_split_keys_is_the_model_of_one_process(spark: Any, tmp_path: Path, split: str) -> None:
    random, classes = np.random.default_rng(4), ["ham", "spam"]
    words = [
        np.where(random.random(900) < 0.6, "the", np.char.add("w", (random.zipf(1.3, 900) % 99).astype(str)))
        for _ in "1234"
    ]
    tables = [pa.table({"word": w, "label": random.choice(classes, 900)}) for w in words]
    folder = write_batches(tmp_path / "data", tables)
    stage = unskew.balance(stream(spark, folder), "word", channels=4, tolerance=0.02, split=split)
    outputs, query = run(stage.apply(NaiveBayes("label", classes)), tmp_path / "checkpoint")
    assert split == "pkg" or len(query.routing_table.split) > 0
    counts = {row["word"]: row["counts"] for output in outputs for row in output.to_pylist()}
    true = Counter(zip(*pa.concat_tables(tables).to_pydict().values(), strict=True))
    assert counts == {word: [true[word, label] for label in classes] for word, _ in true}


@pytest.mark.slow
def test_the_example_of_naive_bayes_learns_what_one_process_learns(spark: Any, tmp_path: Path) -> None:
    example = runpy.run_path(str(EXAMPLES / "naive_bayes.py"))
    documents = example["paragraphs"](("fft", "stats"))
    to_learn, asked, classes = documents.slice(0, 600), documents.slice(600, 200), ["fft", "stats"]
    folder = write_batches(tmp_path / "data", [to_learn.slice(at, 200) for at in (0, 200, 400)])
    model, _ = example["train"](stream(spark, folder), classes, str(tmp_path / "checkpoint"), asked)
    alone = example["trained_here"](to_learn, classes)
    np.testing.assert_allclose(model.scores(asked["words"]), alone.scores(asked["words"]), rtol=1e-12)
    assert model.classify(asked["words"]).equals(alone.classify(asked["words"]))


def test_documents_are_classified_by_the_batches_before_over_two_starts(spark: Any, tmp_path: Path) -> None:
    example = runpy.run_path(str(EXAMPLES / "naive_bayes.py"))
    documents, classes = example["paragraphs"](("fft", "stats")), ["fft", "stats"]
    tables = example["with_questions"](documents.slice(0, 800), batches=4)
    folder, answers = write_batches(tmp_path / "data", tables[:2]), list[pa.Table]()
    for number in range(2):
        settings = {"channels": 3, "planner": RandomMoves(seed=number), "min_gain": -np.inf, "slots": 64}
        answers += example["classify"](stream(spark, folder), classes, str(tmp_path / "checkpoint"), **settings)
        if number == 0:
            write_batches(folder, tables[2:], first=2)
    taught = [rows.filter(pc.is_valid(rows["label"])) for rows in tables]
    for number, (rows, answer) in enumerate(zip(tables, answers, strict=True)):
        asked = rows.filter(pc.is_null(rows["label"])).sort_by("id")
        expected: Any = [None] * asked.num_rows
        if number:
            model = example["trained_here"](pa.concat_tables(taught[:number]), classes)
            expected = model.classify(asked["words"]).to_pylist()
        assert answer.sort_by("id")["id"].equals(asked["id"])
        assert answer.sort_by("id")["predicted"].to_pylist() == expected
    assert {*answers[-1]["predicted"].to_pylist()} == {*classes}


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"planner": RandomMoves(), "min_gain": -np.inf},
        {"split": "pkg"},
        {"split": "auto", "tolerance": 0.02},
    ],
    ids=["keys-move", "pkg", "hot-keys-split"],
)
def test_the_tree_grows_as_in_one_process(spark: Any, tmp_path: Path, settings: dict[str, Any]) -> None:
    example = runpy.run_path(str(EXAMPLES / "decision_tree.py"))
    flights = example["flights"]()
    batches, asked = [flights.slice(at, 4000) for at in range(0, 20_000, 4000)], flights.slice(30_000, 5000)
    folder = write_batches(tmp_path / "data", batches)
    tree, query = example["train"](stream(spark, folder), str(tmp_path), asked, **settings)
    assert len(query.moves) > 0 or settings.get("split") == "pkg"
    alone = example["grown_here"](batches)
    assert tree.leaves > 4
    assert tree.rows == 20_000
    assert example["accuracy"](tree, asked) == pytest.approx(example["accuracy"](alone, asked), abs=0.01)


@pytest.mark.slow
def test_a_tree_goes_on_growing_where_its_checkpoint_ended(spark: Any, tmp_path: Path) -> None:
    """Of few values histograms are exact: the tree of two starts is that of one, and that of one process."""
    random = np.random.default_rng(8)
    batches = [pa.table({name: random.integers(0, 12, 600) for name in ("x", "y", "z")}) for _ in range(4)]
    kind = [pc.add(pc.add(rows["x"], rows["y"]), pc.subtract(rows["z"], 6)).to_numpy() // 12 for rows in batches]
    tables = [rows.append_column("kind", pa.array(labels)) for rows, labels in zip(batches, kind, strict=True)]
    operator = DecisionTree(["x", "y", "z"], [0, 1, 2], min_rows=200, min_gain=0.01)
    expected = reference(operator, tables, key="kind").outputs
    folder = write_batches(tmp_path / "data", tables[:2])
    rounds = []
    for number in range(2):
        settings = {"channels": 3, "planner": RandomMoves(seed=number), "min_gain": -np.inf, "slots": 64}
        stage = unskew.balance(stream(spark, folder), "kind", **settings).apply(operator)
        rounds += run(stage, tmp_path / "checkpoint")[0]
        if number == 0:
            write_batches(folder, tables[2:], first=2)
    assert [output.to_pylist() for output in rounds] == [output.to_pylist() for output in expected]
    assert rounds[-1]["leaves"][0].as_py() > 4
