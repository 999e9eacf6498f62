"""From names and text to workloads: how the command line, Spark options and users ask for one."""

from __future__ import annotations

import dataclasses
import difflib
import typing
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from unskew.errors import ArgumentError
from unskew.workloads.base import WORKLOADS, Drift, Seeded, Workload


def workload(name: str, /, **options: Any) -> Workload:
    """Return the workload of that name.

    Parameters
    ----------
    name
        One of `WORKLOADS`.
    **options
        Its parameters, as values or as text (``"100_000"``, ``"1e6"``). Capitals and underscores do not matter:
        Spark's ``intervalSeconds`` is ``interval_seconds``. A drift takes its base by name (``base="zipf"`` by
        default) and hands it the options that are not its own.

    Examples
    --------
    >>> workload("zipf", exponent=1.1, keys="1e5").keys(interval=0, n=8).tolist()
    [28452, 6, 661, 0, 18, 242, 0, 2895]
    >>> workload("key-shift", shift=7, exponent=0.5)
    KeyShift(base=Zipf(seed=0, interval_seconds=10.0, exponent=0.5, key_count=100000), shift=7, every_seconds=60.0)
    >>> workload("zipff")
    Traceback (most recent call last):
    unskew.errors.ArgumentError: there is no workload of that name, got 'zipff'. Hint: did you mean 'zipf'.
    """
    kind = WORKLOADS[name]
    if not issubclass(kind, Drift):
        return kind(**_parameters(kind, options))
    mine = _parameter_types(kind)
    own = {option: value for option, value in options.items() if _plain(option) in mine}
    others = {option: value for option, value in options.items() if option not in own}
    base = next((own.pop(option) for option in list(own) if _plain(option) == "base"), "zipf")
    if isinstance(base, Workload):
        return kind(base=base, **_parameters(kind, own | others))
    known = [*mine, *_parameter_types(WORKLOADS[base])]
    for option in others:
        _refuse_unknown(option, known, where=f"workload {name!r} over {base!r}")
    return kind(base=workload(base, **others), **_parameters(kind, own))


def options_of(kind: type[Workload]) -> dict[str, Any]:
    """Return the options of a kind of workload with their defaults, its own before those that all have.

    >>> options_of(WORKLOADS["zipf"])
    {'exponent': 1.0, 'keys': 100000, 'seed': 0, 'interval_seconds': 10.0}
    >>> options_of(WORKLOADS["hot-key"])
    {'share': 0.2, 'every_intervals': 20, 'lasts_intervals': 10, 'base': 'zipf'}
    """
    inherited = Drift if issubclass(kind, Drift) else Seeded
    common = {field.name for field in dataclasses.fields(inherited)}
    fields = sorted(dataclasses.fields(kind), key=lambda field: field.name in common)  # type: ignore[arg-type]
    return {_option(field): "zipf" if field.name == "base" else field.default for field in fields}


def _parameters(kind: type[Workload], options: Mapping[str, Any]) -> dict[str, Any]:
    types = _parameter_types(kind)
    where = f"workload {kind.name!r}"
    parameters: dict[str, Any] = {}
    for option, value in options.items():
        _refuse_unknown(option, list(types), where)
        field, kind_of_value = types[_plain(option)]
        parameters[field] = _converted(value, kind_of_value, f"option {option!r} of {where}")
    return parameters


def _parameter_types(kind: type[Workload]) -> dict[str, tuple[str, type]]:
    """Return a field's name and type by the plain spellings of the field and of its option."""
    hints = typing.get_type_hints(kind)
    return {
        _plain(spelling): (field.name, hints[field.name])
        for field in dataclasses.fields(kind)  # type: ignore[arg-type]
        for spelling in (field.name, _option(field))
    }


def _option(field: dataclasses.Field[Any]) -> str:
    return field.metadata.get("option") or field.name


def _plain(option: str) -> str:
    return option.replace("_", "").replace("-", "").lower()


def _refuse_unknown(option: str, known: list[str], where: str) -> None:
    if _plain(option) not in known:
        near = difflib.get_close_matches(_plain(option), known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}" if near else f"one of {', '.join(sorted(known))}"
        raise ArgumentError(f"there is no option {option!r}", where=where, hint=hint)


def _converted(value: Any, kind: type, where: str) -> Any:
    if kind is int:
        return whole_number(value, where)
    if kind is not float:
        return value
    try:
        return float(value)
    except (ValueError, TypeError, OverflowError):
        raise ArgumentError("expected a number", where=where, got=value) from None


def whole_number(value: Any, where: str) -> int:
    """Return the whole number that `value` is or spells.

    >>> [whole_number(value, where="rows") for value in (5, "100_000", "1e6", 2.0)]
    [5, 100000, 1000000, 2]
    """
    for read in (int, lambda text: int(Decimal(text))):
        try:
            number: int = read(value)
            if Decimal(value) == number:
                return number
        except (ValueError, TypeError, ArithmeticError):
            continue
    raise ArgumentError("expected a whole number", where=where, got=value)
