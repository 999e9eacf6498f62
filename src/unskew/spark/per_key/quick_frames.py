"""Small frames, made quickly: pandas takes 90 microseconds for ``pd.DataFrame({"n": [1], "total": [0.5]})``.

Most of what a function per key takes is often this one line, so it is worth a short way of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, wraps
from typing import Any

import numpy as np
import pandas as pd
from pandas._config import config
from pandas.core.generic import NDFrame
from pandas.core.internals import BlockManager  # type: ignore[import-not-found]

MOST_ROWS = 100  # pandas is quick enough for more
MOST_LAYOUTS = 1000

_KINDS: dict[type, np.dtype[Any]] = {
    bool: np.dtype(bool),
    np.bool_: np.dtype(bool),
    int: np.dtype(np.int64),
    np.int64: np.dtype(np.int64),
    float: np.dtype(float),
    np.float64: np.dtype(float),
    str: np.dtype(object),
}
_OPTIONS: Any = config._global_config  # type: ignore[attr-defined]

_begin: Any = NDFrame.__init__  # what pandas' own constructor ends with

_Init = Callable[..., None]
_Blueprint = tuple[Any, list[tuple[Any, np.dtype[Any], list[str], Any]], Any, Any]

_lock = threading.Lock()
_users: list[None] = []  # one for each of those inside `quick_frames`, on any thread
_blueprints: dict[tuple[Any, ...], _Blueprint | None] = {}


@contextmanager
def quick_frames() -> Iterator[None]:
    """Let pandas take the short way for a while; its frames are the same.

    The short way is for a dict of short lists of one length, each of booleans, integers, floats or texts alone, and
    no other argument. The first frame with such columns is made by pandas itself, and those that follow are laid out as
    that one is. Everything else goes to pandas as it is.
    """
    with _lock:
        if not _users:
            _install(pd.DataFrame.__init__)
        _users.append(None)
    try:
        yield
    finally:
        with _lock:
            _users.pop()
            if not _users:
                pd.DataFrame.__init__ = pd.DataFrame.__init__.__wrapped__  # type: ignore[method-assign, attr-defined]


def _install(slow: _Init) -> None:
    @wraps(slow)
    def quick(self: Any, data: Any = None, *args: Any, **named: Any) -> None:
        if type(data) is dict and not args and not named:
            manager = _manager(data, slow)
            if manager is not None:
                _begin(self, manager)
                return
        slow(self, data, *args, **named)

    pd.DataFrame.__init__ = quick  # type: ignore[method-assign]


def _manager(data: dict[Any, Any], slow: _Init) -> Any:
    """Return the blocks of a frame, or None if they are for pandas to make."""
    length, signature = -1, []
    for name, values in data.items():
        if type(name) is not str or type(values) is not list:
            return None
        if len(values) != length and (length >= 0 or not 0 < len(values) <= MOST_ROWS):
            return None
        length, kind = len(values), type(values[0])
        if kind not in _KINDS or (length > 1 and {*map(type, values)} != {kind}):
            return None
        signature += [name, kind]
    if not signature or _OPTIONS["mode"]["data_manager"] != "block" or _OPTIONS["future"]["infer_string"]:
        return None
    known = tuple(signature)
    blueprint = _blueprints.get(known)
    if blueprint is None:
        if known not in _blueprints and len(_blueprints) < MOST_LAYOUTS:
            _blueprints[known] = _blueprint(data, slow)
        return None
    columns, blocks, block_of, place_in = blueprint
    try:
        made = tuple(
            [
                kind(np.array([data[name] for name in names], dtype), placement=place, ndim=2)
                for kind, dtype, names, place in blocks
            ]
        )
    except OverflowError:  # integers beyond 64 bits
        return None
    manager = BlockManager(made, [columns.view(), range_index(length).view()], verify_integrity=False)
    manager._blknos, manager._blklocs = block_of.copy(), place_in.copy()
    return manager


def _blueprint(data: dict[str, list[Any]], slow: _Init) -> _Blueprint | None:
    """Return how pandas lays out such a frame; None if the values decide, too."""
    frame: Any = pd.DataFrame.__new__(pd.DataFrame)
    slow(frame, data)
    manager, names = frame._mgr, list(data)
    blocks = [
        (type(block), block.values.dtype, [names[place] for place in block._mgr_locs.as_array], block._mgr_locs)
        for block in manager.blocks
    ]
    if any(dtype != _KINDS[type(data[name][0])] for _, dtype, its, _ in blocks for name in its):
        return None
    return frame.columns, blocks, manager.blknos, manager.blklocs


@lru_cache(maxsize=1024)
def range_index(length: int) -> Any:
    """Return an index to make views of, which is five times as fast as making one anew."""
    return pd.RangeIndex(length)
