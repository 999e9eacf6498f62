"""Files of a checkpoint that are cut short, changed in one bit, or gone."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

from unskew.runtime.log import RecordLog
from unskew.runtime.record import Record
from unskew.state.files import Files, Piece
from unskew.state.piece_store import PieceStore

PLACES = ("chunk", "manifest", "record", "mark")


def find(own: Path, kind: str, dice: random.Random) -> tuple[Path, Piece | None]:
    """Return a file that the next start must read, and the piece of it that counts.

    Parameters
    ----------
    own
        The folder ``unskew`` of a checkpoint whose query does not run.
    kind
        A ``chunk`` or the ``manifest`` of a channel's state, the ``record`` of the last batch that is committed, or the
        ``mark`` that it is.
    dice
        Which channel and chunk.
    """
    files = Files(str(own))
    log = RecordLog(files)
    _, committed = log.last()
    if kind == "record":
        return own / "prepared" / str(committed), None
    if kind == "mark":
        return own / "commit" / str(committed), None
    record = log.read(committed)
    assert isinstance(record, Record)
    channel = dice.choice(sorted(record.channels))
    manifest = record.channels[channel].manifest
    chunks = [piece for piece in PieceStore(files, manifest).pieces if piece != manifest]
    piece = manifest if kind == "manifest" or not chunks else dice.choice(chunks)
    return own / piece.file, piece


def cut(path: Path, piece: Piece | None, dice: random.Random) -> None:
    """Cut a file off within the piece, or at any place."""
    start, length = (piece.offset, piece.length) if piece else (0, path.stat().st_size)
    data = path.read_bytes()
    path.write_bytes(data[: start + dice.randrange(length)])


def flip(path: Path, piece: Piece | None, dice: random.Random) -> None:
    """Change one bit within the piece, or of any byte."""
    start, length = (piece.offset, piece.length) if piece else (0, path.stat().st_size)
    data = bytearray(path.read_bytes())
    data[start + dice.randrange(length)] ^= 1 << dice.randrange(8)
    path.write_bytes(bytes(data))


def remove(path: Path, piece: Piece | None, dice: random.Random) -> None:
    path.unlink()


DAMAGES: dict[str, Callable[[Path, Piece | None, random.Random], None]] = {"cut": cut, "flip": flip, "remove": remove}


def keep(path: Path, copies: Path) -> Callable[[], None]:
    """Copy a file away, and return what puts it back."""
    copies.mkdir(exist_ok=True)
    copy = copies / path.name
    shutil.copy2(path, copy)

    def restore() -> None:
        path.unlink(missing_ok=True)
        shutil.copy2(copy, path)

    return restore
