import pytest
from confluent_kafka import Message

from jobs.gate import Accepted, judge
from jobs.gate_progress import pack_ends, require_known_sources, source_of, unpack_ends, with_source
from runtime.config import MAX_PARTITIONS
from runtime.errors import KafkaError
from schemas.click import Click
from schemas.codec import decode, encode
from schemas.dead_letter import DeadLetter
from schemas.topics import DEAD_LETTERS
from tests.corpus import ACCEPTED_CLICKS, REJECTED_CLICKS, ClickCase

NOW_MS = 1_700_000_000_000
TOLERANCE_MS = 60_000


def _message(value: bytes | None, key: bytes | None = b"u1", **rest: object) -> Message:
    return Message("clicks", 3, 17, key, value, **rest)  # type: ignore[call-arg, arg-type, unused-ignore]


@pytest.mark.parametrize("case", REJECTED_CLICKS, ids=str)
def test_what_is_no_click_becomes_a_dead_letter_with_everything_that_was_there(case: ClickCase) -> None:
    value = case.make(NOW_MS)
    letter = judge(_message(value, case.key), NOW_MS, TOLERANCE_MS)
    assert isinstance(letter, DeadLetter)
    assert (letter.source_topic, letter.source_partition, letter.source_offset) == ("clicks", 3, 17)
    assert (letter.ts, letter.code, letter.key, letter.original) == (NOW_MS, case.code, case.key, value)
    assert decode(encode(letter), DeadLetter, DEAD_LETTERS.max_message_bytes) == letter


@pytest.mark.parametrize("case", ACCEPTED_CLICKS, ids=str)
def test_a_click_is_accepted_under_any_key(case: ClickCase) -> None:
    value = case.make(NOW_MS)
    accepted = judge(_message(value, case.key), NOW_MS, TOLERANCE_MS)
    assert isinstance(accepted, Accepted)
    assert accepted.user_id == case.user_id
    assert decode(accepted.value, Click) == decode(value, Click)


def test_the_detail_of_a_dead_letter_does_not_repeat_a_huge_value() -> None:
    value = encode(Click(event_id="e", ts=NOW_MS, user_id="u", item_id="i", action="view"))
    letter = judge(_message(value.replace(b"view", b"v" * 100_000)), NOW_MS, TOLERANCE_MS)
    assert isinstance(letter, DeadLetter)
    assert letter.code == "unknown_value"
    assert len(letter.detail) <= 500


def _output(topic: str, value: bytes | None) -> Message:
    return Message(topic, 0, 5, b"u1", value)  # type: ignore[call-arg, arg-type, unused-ignore]


def test_an_output_record_names_its_source() -> None:
    click = Click(event_id="e", ts=NOW_MS, user_id="u", item_id="i", action="view")
    value = with_source(encode(click), 3, 17)
    assert decode(value, Click) == click
    assert source_of(_output("clicks.accepted", value)) == ((3, 17), "e")
    letter = judge(_message(b"{"), NOW_MS, TOLERANCE_MS)
    assert source_of(_output("dead-letters", encode(letter))) == ((3, 17), None)


@pytest.mark.parametrize("value", [None, b"", b"{", b'{"event_id": "e"}', b'{"event_id": "e", "source": "here"}'])
def test_what_no_gate_wrote_has_no_source(value: bytes | None) -> None:
    assert source_of(_output("clicks.accepted", value)) is None
    assert source_of(_output("dead-letters", value)) is None


def test_a_dead_letter_of_another_topic_comes_of_no_click() -> None:
    letter = judge(_message(b"{"), NOW_MS, TOLERANCE_MS)
    assert isinstance(letter, DeadLetter)
    assert source_of(_output("dead-letters", encode(letter).replace(b'"clicks"', b'"items"'))) is None


def test_the_ends_of_the_outputs_survive_a_commit() -> None:
    ends = {"clicks.accepted": {0: 10, 1: 2**40}, "dead-letters": {0: 0}}
    assert unpack_ends(pack_ends(ends)) == ends


@pytest.mark.parametrize("metadata", [None, "", "note of another tool", "[]", '{"clicks.accepted": 3}'])
def test_the_commit_of_another_tool_says_nothing_about_the_outputs(metadata: str | None) -> None:
    assert unpack_ends(metadata) == {}


def test_the_ends_of_as_many_partitions_as_there_may_be_fit_into_a_commit() -> None:
    ends = {"clicks.accepted": dict.fromkeys(range(MAX_PARTITIONS), 10**10), "dead-letters": {0: 10**10}}
    assert len(pack_ends(ends)) < 4_096


def test_outputs_of_another_log_are_refused() -> None:
    require_known_sources([(0, 9), (1, 0)], {0: 10, 1: 1})
    with pytest.raises(KafkaError, match=r"clicks\[1\]@1, .* ends at 1: clicks was deleted"):
        require_known_sources([(0, 9), (1, 1)], {0: 10, 1: 1})
