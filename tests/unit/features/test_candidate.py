import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from features.candidate import FEATURES, candidate_features
from features.tables import Tables
from features.user_record import UserRecord
from schemas.item import Item
from schemas.state import Leaderboard, LeaderboardEntry, Neighbours
from tests.builders import NOW_MS, record_of


def item_of(item_id: str, *tags: str, year: float | None = None) -> Item:
    return Item(
        item_id=item_id,
        ts=NOW_MS,
        category=tags[0] if tags else None,
        tags=tags,
        attributes=None if year is None else {"year": year},
    )


@pytest.fixture
def tables() -> Tables:
    tables = Tables()
    for item in (
        item_of("seen", "drama", "war", year=1980),
        item_of("also", "drama", year=1990),
        item_of("near", "drama", "comedy", year=1995),
        item_of("far", "comedy"),
    ):
        tables.items[item.item_id] = item
    for item_id, events, neighbours in (("seen", 3.0, (("near", 0.5),)), ("also", 7.0, ()), ("near", 15.0, ())):
        tables.neighbours.put(Neighbours(item_id=item_id, ts=NOW_MS, events=events, neighbours=neighbours))
    board = (LeaderboardEntry(item_id="far", score=4.0), LeaderboardEntry(item_id="near", score=1.0))
    tables.leaderboards.put(Leaderboard(board="global", items=board))
    return tables


def column(name: str, record: UserRecord | None, candidates: tuple[str, ...], tables: Tables) -> list[float]:
    values: list[float] = candidate_features((name,), record, candidates, tables)[:, 0].tolist()
    return values


CANDIDATES = ("near", "far", "unknown")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cf_last_1", [math.log(0.001)] * 3),  # the last one, `also`, has no neighbours
        ("cf_last_3", [math.log(0.8 * 0.5 + 0.001), math.log(0.001), math.log(0.001)]),
        ("cf_place_3", [math.log1p(0), math.log1p(1.5), math.log1p(1.5)]),
        ("popularity", [0.25, 1.0, 0.0]),
        ("popularity_place", [math.log1p(1), math.log1p(0), math.log1p(2)]),
        ("log_events", [math.log1p(15), 0.0, 0.0]),
        ("log_events_gap", [math.log(16) - math.log(32) / 2, -math.log(32) / 2, -math.log(32) / 2]),
        ("year", [0.5, 0.0, 0.0]),
        ("year_gap", [1.0, 0.0, 0.0]),
        ("tag_affinity", [0.5, 0.0, 0.0]),  # drama stands in both of the last two, comedy in none
        ("streak_match", [math.log1p(2), 0.0, 0.0]),  # two dramas in a row, `near` is one
        ("user_log_events", [math.log1p(2)] * 3),
    ],
)
def test_each_feature_is_what_one_computes_by_hand(name: str, expected: list[float], tables: Tables) -> None:
    assert column(name, record_of("seen", "also"), CANDIDATES, tables) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("name", FEATURES)
@pytest.mark.parametrize("record", [None, record_of("unknown"), record_of("seen", action="impression")])
def test_every_feature_is_finite_for_whoever_and_whatever_is_unknown(name: str, record: UserRecord | None) -> None:
    values = candidate_features((name,), record, ("x", "y"), Tables())
    assert values.shape == (2, 1)
    assert values.dtype == np.float32
    assert np.isfinite(values).all()


@pytest.mark.parametrize("year", [10**400, -5, 0, 1e300, "1995"])
def test_a_year_that_is_none_counts_as_unknown(year: float, tables: Tables) -> None:
    tables.items["odd"] = item_of("odd", "drama", year=year)
    assert column("year", record_of("seen"), ("odd",), tables) == [0.0]
    assert np.isfinite(column("year_gap", record_of("seen", "odd"), ("odd", "near"), tables)).all()


@given(order=st.permutations(CANDIDATES))
def test_a_candidates_features_do_not_depend_on_the_order(order: list[str]) -> None:
    tables = Tables()
    tables.neighbours.put(Neighbours(item_id="seen", ts=NOW_MS, events=3.0, neighbours=(("near", 0.5), ("far", 0.5))))
    names, record = tuple(FEATURES), record_of("seen")
    straight = candidate_features(names, record, CANDIDATES, tables)
    mixed = candidate_features(names, record, order, tables)
    for place, item_id in enumerate(order):
        assert mixed[place].tolist() == straight[CANDIDATES.index(item_id)].tolist()


def test_no_candidates_give_no_rows() -> None:
    assert candidate_features(tuple(FEATURES), None, (), Tables()).shape == (0, len(FEATURES))


def test_a_name_that_no_feature_has_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="shoe_size"):
        candidate_features(("shoe_size",), None, ("x",), Tables())
