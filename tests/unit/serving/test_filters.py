"""What is taken out of the candidates, counted by reason."""

from models.contract import Candidate
from schemas.item import Item
from serving.filters import filter_candidates
from tests.builders import NOW_MS, record_of, request_of

CANDIDATES = tuple(Candidate(item_id, 1.0, "because") for item_id in ("a", "b", "c", "d"))


def item(item_id: str, **rest: object) -> Item:
    return Item(item_id=item_id, ts=NOW_MS, **rest)  # type: ignore[arg-type]


def kept(*args: object, **rest: object) -> list[str]:
    return [each.item_id for each in filter_candidates(CANDIDATES, *args, **rest).kept]  # type: ignore[arg-type]


def test_nothing_is_removed_without_a_reason() -> None:
    filtered = filter_candidates(CANDIDATES, request_of(), None, {}, NOW_MS)
    assert filtered.kept == CANDIDATES
    assert not filtered.removed


def test_each_filter_removes_its_own_and_counts_it() -> None:
    items = {"c": item("c", available=False), "d": item("d", expires_at=NOW_MS)}
    filtered = filter_candidates(CANDIDATES, request_of(exclude=("a",)), record_of("b"), items, NOW_MS)
    assert filtered.kept == ()
    assert filtered.removed == {"excluded": 1, "seen": 1, "unavailable": 1, "expired": 1}


def test_an_item_expires_at_its_moment_and_not_before() -> None:
    items = {"a": item("a", expires_at=NOW_MS + 1)}
    assert kept(request_of(), None, items, NOW_MS) == ["a", "b", "c", "d"]
    assert kept(request_of(), None, items, NOW_MS + 1) == ["b", "c", "d"]


def test_an_impression_does_not_count_as_seen() -> None:
    assert kept(request_of(), record_of("a", action="impression"), {}, NOW_MS) == ["a", "b", "c", "d"]


def test_candidates_of_the_request_itself_stay_even_if_seen_but_not_if_hidden() -> None:
    request = request_of(candidates=("a", "b"))
    assert kept(request, record_of("a"), {}, NOW_MS) == ["a", "b", "c", "d"]
    assert kept(request, record_of("a", action="hide"), {}, NOW_MS) == ["b", "c", "d"]
