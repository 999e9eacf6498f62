"""An S3-compatible server that misbehaves on demand: ``python s3_server.py PORT MODE_FILE``.

The file holds a word: ``well``; ``slow``, every answer takes a while; ``some-500``, every third request fails; ``500``,
all fail; ``hang``, no answer before the word is another one. Every second request that fails is carried out before it
fails, as after a time-out.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

SLOW_SECONDS, LOOK_AGAIN_SECONDS = 0.15, 0.2
BROKEN = b"<?xml version='1.0'?><Error><Code>InternalError</Code><Message>out of order</Message></Error>"


class Moody:
    """Answers as the word in the file says."""

    def __init__(self, server: Callable[..., Iterable[bytes]], mode: Path) -> None:
        self.server, self.mode, self.numbers = server, mode, itertools.count()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        while (mode := self.mode.read_text()) == "hang":
            time.sleep(LOOK_AGAIN_SECONDS)
        number = next(self.numbers)
        if mode == "slow":
            time.sleep(SLOW_SECONDS)
        if mode == "500" or (mode == "some-500" and number % 3 == 0):
            if number % 2:
                list(self.server(environ, lambda *_: None))
            start_response("500 Internal Server Error", [("Content-Type", "application/xml")])
            return [BROKEN]
        return self.server(environ, start_response)


def main(port: int, mode: Path) -> None:
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    app = DomainDispatcherApplication(create_backend_app)
    make_server("127.0.0.1", port, Moody(app, mode), threaded=True).serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
