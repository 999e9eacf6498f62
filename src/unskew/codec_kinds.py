"""How the codec writes and reads the values of each type hint."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import sys
import threading
import typing
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from unskew.errors import ArgumentError, FormatError, UnskewError

Sections: TypeAlias = list[bytes | pa.Buffer]


@dataclasses.dataclass(frozen=True)
class Source:
    """What a value is read from: the sections after the header, and the name that errors use for the place."""

    sections: list[pa.Buffer]
    where: str | None


@dataclasses.dataclass(frozen=True)
class Kind:
    """Writes the values of one type hint as JSON and sections, and reads them back. Both get the path to the field."""

    write: Callable[[Any, Sections, str], Any]
    read: Callable[[Any, Source, str], Any]


def kind_of(hint: Any, at: str) -> Kind:
    """Return the kind of a type hint; `at` is the field that errors name."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint in SIMPLE:
        return SIMPLE[hint]
    if (meaning := getattr(origin, "__value__", None)) is not None:  # an alias, as NumPy's `NDArray` is since 2.5
        return kind_of(meaning[arguments], at)
    if origin in (typing.Union, UnionType):
        return _union(arguments, at)
    if np.ndarray in (hint, origin):
        return Kind(_write_array, _read_array)
    if origin is typing.Literal:
        return _literal(arguments)
    if origin is tuple and arguments[1:] != (...,):
        return _fixed_tuple([kind_of(each, at) for each in arguments])
    if origin in (tuple, list):
        return _sequence(origin, kind_of(arguments[0], at))
    if isinstance(origin, type) and issubclass(dict, origin) and len(arguments) == 2:
        return _mapping(arguments[0], kind_of(arguments[1], at), at)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _enum(hint)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return _nested(hint)
    raise ArgumentError(f"the codec cannot write {hint}", where=at, hint="see unskew.codec.dump for what it can write")


@cache
def record_kind(cls: Any) -> Kind:
    """Return the kind of a dataclass, which is written as its fields by name."""
    hints, name = _hints(cls), cls.__name__
    fields = {each.name: each for each in dataclasses.fields(cls) if each.init}
    kinds = {field: kind_of(hints[field], f"{name}.{field}") for field in fields}
    missing = dataclasses.MISSING
    needed = {field for field, each in fields.items() if each.default is missing and each.default_factory is missing}

    def write(value: Any, sections: Sections, at: str) -> dict[str, Any]:
        if type(value) is not cls:
            raise _misfit(value, f"of class {name}", at)
        return {field: kind.write(getattr(value, field), sections, f"{at}.{field}") for field, kind in kinds.items()}

    def read(value: Any, source: Source, at: str) -> Any:
        if unknown := sorted(value.keys() - kinds.keys()):
            raise _newer(source, at, unknown)
        if absent := sorted(needed - value.keys()):
            hint = "install the version of unskew that wrote it"
            raise FormatError(f"{at} has no value for {', '.join(absent)}", where=source.where, hint=hint)
        given = {field: kinds[field].read(each, source, f"{at}.{field}") for field, each in value.items()}
        try:
            return cls(**given)
        except UnskewError as error:
            raise FormatError(f"the fields of {at} do not make a valid {name}: {error}", where=source.where) from error

    return Kind(write, read)


def _misfit(value: object, expected: str, at: str) -> ArgumentError:
    return ArgumentError(f"the value is not {expected}", where=at, got=value)


def _newer(source: Source, at: str, got: object) -> FormatError:
    hint = "install the version of unskew that wrote it, or a later one"
    return FormatError(f"{at} was written by a newer unskew", where=source.where, got=got, hint=hint)


def _scalars(*kinds: type) -> Kind:
    """Write scalars as themselves. Numpy scalars and subclasses become plain Python values."""
    name = " or ".join({bool: "a boolean", int: "an integer", float: "a number", str: "a string"}[k] for k in kinds)
    allowed = (*kinds, int) if float in kinds else kinds  # an int may stand for a float, and stays one

    def check(value: Any, _: object, at: str) -> Any:
        if type(value) in allowed:
            return value
        plain = value.item() if isinstance(value, np.generic) else value
        for kind in allowed:
            if isinstance(plain, kind) and (kind is bool or not isinstance(plain, bool)):
                return str.__str__(plain) if kind is str else kind(plain)
        raise _misfit(value, name, at)

    return Kind(check, check)


def _json_value(value: Any, _: object, at: str) -> Any:
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, np.bool_ | np.integer | np.floating):
        return value.item()
    if isinstance(value, list):
        return [_json_value(each, _, f"{at}[{i}]") for i, each in enumerate(value)]
    if isinstance(value, dict) and all(type(key) is str for key in value):
        return {key: _json_value(each, _, f"{at}[{key!r}]") for key, each in value.items()}
    raise _misfit(value, "a JSON value", at)


def _none(value: Any, _: object, at: str) -> None:
    if value is not None:
        raise _misfit(value, "None", at)


def _section(expected: str, cls: type, encode: Callable[[Any], Any], decode: Callable[[pa.Buffer], Any]) -> Kind:
    """Write a value as a section of its own; the header holds the number of the section."""

    def write(value: Any, sections: Sections, at: str) -> int:
        if not isinstance(value, cls):
            raise _misfit(value, expected, at)
        sections.append(encode(value))
        return len(sections) - 1

    return Kind(write, lambda value, source, at: decode(source.sections[value]))


def _stream(table: pa.Table | pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write(table)
    return sink.getvalue()


def _write_array(value: Any, sections: Sections, at: str) -> list[Any]:
    if not isinstance(value, np.ndarray) or isinstance(value, np.ma.MaskedArray) or value.dtype.kind in "OVT":
        raise _misfit(value, "a numpy array of numbers, booleans, times or text of fixed length", at)
    sections.append(value.tobytes())
    return [len(sections) - 1, value.dtype.str, value.shape]


def _read_array(value: Any, source: Source, at: str) -> Any:
    number, dtype, shape = value
    array, data = np.empty(shape, dtype), source.sections[number]
    if len(data) != array.nbytes:
        raise ValueError(f"{at} has {len(data)} bytes where its shape needs {array.nbytes}")
    return np.frombuffer(data, dtype).reshape(shape).copy() if len(data) else array


SIMPLE: dict[Any, Kind] = {
    bool: _scalars(bool),
    int: _scalars(int),
    float: _scalars(float),
    str: _scalars(str),
    NoneType: Kind(_none, _none),
    Any: Kind(_json_value, _json_value),
    bytes: _section("bytes", bytes, bytes, bytes),
    pa.Table: _section("an Arrow table", pa.Table, _stream, lambda data: pa.ipc.open_stream(data).read_all()),
    pa.Array: _section(
        "an Arrow array",
        pa.Array,
        lambda array: _stream(pa.record_batch([array], names=[""])),
        lambda data: pa.ipc.open_stream(data).read_next_batch().column(0),
    ),
}


def _union(members: tuple[Any, ...], at: str) -> Kind:
    others = [each for each in members if each is not NoneType]
    if len(others) == 1:
        kind = kind_of(others[0], at)
    elif {*others} <= {bool, int, float, str}:
        kind = _scalars(*others)
    elif all(isinstance(each, type) and dataclasses.is_dataclass(each) for each in others):
        kind = _one_of({each.__name__: each for each in others})
    else:
        raise ArgumentError("the codec cannot tell the members of this union apart", where=at, got=members)
    if len(others) == len(members):
        return kind
    return Kind(
        lambda value, sections, at: None if value is None else kind.write(value, sections, at),
        lambda value, source, at: None if value is None else kind.read(value, source, at),
    )


def _one_of(classes: dict[str, type]) -> Kind:
    def write(value: Any, sections: Sections, at: str) -> list[Any]:
        name = type(value).__name__
        if classes.get(name) is not type(value):
            raise _misfit(value, f"of class {' or '.join(classes)}", at)
        return [name, record_kind(classes[name]).write(value, sections, at)]

    def read(value: Any, source: Source, at: str) -> Any:
        name, fields = value
        if name not in classes:
            raise _newer(source, at, name)
        return record_kind(classes[name]).read(fields, source, at)

    return Kind(write, read)


def _literal(allowed: tuple[Any, ...]) -> Kind:
    def check(value: Any, _: object, at: str) -> Any:
        for each in allowed:
            if value == each and isinstance(value, type(each)):
                return each
        raise _misfit(value, f"one of {', '.join(map(repr, allowed))}", at)

    return Kind(check, check)


def _enum(cls: type[Enum]) -> Kind:
    def write(value: Any, _: object, at: str) -> Any:
        if not isinstance(value, cls):
            raise _misfit(value, f"of class {cls.__name__}", at)
        return _json_value(value.value, _, at)

    return Kind(write, lambda value, source, at: cls(value))


def _fixed_tuple(kinds: list[Kind]) -> Kind:
    def write(value: Any, sections: Sections, at: str) -> list[Any]:
        if not isinstance(value, tuple) or len(value) != len(kinds):
            raise _misfit(value, f"a tuple of {len(kinds)}", at)
        pairs = enumerate(zip(kinds, value, strict=True))
        return [kind.write(each, sections, f"{at}[{i}]") for i, (kind, each) in pairs]

    def read(value: Any, source: Source, at: str) -> tuple[Any, ...]:
        return tuple(kind.read(each, source, at) for kind, each in zip(kinds, value, strict=True))

    return Kind(write, read)


def _sequence(cls: Any, kind: Kind) -> Kind:
    def write(value: Any, sections: Sections, at: str) -> list[Any]:
        if not isinstance(value, cls):
            raise _misfit(value, f"a {cls.__name__}", at)
        return [kind.write(each, sections, f"{at}[{i}]") for i, each in enumerate(value)]

    return Kind(write, lambda value, source, at: cls(kind.read(each, source, at) for each in value))


def _mapping(key: Any, kind: Kind, at: str) -> Kind:
    literals = typing.get_args(key) if typing.get_origin(key) is typing.Literal else ()
    types = [type(each) for each in literals] or [key]
    if key is not int and not all(isinstance(each, type) and issubclass(each, str) for each in types):
        raise ArgumentError("the keys of a mapping must be integers or strings", where=at, got=key)
    keys, parsed = kind_of(key, at), int if key is int else str

    def write(value: Any, sections: Sections, at: str) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise _misfit(value, "a mapping", at)
        return {str(keys.write(k, sections, at)): kind.write(v, sections, f"{at}[{k!r}]") for k, v in value.items()}

    def read(value: Any, source: Source, at: str) -> dict[Any, Any]:
        return {keys.read(parsed(k), source, at): kind.read(v, source, at) for k, v in value.items()}

    return Kind(write, read)


def _nested(cls: type) -> Kind:
    """Look the class up when a value comes, so that a class may contain itself."""
    return Kind(
        lambda value, sections, at: record_kind(cls).write(value, sections, at),
        lambda value, source, at: record_kind(cls).read(value, source, at),
    )


def _hints(cls: type) -> dict[str, Any]:
    """Return the type hints of a class, even if its module imports some names only for type checkers."""
    try:
        return typing.get_type_hints(cls)
    except NameError:
        names = {name: value for base in cls.__mro__[:-1] for name, value in _checkers_imports(base.__module__).items()}
    try:
        return typing.get_type_hints(cls, localns=names)
    except NameError as error:
        raise ArgumentError(f"a type hint cannot be resolved: {error}", where=cls.__qualname__) from None


_PARSING = threading.Lock()  # Python 3.11 cannot parse in two threads at once; see CPython's issue 106905


def _checkers_imports(module: str) -> dict[str, Any]:
    """Return what a module imports under ``if TYPE_CHECKING``."""
    with _PARSING:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    blocks = [node for node in tree.body if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)]
    imports: list[ast.stmt] = [
        line for node in blocks for line in node.body if isinstance(line, ast.Import | ast.ImportFrom)
    ]
    names: dict[str, Any] = {"__package__": module.rpartition(".")[0]}
    exec(compile(ast.Module(imports, []), module, "exec"), names)
    return names
