"""Folders in shared places, such as /tmp, that belong to one user."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path


def private_folder(path: Path) -> bool:
    """Make a folder that only this user may enter, if there is none; tell whether only this user can write to it.

    In a shared place, another user may have made the folder first, or a link of that name. Trust nothing in it then.
    """
    with suppress(OSError):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.lstat()
        others_write = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not others_write
    return False
