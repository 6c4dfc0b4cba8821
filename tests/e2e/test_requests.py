"""Requests that are wrong, late, repeated or strange: each has one defined outcome."""

import pytest

from runtime.dead_letters import read_dead_letter
from schemas.codec import decode, encode
from schemas.dead_letter import DeadLetter
from schemas.recommendation import Recommendation
from schemas.request import Request
from schemas.topics import DEAD_LETTERS, RECOMMENDATIONS, REQUESTS
from tests.conftest import Eventually
from tests.e2e.application import Application

pytestmark = pytest.mark.stack


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"k": 0}, "out_of_range"),
        ({"k": 10_000}, "out_of_range"),
        ({"user_id": 17}, "wrong_type"),
        ({"user_id": ""}, "invalid_id"),
        ({"ts": 1.7e12 + 0.5}, "wrong_type"),
        ({"ts": 1_700_000_000}, "timestamp_in_seconds"),
    ],
)
def test_an_invalid_request_gets_an_error_answer(
    changes: dict[str, object], code: str, application: Application
) -> None:
    request_id = application.new("r")
    fields = {"request_id": request_id, "ts": application.now_ms(), "user_id": "u", "k": 10} | changes
    application.produce(REQUESTS.name, [("u", encode(fields))])
    answer = application.answers([request_id])[request_id]
    assert answer.error is not None
    assert (answer.error.code, answer.items, answer.final) == (code, (), True)


def test_a_deadline_in_the_past_is_said_to_be_past(application: Application) -> None:
    request = Request(
        request_id=application.new("r"), ts=application.now_ms() - 1_000, user_id="u", k=10, timeout_ms=100
    )
    application.produce(REQUESTS.name, [("u", encode(request))])
    answer = application.answers([request.request_id])[request.request_id]
    assert answer.error is not None
    assert answer.error.code == "deadline_exceeded"


def test_a_repeated_request_gets_no_second_final_answer(application: Application) -> None:
    request = Request(request_id=application.new("r"), ts=application.now_ms(), user_id="u", k=10, timeout_ms=60_000)
    application.produce(REQUESTS.name, [("u", encode(request))] * 3)
    application.answers([request.request_id])
    # An answer to a later request of the same partition shows that the repetitions were passed.
    application.ask("u")
    every = [decode(each.value(), Recommendation).request_id for each in application.read(RECOMMENDATIONS.name)]
    assert every.count(request.request_id) == 1


def test_unknown_users_and_unknown_candidates_are_answered(application: Application) -> None:
    user, candidates = application.new("nobody"), (application.new("x"), application.new("y"))
    answer = application.ask(user, candidates=candidates)
    assert answer.tier == "stranger"
    assert {item.item_id for item in answer.items} == set(candidates)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (b"not json", "not_json"),
        (b"[]", "not_an_object"),
        (b"", "missing_value"),
        (None, "missing_value"),
        (b'{"k": 10}', "missing_field"),
        (b'{"request_id": ""}', "invalid_id"),
        (b"\xff" * 1_000_000, "too_large"),
    ],
)
def test_without_a_readable_id_it_is_one_dead_letter_with_the_original_bytes(
    value: bytes | None, code: str, application: Application, eventually: Eventually
) -> None:
    key = application.new("key").encode()
    application.produce(REQUESTS.name, [(key, value)])

    def letters() -> list[DeadLetter]:
        every = (read_dead_letter(each) for each in application.read(DEAD_LETTERS.name))
        return [letter for letter in every if letter.key == key]

    eventually(lambda: bool(letters()), "the dead letter")
    (letter,) = letters()
    assert (letter.source_topic, letter.code, letter.original) == (REQUESTS.name, code, value)
