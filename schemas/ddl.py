"""Flink's columns of a JSON topic, generated from its wire type."""

from collections.abc import Sequence

import msgspec
from msgspec import inspect

_SCALARS: dict[type[inspect.Type], str] = {
    inspect.StrType: "STRING",
    inspect.IntType: "BIGINT",
    inspect.FloatType: "DOUBLE",
    inspect.BoolType: "BOOLEAN",
    inspect.LiteralType: "STRING",
}


def columns(kind: type[msgspec.Struct], names: Sequence[str]) -> str:
    """Return the columns `names` of `kind` for a CREATE TABLE, one a line: `user_id` STRING.

    Raises `ValueError` for a name that `kind` does not have, or whose type Flink has no column type for.
    """
    fields = {field.name: field.type for field in _struct(kind).fields}
    lines = []
    for name in names:
        if name not in fields:
            raise ValueError(f"{kind.__name__} has no field {name}; it has {', '.join(fields)}")
        try:
            lines.append(f"`{name}` {_column(fields[name])}")
        except TypeError as error:
            raise ValueError(f"{kind.__name__}.{name} cannot be a Flink column: {error}") from error
    return ",\n".join(lines)


def _struct(kind: type[msgspec.Struct]) -> inspect.StructType:
    described = inspect.type_info(kind)
    assert isinstance(described, inspect.StructType)
    return described


def _column(described: inspect.Type) -> str:
    match described:
        case inspect.Metadata():
            return _column(described.type)
        case inspect.IntType(le=int(most)) if most < 2**31:
            return "INT"
        case inspect.UnionType():
            present = {_column(each) for each in described.types if not isinstance(each, inspect.NoneType)}
            # What can be one of several scalars can at least be written as text.
            return present.pop() if len(present) == 1 else "STRING"
        case inspect.VarTupleType():
            return f"ARRAY<{_column(described.item_type)}>"
        case inspect.DictType():
            return f"MAP<{_column(described.key_type)}, {_column(described.value_type)}>"
    if type(described) not in _SCALARS:
        raise TypeError(f"no column type for {type(described).__name__}")
    return _SCALARS[type(described)]
