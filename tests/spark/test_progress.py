"""What a balanced query tells about itself, where Spark's users look."""

from __future__ import annotations

import json
import re
import threading
import time
from urllib.request import urlopen

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.streaming.listener import StreamingQueryListener, StreamingQueryProgress

import unskew
from unskew.spark.prometheus import CONTENT_TYPE
from unskew.testing import write_batches

pytestmark = pytest.mark.spark

ROWS = 2000


class Heard(StreamingQueryListener):
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.progress: list[StreamingQueryProgress] = []
        self.ended: list[object] = []

    def onQueryStarted(self, event) -> None:
        pass

    def onQueryProgress(self, event) -> None:
        self.progress.append(event.progress)

    def onQueryIdle(self, event) -> None:
        pass

    def onQueryTerminated(self, event) -> None:
        self.ended.append(event)


@pytest.fixture(scope="module")
def ended(spark, tmp_path_factory):
    """Give a query of four batches with a hot key that has ended, and what its listener heard."""
    folder = tmp_path_factory.mktemp("progress")
    keys = [np.where(np.arange(ROWS) % 2 == 0, 7, np.random.default_rng(i).integers(0, 50, ROWS)) for i in range(4)]
    write_batches(folder, [pa.table({"key": column}) for column in keys])
    events = spark.readStream.schema("key long").option("maxFilesPerTrigger", 1).parquet(str(folder))
    balanced = unskew.balance(events, "key", channels=3, plan="own", min_gain=-1.0, tolerance=0.0)
    writer = balanced.aggregate(n="count").writeStream
    heard, listening = Heard(), threading.Event()
    writer = writer.foreachBatch(lambda rows, _: listening.wait(120)).queryName("hot").trigger(availableNow=True)
    query = writer.start()
    query.add_listener(heard)
    listening.set()
    query.awaitTermination()
    patience = time.monotonic() + 120
    while not heard.ended and time.monotonic() < patience:
        time.sleep(0.1)
    return query, heard, keys


def test_sparks_records_have_our_section(ended) -> None:
    query, _, keys = ended
    records = [record for record in query.recentProgress if record.numInputRows]
    assert [record.batchId for record in records] == [0, 1, 2, 3]
    for record, column in zip(records, keys, strict=True):
        ours = record["unskew"]
        assert ours["rows"] == sum(ours["channelRows"]) == record["numInputRows"] == ROWS
        assert ours["channels"] == len(ours["channelRows"]) == len(ours["channelSeconds"]) == 3
        assert ours["imbalance"] == pytest.approx(max(ours["channelRows"]) / (ROWS / 3))
        hottest = ours["hotKeys"][0]
        assert (hottest["key"], hottest["share"]) == ("7", pytest.approx((column == 7).mean()))
        assert 0 <= hottest["channel"] < 3
        assert (ours["lateRows"], ours["watermarkMs"]) == (0, None)
        assert json.loads(record.json)["unskew"] == ours
    assert records[-1]["unskew"]["stateKeys"] == len(np.unique(np.concatenate(keys)))
    assert records[-1]["unskew"]["stateBytes"] > 0
    assert query.lastProgress["unskew"] == query.recentProgress[-1]["unskew"]


def test_moves_and_plans_are_those_of_the_query(ended) -> None:
    query, _, _ = ended
    figures = query.figures
    assert sum(each.moved_keys + each.moved_slots for each in figures) == len(query.moves) > 0
    assert [each.batch_id for each in figures if each.planner] == [batch_id for batch_id, _ in query.plans]
    moved = [each for each in figures if each.moved_keys]
    assert moved
    assert {move.key for _, move in query.moves} <= {str(key) for key in range(50)}, "keys are named by their values"
    assert all(each.hash_imbalance >= 1 and each.hash_seconds > 0 for each in figures)
    assert figures[-1].table_version == query.routing_table.version


def test_a_listener_is_told_the_same(ended) -> None:
    query, heard, _ = ended
    assert len(heard.ended) == 1
    told = {record.batchId: record["unskew"] for record in heard.progress if record.numInputRows}
    assert [*told] == [0, 1, 2, 3]
    assert told == {r.batchId: r["unskew"] for r in query.recentProgress if r.numInputRows}


def test_prometheus_reads_it(ended) -> None:
    query, _, _ = ended
    server = query.serve_metrics()
    try:
        with urlopen(f"http://127.0.0.1:{server.server_port}/metrics") as answer:
            assert answer.headers["Content-Type"] == CONTENT_TYPE
            text = answer.read().decode()
    finally:
        server.shutdown()
        server.server_close()
    assert text == query.prometheus()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r'unskew_\w+\{query="hot"(,\w+="[^"]*")*\} [-+.e\d]+', line) for line in lines)
    samples = dict(line.rsplit(" ", 1) for line in lines)
    assert samples['unskew_rows_total{query="hot"}'] == str(4 * ROWS)
    assert float(samples['unskew_imbalance{query="hot"}']) == query.figures[-1].imbalance
    assert int(samples['unskew_moved_keys_total{query="hot"}']) == sum(each.moved_keys for each in query.figures)


def test_names_with_quotes_stay_inside_their_label() -> None:
    from unskew.spark.prometheus import prometheus_text

    assert 'query="a\\"b\\\\c\\nd"' in prometheus_text('a"b\\c\nd', None, {})
