"""Where numba keeps compiled kernels, so that they are compiled once and not at every start."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from unskew.private import private_folder


def kernel_cache(package: Path = Path(__file__).parent) -> Path | None:
    """Return the folder in which numba keeps the compiled kernels of `package`, or None if it has none.

    That is ``NUMBA_CACHE_DIR`` if set, else the package itself, or the user's cache folder if the package is read-only.
    """
    if os.environ.get("NUMBA_CACHE_DIR"):
        return Path(os.environ["NUMBA_CACHE_DIR"])
    users = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "numba"  # noqa: PTH111
    return next((folder for folder in (package, users) if _writable(folder)), None)


def ensure_kernel_cache() -> None:
    """Give numba a temporary folder if it has none: without one it refuses to import cached kernels."""
    if kernel_cache() is not None:
        return
    folder = Path(tempfile.gettempdir()) / f"unskew-kernels-{os.getuid()}"
    if not private_folder(folder):  # we would run somebody else's code
        folder = Path(tempfile.mkdtemp(prefix="unskew-kernels-"))
    os.environ["NUMBA_CACHE_DIR"] = str(folder)  # the processes that this one starts inherit it
    if "numba" in sys.modules:
        sys.modules["numba"].config.CACHE_DIR = str(folder)


def _writable(folder: Path) -> bool:
    """Tell whether `folder`, or its nearest existing parent, is writable."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
