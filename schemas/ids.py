"""Every id that a message holds, however deep; where they are is found once per wire type."""

from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from itertools import chain
from typing import Any

import msgspec
from msgspec import inspect

_Find = Callable[[Any], Iterator[str]]
"""Returns the ids in a value."""


def ids_of(message: msgspec.Struct) -> Iterator[tuple[str, str]]:
    """Yield each id in `message` with the name of the field that holds it, itself or further down."""
    for name, find in _finders(type(message)):
        for text in find(getattr(message, name)):
            yield name, text


@cache
def _finders(kind: type[msgspec.Struct]) -> tuple[tuple[str, _Find], ...]:
    described = inspect.type_info(kind)
    assert isinstance(described, inspect.StructType)
    found = ((field.name, _finder(field.type)) for field in described.fields)
    return tuple((name, find) for name, find in found if find)


def _finder(described: inspect.Type) -> _Find | None:
    match described:
        case inspect.Metadata():
            return _itself if described.extra == {"id": True} else _finder(described.type)
        case inspect.UnionType() if finds := [find for each in described.types if (find := _finder(each))]:
            return lambda value: iter(()) if value is None else finds[0](value)
        case inspect.VarTupleType() if find := _finder(described.item_type):
            return partial(_in_each, find)
        case inspect.TupleType() if finds := [find for each in described.item_types if (find := _finder(each))]:
            # The one tuple of several types is (id, number).
            return lambda pair: finds[0](pair[0])
        case inspect.StructType() if _finders(described.cls):
            return lambda value: (text for _, text in ids_of(value))
    return None


def _itself(text: str) -> Iterator[str]:
    return iter((text,))


def _in_each(find: _Find, values: Iterable[Any]) -> Iterator[str]:
    return chain.from_iterable(map(find, values))
