"""Errors that say what, where, got and hint."""

from __future__ import annotations

import dataclasses
import difflib
import math
import re
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

# as Spark's own `spark.redaction.regex`, and what clouds and Kafka call theirs
SECRET = re.compile(r"secret|passw(?:or)?d|token|credential|(?:access|account|api)[._-]?key|signature", re.IGNORECASE)
_IN_URL = re.compile(r"(?<=://)[^/\s@'\"]+:[^/\s@'\"]+(?=@)")
_VALUE = re.compile(
    rf"((?:{SECRET.pattern})[\w.-]*(?:['\"]?\s*[=:]|['\"],)\s*)('[^']*'|\"[^\"]*\"|[^\s'\",;&)}}]+)", re.IGNORECASE
)
HIDDEN = "***"


def redacted(text: str) -> str:
    """Return a text for people, without passwords in URLs and without values that a secret's name precedes.

    >>> redacted("s3a://ID:KEY@bucket/ck cannot be read"), redacted("{'user': 'ada', 'password': 'x y', 'n': '1'}")
    ('s3a://***@bucket/ck cannot be read', "{'user': 'ada', 'password': ***, 'n': '1'}")
    """
    return _VALUE.sub(rf"\1{HIDDEN}", _IN_URL.sub(HIDDEN, text))


class UnskewError(Exception):
    """Base of every error that unskew raises on purpose.

    The message says what went wrong (without the final stop), where (a file, column, row or option), which value was
    found, and what to do next. Passwords that a URL or an option holds are left out.

    Examples
    --------
    >>> raise RoutingError("channel 9 is not in 0..7", where="explicit entry 3", hint="resize to 10 channels first")
    Traceback (most recent call last):
    unskew.errors.RoutingError: channel 9 is not in 0..7 (in explicit entry 3). Hint: resize to 10 channels first.
    """

    def __init__(self, what: str, *, where: str | None = None, got: object = None, hint: str | None = None) -> None:
        shown = None if got is None else repr(got)
        self.what, self.where, self.hint = redacted(what), where and redacted(str(where)), hint and redacted(hint)
        self.got = got if shown is None or shown == redacted(shown) else redacted(shown)
        place = f" (in {self.where})" if where else ""
        value = f", got {redacted(shown)}" if shown is not None else ""
        advice = f" Hint: {self.hint}." if hint else ""
        super().__init__(f"{self.what}{value}{place}.{advice}")


class ArgumentError(UnskewError, ValueError):
    """A parameter is out of range or names something that does not exist."""


class KeyTypeError(UnskewError, TypeError):
    """A key column has a type that cannot be hashed the way Spark hashes it."""


class ColumnError(UnskewError, KeyError):
    """A column is missing or holds nothing usable."""

    __str__ = Exception.__str__  # KeyError would print the repr


class RoutingError(UnskewError, ValueError):
    """A routing table, or an edit of one, is not valid."""


class FormatError(UnskewError, ValueError):
    """A file is damaged, is not ours, or was written by a newer unskew."""


class StatisticsError(UnskewError, ValueError):
    """The statistics of an interval are malformed: NaN, negative, or of unequal length."""


class SessionError(UnskewError, RuntimeError):
    """The Spark session, or the machine it runs on, is not suitable."""


class CheckpointError(UnskewError, RuntimeError):
    """A checkpoint belongs to another query, or a file in it is damaged or missing."""


class FencedError(CheckpointError):
    """Another start of the same query has taken over its checkpoint."""


class BatchError(UnskewError, RuntimeError):
    """A batch failed on Spark. The query stops; start it again to continue from its checkpoint."""


class StateError(UnskewError, RuntimeError):
    """State was used in a way that would lose or duplicate part of it."""


class SimulationError(UnskewError, AssertionError):
    """A simulation broke one of its own invariants: a bug in the simulator, not in what it simulates."""


class RangeError(UnskewError, ArithmeticError):
    """A result does not fit the range of its type."""


class MissingPackageError(UnskewError, ImportError):
    """The feature needs an optional package that is not installed."""


FAR = 1e9  # an upper bound that nobody needs to hear of who has not exceeded it


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the hint for an unknown name: the nearest known one, or all of them if none is near.

    >>> did_you_mean("usr", ["user", "day"]), did_you_mean("price", ["user", "day"])
    ("did you mean 'user'", 'one of user, day')
    """
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}" if near else f"one of {', '.join(names)}"


def require_number(
    where: str, given: object, least: float = -math.inf, most: float = math.inf, *, whole: bool = True
) -> None:
    """Raise `ArgumentError` unless a parameter is a number within a range.

    >>> require_number("records", "10", 1)
    Traceback (most recent call last):
    unskew.errors.ArgumentError: must be a whole number, at least 1, got '10' (in records).
    """
    fits = isinstance(given, Integral if whole else Real) and not isinstance(given, bool)
    if not (fits and least <= given <= most):  # type: ignore[operator]
        tell_most = bool(most < FAR or (fits and given > most))  # type: ignore[operator]
        bounds = [f"at least {least}"] * (least > -math.inf) + [f"at most {most}"] * tell_most
        what = f"must be {'a whole' if whole else 'a'} number{', ' * bool(bounds)}{' and '.join(bounds)}"
        raise ArgumentError(what, where=where, got=given)


def require_list(where: str, given: Any) -> tuple[Any, ...]:
    """Return several names or labels as a tuple. Raise `ArgumentError` if they are not a list; a word is none.

    >>> require_list("classes", ["yes", "no"])
    ('yes', 'no')
    >>> require_list("classes", "yes")
    Traceback (most recent call last):
    unskew.errors.ArgumentError: this must be a list, got 'yes' (in classes). Hint: such as ['yes'].
    """
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        hint = f"such as [{given!r}]" if isinstance(given, str) else None
        raise ArgumentError("this must be a list", where=where, got=given, hint=hint)
    return tuple(given)


_KINDS: dict[str, tuple[str, type | tuple[type, ...]]] = {
    "None": ("None", type(None)),
    "bool": ("True or False", bool),
    "float": ("a number", Real),
    "int": ("a whole number", Integral),
    "str": ("a word", str),
    "tuple[str, ...]": ("several words", (tuple, list)),
}


def require_fields(value: Any) -> None:
    """Raise `ArgumentError` unless each field of a dataclass holds what it is annotated with.

    Fields of other types than numbers, flags and words are left alone. Flags are not numbers.

    >>> @dataclasses.dataclass
    ... class Box:
    ...     sides: int | None
    >>> require_fields(Box("four"))
    Traceback (most recent call last):
    unskew.errors.ArgumentError: sides must be a whole number or None, got 'four'.
    """
    for field in dataclasses.fields(value):
        given, kinds = getattr(value, field.name), str(field.type).split(" | ")
        if all(kind in _KINDS for kind in kinds) and not any(_holds(given, kind) for kind in kinds):
            raise ArgumentError(f"{field.name} must be {' or '.join(_KINDS[kind][0] for kind in kinds)}", got=given)
        if isinstance(given, int) and not -(2**63) <= given < 2**63:
            raise ArgumentError(f"{field.name} has more than 64 bits", got=given)


def _holds(given: object, kind: str) -> bool:
    if isinstance(given, bool):
        return kind == "bool"
    if isinstance(given, (tuple, list)) and not all(isinstance(word, str) for word in given):
        return False
    return isinstance(given, _KINDS[kind][1])
