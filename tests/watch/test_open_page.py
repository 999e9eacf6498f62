from __future__ import annotations

import sys

import pytest

from unskew.watch.browser import open_page


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere there is always a display")
def test_without_a_display_nothing_is_opened(monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda url: opened.append(url) or True)
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert not open_page("http://127.0.0.1:1/")
    monkeypatch.setenv("DISPLAY", ":0")
    assert open_page("http://127.0.0.1:1/")
    assert opened == ["http://127.0.0.1:1/"]
