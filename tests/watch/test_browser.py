"""The page in a real browser: every plot has data, a running query's page goes on, nothing is asked of others.

``UNSKEW_SCREENSHOTS=docs/guides`` makes the pictures of the documentation anew.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from browser import CHROMIUM, DESKTOP, PHONE, browsing

import unskew
from made_up import batch, write_history
from unskew.testing import write_batches
from unskew.watch.checkpoints import open_history
from unskew.watch.page import as_html
from unskew.watch.server import Server

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs a Chromium: apt-get install chromium"),
]

BATCHES = 12  # of the query that runs on Spark
UNLUCKY = (97, 155)  # the ids from here on: several hot ones meet in one of four partitions under Spark's hash
PLOTS = ["fullest", "load", "stages", "keys", "flow", "state", "rate", "saved", "watermark", "late"]
DRAWN = "Bokeh.documents.length && Bokeh.documents[0].is_idle"
# of each plot: whether it is shown, and how many values its sources hold that can be drawn
DATA = """Object.fromEntries(Bokeh.documents[0].roots().filter((r) => r.type === "Column").map((card) => {
  const plot = card.children.at(-1)
  const values = (plot.renderers ?? []).flatMap((r) => Object.values(r.data_source.data)).flatMap((c) => [...c])
  return [card.name, card.visible ? values.filter((v) => v === v && v !== null).length : -1]
}))"""
TEXT = """(() => { const walk = (node) => [...node.childNodes].map((each) =>
  each.nodeType === 3 ? each.data : each.localName === "style" ? "" : walk(each.shadowRoot ?? each)).join(" ")
  return walk(document.querySelector("main")) })()"""
SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory):
    with browsing(tmp_path_factory.mktemp("browser")) as tab:
        yield tab


def pictures(tmp_path: Path) -> Path:
    return Path(os.environ.get("UNSKEW_SCREENSHOTS", tmp_path))


def check_complete(page, query: str = "q0", plots: list[str] = PLOTS) -> None:
    page.wait(DRAWN)
    found = page.ask(DATA)
    assert {name for name, count in found.items() if name.startswith(f"{query}-") and count > 0} == {
        f"{query}-{name}" for name in plots
    }
    assert page.errors == []


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_finished_query_in_one_file(page, tmp_path: Path, size, dark) -> None:
    file = tmp_path / "page.html"
    file.write_text(as_html({"/checkpoints/clicks": [batch(number) for number in range(60)]}))
    page.go(file.as_uri(), size, dark)
    check_complete(page)
    assert [url for url in page.requests if urlsplit(url).scheme not in ("file", "data", "blob")] == []
    assert page.ask(SIDEWAYS) == 0, "nobody scrolls sideways"
    ink = page.ask(
        "Bokeh.documents[0].roots().find((r) => r.name === 'q0-rate').children[1].left[0].axis_label_text_color"
    )
    assert ink == ("#c9d1d9" if dark else "#3d444d")
    text = page.ask(TEXT)
    assert "Batch 59" in text
    assert "user-14" in text


def test_a_batch_of_a_file_can_be_opened(page, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(as_html({"/checkpoints/clicks": [batch(number) for number in range(60)]}))
    page.go(file.as_uri())
    page.wait(DRAWN)
    page.ask("Bokeh.documents[0].roots().find((r) => r.name === 'q0-story').children[0].children[0].value = 40")
    text = page.wait(f"{TEXT}.includes('Batch 40') && {TEXT}")
    assert "2 keys and 6 slots moved" in text
    assert page.errors == []


def test_the_page_of_a_running_query_goes_on(page, tmp_path: Path) -> None:
    batches = [batch(number) for number in range(70)]
    checkpoint = write_history(tmp_path / "clicks", batches[:1])
    (tmp_path / "orders" / "unskew").mkdir(parents=True)
    queries = {str(each): open_history(str(each)) for each in (checkpoint, tmp_path / "orders")}
    server = Server(queries)
    try:
        page.go(server.url)
        page.wait(f"{TEXT}.includes('Batch 0 ')")
        assert "Waiting for the first batch" in page.ask(TEXT), "the second query has none"
        for ended in (2, 48, 70):
            write_history(checkpoint, batches[:ended])
            page.wait(f"{TEXT}.includes('Batch {ended - 1} ')")
        check_complete(page)
        write_history(tmp_path / "orders", batches[:30])
        page.wait(f"{TEXT}.includes('Batch 29 ')")
        check_complete(page, "q1")
        own = f"127.0.0.1:{server.port}"
        assert {urlsplit(url).netloc for url in page.requests if not url.startswith(("data:", "blob:"))} == {own}
        page.ask("Bokeh.documents[0].roots().find((r) => r.name === 'q0-story').children[0].children[0].value = 20")
        page.wait(f"{TEXT}.includes('Batch 20 ')")
        write_history(checkpoint, [*batches, batch(70)])
        page.wait(f"{TEXT}.includes('last batch 70')")
        assert "Batch 20 " in page.ask(TEXT), "the batch that a reader has opened stays open"
    finally:
        server.stop()


@pytest.mark.spark
def test_a_query_of_spark(page, spark, tmp_path: Path) -> None:
    """The page of a real query, opened while it runs: keys by their values, and all but event time.

    Its hot keys change halfway, and it draws the pictures of the documentation.
    """
    rng, share = np.random.default_rng(0), 1 / np.arange(1, 201) ** 1.15
    drawn = [rng.choice(200, 2000, p=share / share.sum()) for _ in range(BATCHES)]
    ids = [each + UNLUCKY[number >= BATCHES // 2] for number, each in enumerate(drawn)]
    users = [np.char.add("user-", each.astype(str)) for each in ids]
    write_batches(tmp_path / "rows", [pa.table({"user": each}) for each in users])
    events = spark.readStream.schema("user string").option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "rows"))
    balanced = unskew.balance(events, "user", channels=4, plan="own", min_gain=-1.0, tolerance=0.0)

    def count(key, frames, state):
        rows = sum(map(len, frames))
        time.sleep(rows * 0.001)
        total = rows + (state.get[0] if state.exists else 0)
        state.update((total,))
        yield pd.DataFrame({"user": key, "n": [total]})

    opened = threading.Event()
    query = (
        balanced.applyInPandasWithState(count, "user string, n long", "n long", "update", "NoTimeout")
        .writeStream.outputMode("update")
        .option("checkpointLocation", str(tmp_path / "checkpoints" / "clicks"))
        .foreachBatch(lambda rows, number: number < 1 or opened.wait(120))
        .trigger(availableNow=True)
        .start()
    )
    server = query.watch()
    try:
        page.go(server.url)
        page.wait(f"{TEXT}.includes('Batch 0 ')")
        opened.set()
        query.awaitTermination()
        page.wait(f"{TEXT}.includes('Batch {BATCHES - 1} ')")
        check_complete(page, plots=[name for name in PLOTS if name not in ("watermark", "late")])
        assert f"user-{UNLUCKY[1]}" in page.ask(TEXT)
        page.screenshot(pictures(tmp_path) / "watch-page.png")
        page.go(server.url, PHONE, dark=True)
        page.wait(f"{DRAWN} && {TEXT}.includes('Batch {BATCHES - 1} ')")
        page.screenshot(pictures(tmp_path) / "watch-phone-dark.png")
    finally:
        opened.set()
        server.stop()
    [*made] = query.decisions
    assert [each.batch_id for each in made] == list(range(BATCHES))
    assert all(each.overload_before >= each.overload_bound >= 0 for each in made)
    assert all(each.gain_next is not None for each in made[:-1])


def test_ten_thousand_batches(page, tmp_path: Path, record_property) -> None:
    checkpoint = write_history(tmp_path / "long", [batch(number) for number in range(10_000)])
    server = Server({str(checkpoint): open_history(str(checkpoint))})
    try:
        page.go(server.url)
        page.wait(f"{TEXT}.includes('Batch 9999 ')")
        check_complete(page)
        shown = page.ask("performance.now() / 1000")
        record_property("seconds until all of it was shown, at most", shown)
        print(f"10,000 batches: shown within {shown:.1f} s of opening the page")
        page.ask("Bokeh.documents[0].roots().find((r) => r.name === 'q0-story').children[0].children[0].value = 1234")
        page.wait(f"{TEXT}.includes('Batch 1234 ')")
    finally:
        server.stop()
