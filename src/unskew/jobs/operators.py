"""What to do per key, in words: aggregates as in SQL, and operators by name."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from unskew import operators as home
from unskew.errors import ArgumentError
from unskew.jobs.places import did_you_mean
from unskew.operators import Operator

_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_RESULT = re.compile(r"(?P<call>.*?)(?:\s+as\s+(?P<name>\w+))?", re.IGNORECASE | re.DOTALL)
_COMMA = re.compile(r",(?![^()]*\))")  # not within parentheses


def parse_aggregates(text: str) -> dict[str, str]:
    """Return aggregates by name; one without a name is called after what it does.

    >>> parse_aggregates("count, sum(amount), max_by(item, amount) as largest")
    {'count': 'count', 'sum_amount': 'sum(amount)', 'largest': 'max_by(item, amount)'}
    """
    results: dict[str, str] = {}
    for part in _COMMA.split(text):
        match = _RESULT.fullmatch(part.strip())
        call = match["call"].strip() if match else ""
        if not match or not call:
            hint = "such as count, sum(amount)"
            raise ArgumentError("an aggregate is missing", where="aggregate", got=text, hint=hint)
        name = match["name"] or re.sub(r"\W+", "_", call.lower()).strip("_")
        if name in results:
            hint = "name them: sum(amount) as total"
            raise ArgumentError(f"two results are called {name!r}", where="aggregate", got=text, hint=hint)
        results[name] = call
    return results


def known_operators() -> dict[str, type[Operator]]:
    """Return every operator in `unskew.operators`, by the name of its class in small letters.

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

    Text becomes a number, a truth value or a list where it reads like one (``[1, 2]``, ``["a", "b"]``), unless the
    parameter is declared as a string.

    >>> make_operator("aggregate", {"n": "count"})
    Aggregate(n='count')
    >>> make_operator("agregate", {})
    Traceback (most recent call last):
    unskew.errors.ArgumentError: there is no operator of that name, got 'agregate'. Hint: did you mean 'aggregate'...
    """
    kind = _class_of(name)
    signature = inspect.signature(kind)
    known = signature.parameters
    takes_any = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in known.values())
    given: dict[str, Any] = {}
    for parameter, value in parameters.items():
        if parameter not in known and not takes_any:
            hint = f"one of {', '.join(known)}" if known else "it takes none"
            raise ArgumentError(f"the operator {name!r} has no parameter {parameter!r}", where="with", hint=hint)
        is_text = parameter not in known or str(known[parameter].annotation).startswith("str")
        given[parameter] = plain_value(value) if isinstance(value, str) and not is_text else value
    try:
        signature.bind(**given)
    except TypeError as error:
        raise ArgumentError(f"{error}", where=f"operator {name!r}", hint="give it with --with NAME=VALUE") from None
    return kind(**given)


def plain_value(text: str) -> Any:
    """Return the number, truth value or list that a text spells, or else the text itself.

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
    if not colon:
        known = known_operators()
        if name not in known:
            hint = f"{did_you_mean(name, known)}; your own is module:Class"
            raise ArgumentError("there is no operator of that name", got=name, hint=hint)
        return known[name]
    try:
        kind = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        hint = f"{error}; is its folder on PYTHONPATH"
        raise ArgumentError("this operator cannot be imported", got=name, hint=hint) from None
    if not (inspect.isclass(kind) and issubclass(kind, Operator)):
        raise ArgumentError("this is not an operator", got=name, hint="a subclass of unskew.operators.Operator")
    return kind
