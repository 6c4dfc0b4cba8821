"""The gate on a real broker, in a thread of this process."""

from collections import defaultdict
from collections.abc import Callable
from threading import Event

import pytest
from confluent_kafka import Consumer, Message, TopicPartition
from confluent_kafka.admin import AdminClient

from jobs.gate import run_gate
from jobs.gate_progress import GateProgress
from jobs.recent_events import RecentEvents
from runtime.config import Config
from runtime.dead_letters import read_dead_letter
from runtime.kafka.clients import group_consumer
from runtime.kafka.reading import drain, position_of
from runtime.lifecycle import StopSignal
from schemas.click import Click
from schemas.codec import decode, encode
from schemas.topics import CLICKS, CLICKS_ACCEPTED, DEAD_LETTERS
from tests.builders import NOW_MS, click_of
from tests.conftest import Eventually
from tests.corpus import ACCEPTED_CLICKS, BAD_CLICKS, REJECTED_CLICKS
from tests.integration.processes import CLOCK, Tail, publish, running

pytestmark = pytest.mark.stack


def gate(config: Config) -> Callable[[StopSignal], None]:
    return lambda stop: run_gate(config, CLOCK, stop)


def test_the_gate_parts_the_good_from_the_bad_and_loses_neither(
    kafka: Config, tail: Tail, eventually: Eventually
) -> None:
    now_ms = CLOCK.now_ms()
    publish(kafka, CLICKS.name, *((case.key, case.make(now_ms)) for case in BAD_CLICKS))
    with running(gate(kafka)):
        eventually(
            lambda: (
                len(tail.read().messages[CLICKS_ACCEPTED.name]) >= len(ACCEPTED_CLICKS)
                and len(tail.messages[DEAD_LETTERS.name]) >= len(REJECTED_CLICKS)
            ),
            "every click has its outcome",
        )
    accepted = tail.read().messages[CLICKS_ACCEPTED.name]
    assert sorted(message.key() or b"" for message in accepted) == sorted(
        case.user_id.encode() for case in ACCEPTED_CLICKS
    )
    assert all((message.key() or b"").decode() == decode(message.value(), Click).user_id for message in accepted)
    sent = {position_of(message): message for message in tail.messages[CLICKS.name]}
    letters = [read_dead_letter(message) for message in tail.messages[DEAD_LETTERS.name]]
    assert sorted(letter.code for letter in letters) == sorted(case.code or "" for case in REJECTED_CLICKS)
    for letter in letters:
        # Each names one message, whose bytes it holds.
        source = sent.pop((letter.source_topic, letter.source_partition, letter.source_offset))
        assert (letter.key, letter.original) == (source.key(), source.value())


def test_the_gate_keeps_the_order_of_a_user_and_sends_them_to_one_partition(
    kafka: Config, tail: Tail, eventually: Eventually
) -> None:
    clicks = [click_of(f"order-{n % 7}", f"i{n}", NOW_MS + n) for n in range(2_000)]
    publish(kafka, CLICKS.name, *((click.user_id, encode(click)) for click in clicks))
    with running(gate(kafka)):
        eventually(lambda: len(tail.read().messages[CLICKS_ACCEPTED.name]) >= len(clicks), "all are accepted")
    by_user: dict[str, list[str]] = defaultdict(list)
    partitions: dict[str, set[int]] = defaultdict(set)
    for message in tail.messages[CLICKS_ACCEPTED.name]:
        click = decode(message.value(), Click)
        by_user[click.user_id].append(click.item_id)
        partitions[click.user_id].add(position_of(message)[1])
    assert by_user == {f"order-{u}": [f"i{n}" for n in range(u, 2_000, 7)] for u in range(7)}
    # The partition that a Java producer gives this key, and so Flink to the user's record.
    assert partitions == {
        click.user_id: {position_of(message)[1]}
        for message in tail.messages[CLICKS.name]
        for click in [decode(message.value(), Click)]
    }


def test_a_gate_that_died_before_its_commit_writes_nothing_twice(
    kafka: Config, tail: Tail, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = [click_of(f"again-{n % 5}", f"i{n}", NOW_MS + n) for n in range(300)]
    publish(kafka, CLICKS.name, *((click.user_id, encode(click)) for click in first), ("again-0", b"not JSON"))
    with monkeypatch.context() as without_commit, running(gate(kafka)):
        without_commit.setattr(GateProgress, "commit", lambda *_args, **_rest: None)
        eventually(
            lambda: (
                len(tail.read().messages[CLICKS_ACCEPTED.name]) >= len(first)
                and len(tail.messages[DEAD_LETTERS.name]) >= 1
            ),
            "the first gate has written everything",
        )
    second = [click_of(f"again-{n}", "last") for n in range(5)]
    publish(kafka, CLICKS.name, *((click.user_id, encode(click)) for click in second))
    with running(gate(kafka)):
        eventually(
            lambda: len(tail.read().messages[CLICKS_ACCEPTED.name]) >= len(first) + len(second),
            "the second gate has written the rest",
        )
    tail.read()
    events = [decode(message.value(), Click).event_id for message in tail.messages[CLICKS_ACCEPTED.name]]
    assert sorted(events) == sorted(click.event_id for click in first + second)
    assert len(tail.messages[DEAD_LETTERS.name]) == 1


def test_an_event_that_is_delivered_again_changes_nothing_also_for_the_next_gate(
    kafka: Config, tail: Tail, eventually: Eventually
) -> None:
    clicks = [click_of(f"twice-{n % 5}", f"i{n}", NOW_MS + n) for n in range(40)]
    early, late = [[(click.user_id, encode(click)) for click in part] for part in (clicks[:20], clicks[20:])]

    def outcomes() -> tuple[int, int]:
        messages = tail.read().messages
        return len(messages[CLICKS_ACCEPTED.name]), len(messages[DEAD_LETTERS.name])

    publish(kafka, CLICKS.name, *early, *early)
    with running(gate(kafka)):
        eventually(lambda: outcomes() == (20, 20), "each was accepted once, in one batch")
        publish(kafka, CLICKS.name, *early)
        eventually(lambda: outcomes() == (20, 40), "and in the next none")
    publish(kafka, CLICKS.name, *late, *early)
    with running(gate(kafka)):
        eventually(lambda: outcomes() == (40, 60), "the next gate knows what the first accepted")
    events = [decode(message.value(), Click).event_id for message in tail.messages[CLICKS_ACCEPTED.name]]
    assert sorted(events) == sorted(click.event_id for click in clicks)
    letters = [read_dead_letter(message) for message in tail.messages[DEAD_LETTERS.name]]
    assert {letter.code for letter in letters} == {"duplicate_event"}
    assert sorted(letter.original or b"" for letter in letters) == sorted(value for _, value in early * 3)


def test_a_click_whose_partition_was_taken_away_while_its_batch_was_collected_is_left_to_the_next_gate(
    kafka: Config, tail: Tail, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken_away, later = Event(), Event()

    def torn(consumer: Consumer, max_messages: int, wait_s: float) -> list[Message]:
        messages = drain(consumer, max_messages, wait_s)
        if taken_away.is_set():
            later.set()
        elif messages:
            consumer.unsubscribe()
            eventually(lambda: consumer.poll(0.1) is None and not consumer.assignment(), "nothing is assigned")
            taken_away.set()
        return messages

    publish(kafka, CLICKS.name, ("torn", encode(click_of("torn", "i"))))
    with monkeypatch.context() as rebalanced, running(gate(kafka)):
        rebalanced.setattr("jobs.gate.drain", torn)
        eventually(later.is_set, "the gate has gone on")
    assert tail.read().messages[CLICKS_ACCEPTED.name] == []
    with running(gate(kafka)):
        eventually(lambda: len(tail.read().messages[CLICKS_ACCEPTED.name]) == 1, "the next gate has judged it")


def test_a_gate_that_held_still_for_too_long_goes_on_and_writes_nothing_twice(
    kafka: Config, tail: Tail, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Brokers allow no shorter sessions.
    impatient = kafka.kafka.model_copy(update={"client": {"max.poll.interval.ms": 6_000, "session.timeout.ms": 6_000}})
    config = kafka.model_copy(update={"kafka": impatient})
    admin, lost = AdminClient({"bootstrap.servers": kafka.kafka.bootstrap_servers}), Event()

    def members() -> int:
        return len(admin.describe_consumer_groups(["gate"])["gate"].result().members)

    def held(consumer: Consumer, max_messages: int, wait_s: float) -> list[Message]:
        messages = drain(consumer, max_messages, wait_s)
        if messages and not lost.is_set():
            eventually(lambda: members() == 0, "the group has given the partitions up")
            lost.set()
        return messages

    clicks = [click_of(f"held-{n % 5}", f"i{n}") for n in range(50)]
    publish(kafka, CLICKS.name, *((click.user_id, encode(click)) for click in clicks[:25]))
    with monkeypatch.context() as slow, running(gate(config)):
        slow.setattr("jobs.gate.drain", held)
        eventually(lost.is_set, "the partitions are lost")
        publish(kafka, CLICKS.name, *((click.user_id, encode(click)) for click in clicks[25:]))
        eventually(lambda: len(tail.read().messages[CLICKS_ACCEPTED.name]) >= len(clicks), "all are judged")
    events = [decode(message.value(), Click).event_id for message in tail.read().messages[CLICKS_ACCEPTED.name]]
    assert sorted(events) == sorted(click.event_id for click in clicks)


def test_nothing_is_committed_between_an_acknowledgement_and_the_end_of_its_turn(
    kafka: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed: list[int] = []

    def note(_consumer: Consumer, offsets: list[TopicPartition], *, asynchronous: bool) -> None:
        committed.extend(each.offset for each in offsets)

    monkeypatch.setattr("jobs.gate_progress.commit", note)
    consumer, progress = group_consumer(kafka.kafka, "between", "between"), GateProgress(kafka, RecentEvents(0))
    progress.take_over(consumer, [TopicPartition(CLICKS.name, 0)])
    consumer.close()
    progress.passed(0, 10)
    progress.acknowledged(Message(CLICKS_ACCEPTED.name, 0, 100))  # type: ignore[call-arg, unused-ignore]
    progress.commit(consumer, asynchronous=False)
    assert committed == []
    progress.passed(0, 11)
    progress.commit(consumer, asynchronous=False)
    assert committed == [12]
