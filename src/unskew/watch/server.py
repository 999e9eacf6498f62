"""A server for the page, on the loopback address unless told otherwise."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from socket import socket

from bokeh.application import Application
from bokeh.application.handlers import FunctionHandler
from bokeh.document import Document
from bokeh.resources import Resources
from bokeh.server.server import BaseServer
from bokeh.server.tornado import BokehTornado
from tornado.httpserver import HTTPServer
from tornado.ioloop import IOLoop
from tornado.netutil import bind_sockets
from tornado.routing import HostMatches, Rule, RuleRouter

from unskew.errors import ArgumentError, CheckpointError
from unskew.runtime.history import History
from unskew.watch.overview import Overview
from unskew.watch.page import Section, dress

SCRIPTS = ["bokeh", "bokeh-widgets"]  # of Bokeh's, which are five
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
LOOK_SECONDS = 1.0


@dataclass
class Watched:
    """A query as it was last seen."""

    history: History
    seen: Overview = field(default_factory=lambda: Overview.of(()))
    problem: str = ""

    def look(self) -> None:
        """Read what is new; a place that cannot be reached now may be reached later."""
        try:
            batches = list(self.history.refresh().values())
            if not self.seen.is_of(batches):
                self.seen = Overview.of(batches)
            self.problem = ""
        except CheckpointError as error:
            self.problem = str(error)


class Pages(BokehTornado):
    """Bokeh's application, whose pages load only the scripts that they need."""

    def resources(self, absolute_url: str | bool | None = None) -> Resources:
        found = super().resources(absolute_url)
        found.components = SCRIPTS
        return found


@dataclass(eq=False)
class Server:
    """Answers browsers in a thread of its own until `stop`. Another thread looks at the checkpoints.

    A request whose ``Host`` or ``Origin`` is not among `names` is refused, so that no other page that a reader has
    open can look over their shoulder.
    """

    queries: Mapping[str, History]
    port: int = 0
    host: str = "127.0.0.1"
    names: Sequence[str] = ()
    _ended: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._watched = {name: Watched(history) for name, history in self.queries.items()}
        for watched in self._watched.values():
            watched.look()
        self._ahead: list[Section] | None = self._sections()
        allowed = [*self.names, *(LOOPBACK if self.host in LOOPBACK else [self.host])]
        try:
            sockets = bind_sockets(self.port, self.host)
        except OSError as error:
            where, hint = f"{self.host}:{self.port}", "--port 0 takes one that is free"
            raise ArgumentError(f"this port cannot be used: {error.strerror}", where=where, hint=hint) from None
        self.port = sockets[0].getsockname()[1]
        self._ready = threading.Event()
        threading.Thread(target=self._serve, args=(sockets, allowed), name="unskew-watch", daemon=True).start()
        threading.Thread(target=self._look, name="unskew-watch-look", daemon=True).start()
        self._ready.wait()

    @property
    def url(self) -> str:
        name = self.names[0] if self.names else self.host
        return f"http://{name}:{self.port}/"

    def __repr__(self) -> str:
        return f"Server({self.url!r})"

    def _repr_html_(self) -> str:
        return f'<a href="{self.url}" target="_blank">{self.url}</a>'

    def stop(self) -> None:
        """Answer no more."""
        self._ended.set()
        self._loop.add_callback(self._close)

    def _serve(self, sockets: list[socket], allowed: Sequence[str]) -> None:
        asyncio.set_event_loop(asyncio.new_event_loop())
        self._loop = IOLoop.current()
        application = Application(FunctionHandler(self._fill))
        origins = [f"{name}:{self.port}" for name in allowed]
        tornado = Pages({"/": application}, extra_websocket_origins=origins)
        hosts = "|".join(map(re.escape, allowed))
        http = HTTPServer(RuleRouter([Rule(HostMatches(f"^({hosts})$"), tornado)]))
        self._server = BaseServer(self._loop, tornado, http)
        http.add_sockets(sockets)
        self._server.start()
        self._ready.set()
        self._loop.start()
        self._loop.close(all_fds=True)

    def _close(self) -> None:
        self._server.stop()
        self._loop.stop()

    def _look(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            for watched in self._watched.values():
                watched.look()

    def _sections(self) -> list[Section]:
        """Return the sections of a page; this takes half a second, so the first reader's are made ahead."""
        sections = [Section(number, name) for number, name in enumerate(self._watched)]
        for section, watched in zip(sections, self._watched.values(), strict=True):
            section.show(watched.seen, watched.problem)
        return sections

    def _fill(self, document: Document) -> None:
        """Make the page of one reader."""
        sections, self._ahead = self._ahead or self._sections(), None

        def refresh() -> None:
            for section, watched in zip(sections, self._watched.values(), strict=True):
                section.show(watched.seen, watched.problem)

        refresh()
        for section in sections:
            section.answer()
        dress(document, sections)
        document.add_periodic_callback(refresh, round(1000 * LOOK_SECONDS))
