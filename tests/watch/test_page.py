"""The page as one file, the server's door, and the commands; what a browser makes of it is in `test_browser`."""

from __future__ import annotations

import asyncio
import json
import re
from http.client import HTTPConnection
from pathlib import Path

import pytest
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import websocket_connect
from typer.testing import CliRunner

from made_up import batch, write_history
from unskew.cli import app
from unskew.errors import ArgumentError, CheckpointError
from unskew.runtime.figures import HotKey
from unskew.watch.checkpoints import open_history
from unskew.watch.page import as_html
from unskew.watch.server import Server


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("watched") / "clicks"
    return write_history(folder, [batch(number) for number in range(45)])


@pytest.fixture
def server(checkpoint: Path):
    served = Server({str(checkpoint): open_history(str(checkpoint))})
    yield served
    served.stop()


def test_a_page_of_its_own_asks_nobody() -> None:
    text = as_html({"/ck/clicks": [batch(number) for number in range(45)], "/ck/orders": []})
    around = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", around)
    assert not re.search(r"<script[^>]+src=", text)
    assert "user-7" in text


def test_keys_cannot_write_on_the_page() -> None:
    wicked = "<img src=x onerror=alert(1)>"
    text = as_html({f"/ck/{wicked}": [batch(1, hot_keys=(HotKey(wicked, 0.5, 0),))]})
    assert wicked not in text
    assert "<img" not in text.split("<main>")[1].split("</main>")[0]


def ask(server: Server, host: str) -> int:
    connection = HTTPConnection("127.0.0.1", server.port)
    connection.request("GET", "/", headers={"Host": host})
    status = connection.getresponse().status
    connection.close()
    return status


def test_foreign_hosts_are_refused(server: Server) -> None:
    assert server.url == f"http://127.0.0.1:{server.port}/"
    assert ask(server, f"127.0.0.1:{server.port}") == ask(server, f"localhost:{server.port}") == 200
    assert ask(server, "evil.example") == ask(server, f"127.0.0.1.evil.example:{server.port}") == 404


def test_foreign_origins_are_refused(server: Server) -> None:
    async def knock() -> None:
        request = HTTPRequest(f"ws://127.0.0.1:{server.port}/ws", headers={"Origin": "http://evil.example"})
        await websocket_connect(request, subprotocols=["bokeh", "token"])

    with pytest.raises(HTTPClientError, match="403"):
        asyncio.run(knock())


def test_other_names_are_let_in_if_told_so(checkpoint: Path) -> None:
    served = Server({"q": open_history(str(checkpoint))}, names=["box.example"])
    try:
        assert ask(served, f"box.example:{served.port}") == 200
        assert f"http://box.example:{served.port}/" in served._repr_html_()
        with pytest.raises(ArgumentError, match="this port cannot be used"):
            Server({}, port=served.port)
    finally:
        served.stop()


def test_wrong_places_are_told_in_plain_words(tmp_path: Path, checkpoint: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "native" / "offsets").mkdir(parents=True)
    for place, words in {
        tmp_path / "nowhere": "there is no such folder",
        tmp_path / "file": "this is a file",
        tmp_path: "this is not the checkpoint of a balanced query",
        tmp_path / "native": "a query that unskew does not balance",
        checkpoint / "unskew": "this is a folder inside a checkpoint",
    }.items():
        with pytest.raises(CheckpointError, match=words):
            open_history(str(place))


def command(*words: str) -> str:
    done = CliRunner().invoke(app, list(words), catch_exceptions=False)
    assert done.exit_code == 0
    return done.output


def test_the_commands(checkpoint: Path, tmp_path: Path) -> None:
    made = json.loads(command("history", str(checkpoint), "--json"))
    assert [each["batch_id"] for each in made] == list(range(45))
    assert made[20]["gain_planned"] == pytest.approx(0.83)
    assert made[20]["gain_next"] == pytest.approx(0.825)
    assert made[-1]["gain_next"] is None
    assert len(json.loads(command("history", str(checkpoint), "--last", "3", "--json"))) == 3
    assert re.search(r"40 +planned +mixed +1\.85 +1\.02", command("history", str(checkpoint)))
    shown = command("top", str(checkpoint))
    assert "batch 44: seconds of work per channel" in shown
    assert "Time saved" in shown
    page = tmp_path / "page.html"
    assert "page.html" in command("watch", str(checkpoint), "--html", str(page)).replace("\n", "")
    assert "<main>" in page.read_text()


def test_a_query_without_batches(tmp_path: Path) -> None:
    (tmp_path / "unskew").mkdir()
    assert "no batch has ended yet" in command("top", str(tmp_path))
    assert "No batch was planned yet" in command("history", str(tmp_path))
    assert json.loads(command("history", str(tmp_path), "--json")) == []
