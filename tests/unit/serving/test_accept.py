"""What is a request, what gets an error answer, what is a dead letter."""

import pytest

from schemas.codec import encode
from schemas.recommendation import Recommendation
from schemas.request import Request
from serving.accept import AnsweredRequests, Repeated, Unreadable, accept
from tests.builders import NOW_MS, request_of

TOLERANCE_MS = 60_000


def body(**changes: object) -> bytes:
    fields: dict[str, object] = {"request_id": "r", "ts": NOW_MS, "user_id": "u", "k": 10} | changes
    return encode({name: value for name, value in fields.items() if value is not ...})


def outcome(value: bytes | None, now_ms: int = NOW_MS) -> object:
    return accept(value, AnsweredRequests(10), now_ms, TOLERANCE_MS)


def test_a_valid_request_is_accepted() -> None:
    request = outcome(body(extra="ignored"))
    assert isinstance(request, Request)
    assert request.k == 10


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"k": 0}, "out_of_range"),
        ({"k": 10_000}, "out_of_range"),
        ({"k": "ten"}, "wrong_type"),
        ({"k": ...}, "missing_field"),
        ({"ts": NOW_MS // 1000}, "timestamp_in_seconds"),
        ({"ts": -1}, "out_of_range"),
        ({"ts": NOW_MS + 60_001}, "timestamp_in_future"),
        ({"user_id": ""}, "invalid_id"),
        ({"user_id": 17}, "wrong_type"),
        ({"user_id": ...}, "missing_field"),
        ({"timeout_ms": 0}, "out_of_range"),
        ({"candidates": [""]}, "invalid_id"),
        ({"candidates": "a"}, "wrong_type"),
        ({"exclude": ["x"] * 10_001}, "out_of_range"),
    ],
)
def test_an_invalid_request_with_a_readable_id_gets_an_error_answer(changes: dict[str, object], code: str) -> None:
    answer = outcome(body(**changes))
    assert isinstance(answer, Recommendation)
    assert answer.error is not None
    assert (answer.request_id, answer.final, answer.items, answer.error.code) == ("r", True, (), code)
    assert answer.user_id == (None if "user_id" in changes else "u")


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (None, "missing_value"),
        (b"", "missing_value"),
        (b"{", "not_json"),
        (b"[]", "not_an_object"),
        (b"\xff" * 1_000_000, "too_large"),
        (body(request_id=...), "missing_field"),
        (body(request_id=""), "invalid_id"),
        (body(request_id="x" * 300), "invalid_id"),
    ],
)
def test_without_a_readable_id_it_is_a_dead_letter(value: bytes | None, code: str) -> None:
    refused = outcome(value)
    assert isinstance(refused, Unreadable)
    assert refused.error.code == code


def test_a_deadline_in_the_past_is_answered_at_once_and_says_so() -> None:
    request = request_of(timeout_ms=100)
    assert isinstance(outcome(encode(request), NOW_MS + 100), Request)
    late = outcome(encode(request), NOW_MS + 101)
    assert isinstance(late, Recommendation)
    assert late.error is not None
    assert late.error.code == "deadline_exceeded"


@pytest.mark.parametrize("value", [body(), body(k=0)])
def test_a_repeated_request_is_recognised_valid_or_not(value: bytes) -> None:
    answered = AnsweredRequests(10)
    answered.add(["r"])
    assert accept(value, answered, NOW_MS, TOLERANCE_MS) == Repeated("r")


def test_the_oldest_answers_are_forgotten_first() -> None:
    answered = AnsweredRequests(2)
    answered.add(["a", "b"])
    answered.add(["a", "c"])
    assert [each in answered for each in "abc"] == [True, False, True]
