from __future__ import annotations

import io
import re
from html.parser import HTMLParser

import pytest
from rich.console import Console

from unskew.demo import Batch, HotKey, Settings
from unskew.demo.page import write_page
from unskew.demo.view import LiveView, PlainView, picture

HOT = (HotKey("user-7", 400, 1, 1.2), HotKey("<script>", 100, 0, 0.3))
BATCHES = [Batch(number, 2.5, (200, 600, 100, 300), (0.6, 1.8, 0.3, 0.9), HOT) for number in range(5)]
SETTINGS = Settings(batches=5, channels=4, batches_per_shift=2)


def console(**options):
    return Console(file=io.StringIO(), width=80, **options)


def test_the_picture_names_channels_keys_imbalance_and_gain_within_80_columns():
    screen = console()
    screen.print(picture(BATCHES, SETTINGS))
    shown = screen.file.getvalue()
    assert "channel 1 has 2.00 times the mean" in shown
    assert re.search(r"user-7\s+33\.3%\s+on channel 1", shown)
    assert "2.5 s, balanced 1.9 s" in shown  # 2.5 less the fullest channel's 1.8, plus the hottest key's 1.2
    assert "batch 5 of 5" in shown
    assert max(len(line) for line in shown.splitlines()) <= 80
    assert "…" not in shown


def test_live_bars_on_a_terminal():
    screen = console(force_terminal=True)
    with LiveView(screen, SETTINGS) as view:
        view.show(BATCHES)
    assert "600" in screen.file.getvalue()


def test_plain_lines_elsewhere():
    screen = console()
    with PlainView(screen, SETTINGS) as view:
        for count in range(1, 4):
            view.show(BATCHES[:count])
    lines = screen.file.getvalue().splitlines()[1:]
    assert [line.partition(":")[0] for line in lines] == ["batch 0", "batch 1", "batch 2"]
    assert "600 of 1,200 rows on channel 1, 2.00 times the mean" in lines[0]


class Collector(HTMLParser):
    """Collects what a page would load, and its tags that are left open."""

    def __init__(self):
        super().__init__()
        self.loaded, self.tags = [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        for name, value in attributes:
            if name in {"src", "href", "xlink:href", "data"} and value and not value.startswith(("#", "data:")):
                self.loaded.append(value)


def test_the_page_stands_alone(tmp_path):
    path = write_page(tmp_path / "new" / "page.html", BATCHES, SETTINGS)
    assert path == (tmp_path / "new" / "page.html").resolve()
    text = path.read_text()
    page = Collector()
    page.feed(text)
    assert page.loaded == []
    assert page.tags.count("svg") == 2
    assert "script" not in page.tags
    assert "&lt;script&gt;" in text
    assert "2.00&times;" in text
    assert re.search(r"\$\{?\w", text) is None
    assert text == write_page(path, BATCHES, SETTINGS).read_text()


@pytest.mark.parametrize("count", [1, 2])
def test_few_batches_make_a_page_too(tmp_path, count):
    assert write_page(tmp_path / "page.html", BATCHES[:count], SETTINGS).exists()
