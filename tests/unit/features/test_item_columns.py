import numpy as np

from features.item_columns import UNKNOWN_ITEM, ItemColumns
from schemas.item import Item
from tests.builders import NOW_MS


def item(item_id: str, category: str | None = None, price: float | None = None) -> Item:
    return Item(item_id=item_id, ts=NOW_MS, category=category, price=price)


def seen(columns: ItemColumns, *item_ids: str) -> list[tuple[str, float | None]]:
    rows = columns.rows(item_ids)
    names = columns.category_names(columns.category_codes(rows).tolist())
    prices = [None if np.isnan(price) else price for price in columns.log_prices(rows).tolist()]
    return list(zip(names, prices, strict=True))


def test_category_and_log_price_are_found_by_item() -> None:
    columns = ItemColumns.of({"a": item("a", "drama", 3.0), "b": item("b")})
    assert seen(columns, "b", "a", "unknown") == [("", None), ("drama", 2.0), ("", None)]
    assert columns.rows(["unknown"]).tolist() == [UNKNOWN_ITEM]


def test_an_item_that_changes_keeps_its_row() -> None:
    columns = ItemColumns.of({"a": item("a", "drama", 3.0)})
    before = columns.rows(["a"]).tolist()
    columns.put(item("a", "comedy"))
    assert columns.rows(["a"]).tolist() == before
    assert seen(columns, "a") == [("comedy", None)]


def test_a_deleted_item_is_unknown_and_its_row_is_used_again() -> None:
    columns = ItemColumns.of({"a": item("a", "drama", 3.0)})
    row = columns.rows(["a"]).tolist()
    columns.drop("a")
    columns.drop("never there")
    assert seen(columns, "a") == [("", None)]
    columns.put(item("b"))
    assert columns.rows(["b"]).tolist() == row
    assert seen(columns, "b") == [("", None)]


def test_a_price_below_zero_is_none() -> None:
    assert seen(ItemColumns.of({"a": item("a", price=-2.0)}), "a") == [("", None)]


def test_a_large_catalogue_is_held() -> None:
    columns = ItemColumns.of(
        {str(n): item(str(n), f"c{n % 7}", float(2**n - 1) if n < 50 else None) for n in range(1_000)}
    )
    assert seen(columns, "0", "49", "500", "999") == [("c0", 0.0), ("c0", 49.0), ("c3", None), ("c5", None)]
