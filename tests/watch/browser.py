"""A headless Chromium, driven through its DevTools protocol."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from tornado.websocket import WebSocketClientConnection, websocket_connect

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DESKTOP, PHONE = (1280, 900), (390, 844)
LARGEST = 1 << 28
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-port=0")


class Page:
    """One tab: what it was asked, what it requested, and what went wrong in it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, socket: WebSocketClientConnection) -> None:
        self._loop, self._socket, self._number = loop, socket, 0
        self.requests: list[str] = []
        self.errors: list[str] = []
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        return self._loop.run_until_complete(self._call(method, params))

    async def _call(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        await self._socket.write_message(json.dumps({"id": self._number, "method": method, "params": params}))
        while True:
            text = await asyncio.wait_for(self._socket.read_message(), 120)
            assert text is not None, "the browser is gone"
            message = json.loads(text)
            if message.get("id") == self._number:
                assert "error" not in message, message
                return message["result"]
            self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        params = message.get("params", {})
        match message.get("method"):
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            case "Network.webSocketCreated":
                self.requests.append(params["url"])
            case "Runtime.exceptionThrown":
                self.errors.append(str(params["exceptionDetails"]))
            case "Log.entryAdded" if params["entry"]["level"] == "error":
                self.errors.append(params["entry"]["text"])

    def go(self, url: str, size: tuple[int, int] = DESKTOP, dark: bool = False) -> None:
        self.call("Page.navigate", url="about:blank")
        time.sleep(0.2)
        self.call("Page.enable")
        self.requests, self.errors = [], []
        width, height = size
        mobile = size == PHONE
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=2 if mobile else 1, mobile=mobile,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=url)

    def ask(self, script: str) -> Any:
        """Return the value of a JavaScript expression."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait(self, script: str, seconds: float = 90) -> Any:
        """Return the value of an expression once it is true."""
        patience = time.monotonic() + seconds
        while time.monotonic() < patience:
            found = self.ask(f"(() => {{ try {{ return {script} }} catch {{ return null }} }})()")
            if found:
                return found
            time.sleep(0.05)
        raise AssertionError(f"never came true: {script}\n{self.errors}")

    def screenshot(self, path: Path, whole: bool = False) -> None:
        shown = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(shown["data"]))


@contextmanager
def browsing(profile: Path) -> Iterator[Page]:
    """Give a tab of a browser that ends with the block."""
    assert CHROMIUM is not None
    browser = subprocess.Popen(
        [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", "about:blank"], stderr=subprocess.PIPE, text=True
    )
    loop = asyncio.new_event_loop()
    try:
        assert browser.stderr is not None
        address = next(found[1] for line in browser.stderr if (found := re.search(r"ws://([\d.:]+)/", line)))
        with urlopen(Request(f"http://{address}/json/new?about:blank", method="PUT")) as answer:
            target = json.load(answer)["webSocketDebuggerUrl"]
        page = Page(loop, loop.run_until_complete(_opened(target)))
        yield page
        page._socket.close()
    finally:
        browser.terminate()
        browser.wait(30)
        browser.stderr.close()  # type: ignore[union-attr]
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


async def _opened(target: str) -> WebSocketClientConnection:
    return await websocket_connect(target, max_message_size=LARGEST)
