from __future__ import annotations

import io
from urllib.request import urlopen

from rich.console import Console

from made_up import batch, write_history
from unskew_lab.demo import Settings
from unskew_lab.demo.live_page import live_page
from unskew_lab.demo.view import PlainView


def test_the_page_is_live_then_a_file(tmp_path):
    checkpoint, file = tmp_path / "checkpoint", tmp_path / "page.html"
    with live_page(checkpoint, file) as url:
        with urlopen(url) as answer:
            assert answer.status == 200, "before the first batch, too"
        write_history(checkpoint, [batch(number) for number in range(3)])
    assert "last batch 2, begun" in file.read_text()


def test_no_batch_no_file(tmp_path):
    with live_page(tmp_path / "checkpoint", tmp_path / "page.html"):
        pass
    assert not (tmp_path / "page.html").exists()


def test_the_view_says_where_and_opens_it_if_told_so(monkeypatch):
    opened = []
    monkeypatch.setattr("unskew_lab.demo.view.open_page", opened.append)
    for wanted in (False, True):
        console = Console(file=io.StringIO())
        PlainView(console, Settings(), wanted).page_is_at("http://127.0.0.1:1/")
        assert "http://127.0.0.1:1/" in console.file.getvalue()
    assert opened == ["http://127.0.0.1:1/"]
