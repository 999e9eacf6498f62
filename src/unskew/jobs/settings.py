"""From settings by name, given as options or in a TOML file, to a job."""

from __future__ import annotations

import tomllib
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from unskew.errors import ArgumentError, FormatError
from unskew.jobs.job import Job
from unskew.jobs.places import did_you_mean

SPELLINGS = {"with": "parameters", "package": "packages", "column": "columns"}  # as on the command line


def read_job_file(path: Path) -> dict[str, Any]:
    """Return the settings in a TOML file, by the names of `Job`'s fields; dashes and underscores are alike."""
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        hint = "unskew run JOB.toml"
        raise ArgumentError("the job file cannot be read", where=str(path), got=error.strerror, hint=hint) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FormatError(f"this is not TOML: {error}", where=str(path)) from None
    return {_field_named(name, str(path)): value for name, value in entries.items()}


def job_from(settings: Mapping[str, Any], where: str = "the options") -> Job:
    """Return the job that settings describe, after checking their names and types.

    >>> job_from({"source": "csv:in", "key": "user", "aggregate": "count", "sink": "console", "channels": 4}).channels
    4
    >>> job_from({"source": "csv:in", "key": "user", "aggregate": "count"})
    Traceback (most recent call last):
    unskew.errors.ArgumentError: a job needs a sink (in the options). Hint: such as --sink parquet:OUT.
    """
    examples = {"source": "parquet:DIR", "sink": "parquet:OUT", "key": "user"}
    for each in fields(Job):
        if each.default is MISSING and each.default_factory is MISSING and each.name not in settings:
            hint = f"such as --{each.name} {examples[each.name]}"
            raise ArgumentError(f"a job needs a {each.name}", where=where, hint=hint)
    hints = typing.get_type_hints(Job)
    return Job(**{name: _checked(name, value, hints[name], where) for name, value in settings.items()})


def _field_named(name: str, where: str) -> str:
    plain = name.replace("-", "_")
    plain = SPELLINGS.get(plain, plain)
    known = {each.name: each.name.replace("_", "-") for each in fields(Job)}
    if plain not in known:
        hint = did_you_mean(plain, known, known)
        raise ArgumentError("there is no setting of that name", where=where, got=name, hint=hint)
    return plain


def _checked(name: str, value: Any, wanted: Any, where: str) -> Any:
    """Return a value as its field wants it: lists become tuples, or text with commas where that is wanted."""
    kinds = typing.get_args(wanted) if isinstance(wanted, types.UnionType) else (wanted,)
    if isinstance(value, list | tuple) and str in kinds:
        return ", ".join(map(str, value))
    for kind in kinds:
        origin = typing.get_origin(kind) or kind
        if origin is tuple and isinstance(value, list | tuple):
            return tuple(map(str, value))
        if origin is float and type(value) is int:
            return float(value)
        if isinstance(value, origin) and not (isinstance(value, bool) and origin is not bool):
            return value
    words = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
    expected = [words.get(kind, "a table of names and values") for kind in kinds if kind is not type(None)]
    raise ArgumentError(f"{name.replace('_', '-')} must be {' or '.join(expected)}", where=where, got=value)
