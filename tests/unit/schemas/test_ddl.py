import msgspec
import pytest

from schemas.click import Click
from schemas.ddl import columns
from schemas.item import Item


def test_columns_stand_in_the_order_asked_for_with_flinks_types() -> None:
    assert columns(Click, ("user_id", "ts", "action", "value", "position", "context")) == (
        "`user_id` STRING,\n"
        "`ts` BIGINT,\n"
        "`action` STRING,\n"
        "`value` DOUBLE,\n"
        "`position` INT,\n"
        "`context` MAP<STRING, STRING>"
    )


def test_lists_and_flags_have_types_too() -> None:
    assert columns(Item, ("tags", "vector", "available")) == (
        "`tags` ARRAY<STRING>,\n`vector` ARRAY<DOUBLE>,\n`available` BOOLEAN"
    )


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"Click has no field userid; it has event_id, ts, user_id"):
        columns(Click, ("userid",))


def test_a_type_without_a_column_is_refused() -> None:
    class Odd(msgspec.Struct):
        when: msgspec.Raw

    with pytest.raises(ValueError, match=r"Odd\.when cannot be a Flink column"):
        columns(Odd, ("when",))
