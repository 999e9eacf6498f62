"""Opening a page in the reader's browser, where there is one."""

from __future__ import annotations

import os
import sys
import webbrowser


def open_page(url: str) -> bool:
    """Open a page and return at once; return False where there is no display.

    Without a display, `webbrowser` would start a browser that runs in the terminal, and wait for its end.
    """
    if sys.platform.startswith(("linux", "freebsd")) and not {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys():
        return False
    return webbrowser.open(url)
