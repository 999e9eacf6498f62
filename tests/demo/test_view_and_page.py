from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from rich.console import Console

from unskew_lab.demo import Batch, HotKey, Race, Settings
from unskew_lab.demo.run import Result
from unskew_lab.demo.view import LiveView, PlainView, closing_table, picture, what_next
from unskew_lab.report.race import document

HOT = (HotKey("user-7", 400, 1), HotKey("<script>", 100, 0))
SETTINGS = Settings(batches=5, channels=4, batches_per_shift=2)


def race_of(hashed=5, balanced=5, different=False):
    race = Race()
    for number in range(hashed):
        race.add("hash", Batch(number, 3.0, (200, 600, 100, 300), (0.6, 1.8, 0.3, 0.9), HOT, {"user-7": 400}))
    for number in range(balanced):
        totals = {"user-7": 401 if different else 400}
        balanced = Batch(number, 2.0, (300, 330, 270, 300), (0.9, 1.0, 0.8, 0.9), HOT, totals, moves=7)
        race.add("unskew", replace(balanced, hash_imbalance=1.98, hash_seconds=1.8))
    return race


def console(**options):
    return Console(file=io.StringIO(), width=80, **options)


def shown(thing):
    screen = console()
    screen.print(thing)
    text = screen.file.getvalue()
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "…" not in text
    return text


def test_the_picture_shows_both_within_80_columns():
    text = shown(picture(race_of(hashed=3), SETTINGS))
    assert re.search(r"Spark's hash.*unskew", text)
    assert re.search(r"1 █+ +600 +│.* 1 █+.* 330", text)
    assert re.search(r"2\.00 times the mean.*1\.10 times the mean", text)
    assert text.count("1.98 by Spark's hash") == 1
    assert re.search(r"batch time +3\.0 s.*batch time +2\.0 s", text)
    assert re.search(r"moves so far +0 .*moves so far +7 ", text)
    assert re.search(r"Spark's hash .*batch 3 of 5", text)
    assert re.search(r"unskew .*batch 5 of 5", text)
    assert "a row costs 2 ms, spent waiting" in " ".join(text.lower().split())


def test_bars_of_both_have_one_scale():
    [line] = [line for line in shown(picture(race_of(), SETTINGS)).splitlines() if "600" in line]
    left, right = (half.count("█") for half in line.split("600"))
    assert left == 21
    assert right == int(21 * 330 / 600)


def test_a_racer_that_has_not_ended_a_batch_is_waited_for():
    assert "under way" in shown(picture(race_of(balanced=0), SETTINGS))


def test_live_bars_on_a_terminal():
    screen = console(force_terminal=True)
    with LiveView(screen, SETTINGS) as view:
        view.show(race_of(), "hash")
    assert "600" in screen.file.getvalue()


def test_plain_lines_elsewhere():
    screen = console()
    with PlainView(screen, SETTINGS) as view:
        view.show(race_of(1, 0), "hash")
        view.show(race_of(1, 1), "unskew")
    lines = screen.file.getvalue().splitlines()
    assert "a row costs 2 ms" in lines[1]
    assert re.match(r"Spark's hash +batch +0: +3\.0 s, fullest channel 1 with 600 of 1,200 rows, 2\.00 times", lines[2])
    assert lines[3].strip() == "hottest: user-7 33 % on 1, <script> 8 % on 0"
    assert re.match(r"unskew +batch +0: +2\.0 s, .*1\.10 times the mean \(1\.98 by Spark's hash\), 7 moves", lines[4])


def test_the_closing_table():
    text = shown(closing_table(race_of()))
    for row in (
        "throughput, rows/s +│ +400 │ +600 │ 1.50x",
        "batch time p50, s +│ +3.00 │ +2.00 │ 0.67x",
        "batch time p99, s +│ +3.00 │ +2.00 │ 0.67x",
        "fullest channel, mean = 1 +│ +2.00 │ +1.10 │ 0.55x",
        "hash, as unskew counts it +│ +│ +1.98 │",
        "moves +│ +0 │ +7 │",
        "same counts in every batch │ +│ +yes │",
        "equal to a batch recount +│ +not checked │ +not checked │",
    ):
        assert re.search(row, text), row
    assert "NO" in shown(closing_table(race_of(different=True)))
    assert re.search(r"equal to a batch recount +│ +yes │ +yes │", shown(closing_table(race_of(), exact=True)))
    assert re.search(r"equal to a batch recount +│ +NO │ +NO │", shown(closing_table(race_of(), exact=False)))


def test_hot_keys_and_migrations_are_named():
    race = race_of(1, 1)
    race.add("unskew", Batch(1, 2.0, (300, 330, 270, 300), (0.9,) * 4, (HotKey("user-7", 400, 3, 800),)))
    text = shown(picture(race, SETTINGS))
    assert re.search(r"hot: user-7 +33 % +on channel 1 .*hot: user-7 +33 % +on channel 3", text)
    assert "batch  1: user-7 went from channel 1 to 3 and took its count along" in text
    screen = console()
    with PlainView(screen, SETTINGS) as view:
        view.show(race, "unskew")
        view.say("and so on")
    printed = " ".join(screen.file.getvalue().split())
    assert "user-7 went from channel 1 to 3 and took its count along: 0, then 800" in printed
    assert printed.endswith("and so on")


def test_what_next_names_the_report(tmp_path):
    assert f"unskew report {tmp_path}" in what_next(tmp_path)
    assert "unskew report" not in what_next(None)


class Collector(HTMLParser):
    """Collects what a page would load, and its tags."""

    def __init__(self):
        super().__init__()
        self.loaded, self.tags = [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        for name, value in attributes:
            if name in {"src", "href", "xlink:href", "data"} and value and not value.startswith(("#", "data:")):
                self.loaded.append(value)


def page_of(race, exact=True):
    """Return the page as it is made from what was kept."""
    return document(json.loads(json.dumps(Result(SETTINGS, race, None, False, exact).as_dict()))).render()


def test_the_page_stands_alone():
    text = page_of(race_of())
    page = Collector()
    page.feed(text)
    assert page.loaded == []
    assert page.tags.count("svg") == 2
    assert "script" not in page.tags
    assert "&lt;script&gt;" in text
    assert "1.50 times the rows per second" in text
    assert "as unskew counts it" in text
    assert re.search(r"\$\{?\w", text) is None
    assert text == page_of(race_of())
    assert 'class="green">yes</b>every count' in text
    assert 'class="red">NO</b>every count' in page_of(race_of(), exact=False)
    assert "not checked" in page_of(race_of(), exact=None)


def test_the_page_lists_hot_keys_that_moved():
    race = race_of(balanced=2)
    race.add("unskew", Batch(2, 2.0, (1, 1, 1, 1), (0.1,) * 4, (HotKey("user-7", 400, 3, 1600),), {"user-7": 400}))
    assert "Hot keys that moved" in page_of(race)
    assert "<td>user-7</td><td>1</td><td>3</td>" in page_of(race)
    assert "Hot keys that moved" not in page_of(race_of())


@pytest.mark.parametrize(("hashed", "balanced"), [(1, 1), (2, 1), (3, 3)])
def test_few_batches_make_a_page_too(hashed, balanced):
    assert "<svg" in page_of(race_of(hashed, balanced))
