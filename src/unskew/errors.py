"""Errors that say what, where, got and hint."""

from __future__ import annotations


class UnskewError(Exception):
    """Base of every error that unskew raises on purpose.

    Parameters
    ----------
    what
        One plain sentence, without the final stop.
    where
        The place: a file, a column, a row, an option.
    got
        The value that was met instead of a good one.
    hint
        What to do next.

    Examples
    --------
    >>> raise RoutingError("channel 9 is not in 0..7", where="explicit entry 3", hint="resize to 10 channels first")
    Traceback (most recent call last):
    unskew.errors.RoutingError: channel 9 is not in 0..7 (in explicit entry 3). Hint: resize to 10 channels first.
    """

    def __init__(self, what: str, *, where: str | None = None, got: object = None, hint: str | None = None) -> None:
        self.what, self.where, self.got, self.hint = what, where, got, hint
        place = f" (in {where})" if where else ""
        value = f", got {got!r}" if got is not None else ""
        advice = f" Hint: {hint}." if hint else ""
        super().__init__(f"{what}{value}{place}.{advice}")


class ArgumentError(UnskewError, ValueError):
    """A parameter is out of its range or names something that does not exist."""


class KeyTypeError(UnskewError, TypeError):
    """A key column has a type that cannot be hashed as Spark hashes it."""


class ColumnError(UnskewError, KeyError):
    """A column is missing or holds nothing usable."""

    __str__ = Exception.__str__  # KeyError would print the repr


class RoutingError(UnskewError, ValueError):
    """A routing table, or an edit of one, is not valid."""


class FormatError(UnskewError, ValueError):
    """A file is corrupt, not ours, or written by a newer unskew."""


class StatisticsError(UnskewError, ValueError):
    """Statistics of an interval are malformed: NaN, negative, of unequal length."""


class SessionError(UnskewError, RuntimeError):
    """The Spark session, or the machine under it, does not fit."""


class CheckpointError(UnskewError, RuntimeError):
    """A checkpoint belongs to another query, or its control log is damaged."""


class FencedError(CheckpointError):
    """Another start of the same query has taken over its checkpoint."""


class BatchError(UnskewError, RuntimeError):
    """A batch failed on Spark; the query stops, and continues from its checkpoint when it is started again."""


class StateError(UnskewError, RuntimeError):
    """State was used in a way that would lose or duplicate some of it."""


class SimulationError(UnskewError, AssertionError):
    """A simulation broke one of its own invariants: a fault of the simulator, not of what it simulates."""


class RangeError(UnskewError, ArithmeticError):
    """A result is out of the range of its type."""


class MissingPackageError(UnskewError, ImportError):
    """An optional package is needed for what was asked."""
