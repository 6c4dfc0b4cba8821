"""The items' halves: each made once, whatever is asked for in which order."""

import torch

from models.contract import History
from models.deepfm.inputs import Inputs
from models.deepfm.item_table import ItemTable
from models.deepfm.network import Shape, build_network, compile_network
from models.vocabulary import build_vocabulary
from schemas.item import Item
from tests.builders import NOW_MS, click_of

ITEMS = {f"i{n}": Item(item_id=f"i{n}", ts=NOW_MS, category=f"c{n % 2}") for n in range(20)}
INPUTS = Inputs(build_vocabulary(History(tuple(click_of("u", item_id) for item_id in ITEMS), ITEMS)), ())
SCORER = compile_network(build_network(INPUTS, Shape(), 0), INPUTS)


def test_a_row_is_the_half_of_its_item_and_category_also_after_the_table_has_grown() -> None:
    table = ItemTable(INPUTS, SCORER)
    asked = [[(1, 1), (2, 2)], [(2, 2), (1, 2), (1, 1)], [(n, n % 3) for n in range(21)], [(1, 1), (2, 2)]]
    for wanted in asked:
        items, rows = table.find(wanted)
        expected = SCORER.items(torch.from_numpy(INPUTS.item_rows(wanted)))
        torch.testing.assert_close(items.table[rows], expected.table)


def test_an_item_is_computed_once() -> None:
    table = ItemTable(INPUTS, SCORER)
    _, first = table.find([(3, 1), (3, 1), (4, 0)])
    _, again = table.find([(4, 0), (3, 1)])
    assert first.tolist() == [0, 0, 1]
    assert again.tolist() == [1, 0]


def test_nothing_asked_for_is_nothing_found() -> None:
    items, rows = ItemTable(INPUTS, SCORER).find([])
    assert items.table[rows].shape == (0, items.table.shape[1])
