"""Operators by name, with parameters in words."""

from __future__ import annotations

import difflib
import importlib
import inspect
import pkgutil
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from unskew import operators as home
from unskew.errors import ArgumentError
from unskew.operators import Operator

_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def known_operators() -> dict[str, type[Operator]]:
    """Return every operator that stands in a module of `unskew.operators`, by its class's name in small letters.

    Examples
    --------
    >>> known_operators()["aggregate"]
    <class 'unskew.operators.aggregate.Aggregate'>
    """
    found: dict[str, type[Operator]] = {}
    for module in pkgutil.walk_packages(home.__path__, f"{home.__name__}."):
        for name, member in vars(importlib.import_module(module.name)).items():
            is_operator = inspect.isclass(member) and issubclass(member, Operator) and not inspect.isabstract(member)
            if is_operator and member.__module__ == module.name and not name.startswith("_"):
                found[_CAPITAL.sub("-", name).lower()] = member
    return dict(sorted(found.items()))


def make_operator(name: str, parameters: Mapping[str, Any]) -> Operator:
    """Return an operator by its name, or by ``module:Class``; parameters may be values or text.

    Text is taken for a number, a truth value or a list where it reads like one (``[1, 2]``, ``["a", "b"]``), unless the
    parameter is said to be a string.

    Examples
    --------
    >>> make_operator("aggregate", {"n": "count"})
    Aggregate(n='count')
    >>> make_operator("agregate", {})
    Traceback (most recent call last):
    unskew.errors.ArgumentError: there is no operator of that name, got 'agregate'. Hint: did you mean 'aggregate'.
    """
    kind = _class_of(name)
    signature = inspect.signature(kind)
    takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in signature.parameters.values())
    given: dict[str, Any] = {}
    for parameter, value in parameters.items():
        if parameter not in signature.parameters and not takes_any:
            raise ArgumentError(
                f"the operator {name!r} has no parameter {parameter!r}",
                where="with",
                hint=f"one of {', '.join(signature.parameters)}" if signature.parameters else "it takes none",
            )
        annotation = str(signature.parameters[parameter].annotation) if parameter in signature.parameters else "str"
        given[parameter] = value if not isinstance(value, str) or annotation.startswith("str") else plain_value(value)
    try:
        signature.bind(**given)
    except TypeError as error:
        raise ArgumentError(f"{error}", where=f"operator {name!r}", hint="give it with --with NAME=VALUE") from None
    return kind(**given)


def plain_value(text: str) -> Any:
    """Return what a text says: a number, a truth value, a list, or else the text itself.

    Examples
    --------
    >>> [plain_value(text) for text in ("3", "0.5", "true", '["a", "b"]', "10 minutes", "2024-01-01")]
    [3, 0.5, True, ['a', 'b'], '10 minutes', '2024-01-01']
    """
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
    return value if isinstance(value, bool | int | float | str | list) else text


def _class_of(name: str) -> type[Operator]:
    module, colon, attribute = name.partition(":")
    if colon:
        try:
            kind = getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            raise ArgumentError(
                "this operator cannot be imported", got=name, hint=f"{error}; is its folder on PYTHONPATH"
            ) from None
        if not (inspect.isclass(kind) and issubclass(kind, Operator)):
            raise ArgumentError("this is not an operator", got=name, hint="a subclass of unskew.operators.Operator")
        return kind
    known = known_operators()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}" if near else f"one of {', '.join(known)}, or module:Class"
        raise ArgumentError("there is no operator of that name", got=name, hint=hint)
    return known[name]
