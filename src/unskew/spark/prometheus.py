"""Figures of a query as text that Prometheus reads."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from unskew.runtime.figures import BatchFigures

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

GAUGES = {
    "imbalance": "Load of the fullest channel over the mean in the last batch.",
    "channels": "Channels in use.",
    "state_keys": "Keys that the channels hold state of.",
    "state_bytes": "Bytes of state that the channels hold.",
    "table_keys": "Keys with an entry of their own in the routing table.",
    "planning_seconds": "Time that planning the last batch took, 0 if nothing was planned.",
}
SUMS = {
    "rows": "Rows that came to the channels.",
    "late_rows": "Rows that came too late to count.",
    "moved_keys": "Keys that changed their channel.",
    "moved_slots": "Slots that changed their channel.",
    "moved_bytes": "Bytes of state that changed their channel.",
}
COUNTERS = {"batches": "Batches that have ended.", **SUMS, "plans": "Plans made."}


def count_batch(totals: Counter[str], figures: BatchFigures) -> None:
    """Add a batch to what has been counted since the query was started."""
    totals.update({name: getattr(figures, name) for name in SUMS}, batches=1, plans=figures.planner is not None)


def prometheus_text(query: str, last: BatchFigures | None, totals: Mapping[str, int]) -> str:
    """Return the figures in Prometheus' text format; every sample has the label ``query``.

    >>> print(prometheus_text("clicks", None, Counter(batches=2, rows=500)).splitlines()[2])
    unskew_batches_total{query="clicks"} 2
    """
    label = f'query="{_escaped(query)}"'
    lines: list[str] = []
    for name, help_text in COUNTERS.items():
        lines += _metric(f"{name}_total", "counter", help_text, [(label, totals.get(name, 0))])
    if last is not None:
        for name, help_text in GAUGES.items():
            lines += _metric(name, "gauge", help_text, [(label, getattr(last, name))])
        for name, values in (("rows", last.channel_rows), ("seconds", last.channel_seconds)):
            samples = [(f'{label},channel="{channel}"', value) for channel, value in enumerate(values)]
            lines += _metric(f"channel_{name}", "gauge", f"The last batch's {name}, by channel.", samples)
        hot = [(f'{label},key="{_escaped(key.key)}",channel="{key.channel}"', key.share) for key in last.hot_keys]
        lines += _metric("hot_key_share", "gauge", "Share of the last batch's load that a hot key had.", hot)
    return "\n".join(lines) + "\n"


def _metric(name: str, kind: str, help_text: str, samples: list[tuple[str, float]]) -> Iterator[str]:
    yield f"# HELP unskew_{name} {help_text}"
    yield f"# TYPE unskew_{name} {kind}"
    for labels, value in samples:
        yield f"unskew_{name}{{{labels}}} {value!r}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def serve(text: Callable[[], str], port: int = 0, host: str = "127.0.0.1") -> ThreadingHTTPServer:
    """Answer every request with ``text()`` until ``shutdown()``; port 0 takes a free one, see ``server_port``.

    On a loopback address, only requests to that address or to ``localhost`` are answered. Otherwise, a web page could
    give its own name this address, and read the answer with the browser of somebody on this machine.

    >>> from urllib.request import urlopen
    >>> server = serve(lambda: "unskew_channels 8")
    >>> urlopen(f"http://127.0.0.1:{server.server_port}/metrics").read()
    b'unskew_channels 8'
    >>> server.shutdown()
    >>> server.server_close()
    """
    guarded = host in LOOPBACK

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if guarded and re.sub(r":\d+$", "", self.headers.get("Host", "")).lower() not in LOOPBACK:
                self.send_error(403, "Not the name of this machine's loopback address")
                return
            body = text().encode()
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer((host, port), Answer)
    threading.Thread(target=server.serve_forever, name="unskew-metrics", daemon=True).start()
    return server
