"""Where compiled kernels are kept, so that compilation is paid once and not at every start."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path


def kernel_cache(package: Path = Path(__file__).parent) -> Path | None:
    """Return the folder in which numba will keep the compiled kernels of `package`; None if there is none.

    That is ``NUMBA_CACHE_DIR`` where it is set, otherwise the package itself, and the user's cache folder where the
    package is read-only.
    """
    if os.environ.get("NUMBA_CACHE_DIR"):
        return Path(os.environ["NUMBA_CACHE_DIR"])
    users = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "numba"  # noqa: PTH111
    return next((folder for folder in (package, users) if _writable(folder)), None)


def ensure_kernel_cache() -> None:
    """Give numba a folder among the temporary files if it has none; called when unskew is imported.

    Without any folder numba refuses to import a kernel that is to be cached.
    """
    if kernel_cache() is not None:
        return
    folder = Path(tempfile.gettempdir()) / f"unskew-kernels-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():  # somebody else's: what lies in there would be run as us
        folder = Path(tempfile.mkdtemp(prefix="unskew-kernels-"))
    os.environ["NUMBA_CACHE_DIR"] = str(folder)  # the processes that this one starts inherit it
    if "numba" in sys.modules:
        sys.modules["numba"].config.CACHE_DIR = str(folder)


def _writable(folder: Path) -> bool:
    """Whether `folder`, or the nearest of its parents that exists, can be written to."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
