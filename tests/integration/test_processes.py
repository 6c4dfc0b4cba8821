"""The gate, the materializer and the learner on a real broker, each in a thread of this process."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest
from confluent_kafka import Consumer, Message, TopicPartition
from confluent_kafka.admin import AdminClient

from features.memory_store import MemoryStore
from features.redis_store import RedisStore
from features.store import Family, FeatureStore, Write
from features.user_record import RecordBuilder, pack_record
from jobs.gate import run_gate
from jobs.gate_progress import GateProgress
from jobs.materializer import run_materializer
from jobs.neighbours import run_neighbours
from jobs.recent_events import RecentEvents
from jobs.store_care import Verification, rebuild_store, verify_store
from runtime.clock import SystemClock
from runtime.config import Config, RedisConfig
from runtime.dead_letters import read_dead_letter
from runtime.kafka.clients import group_consumer, reader
from runtime.kafka.placement import partition_of_key
from runtime.kafka.reading import Span, assign_at_end, drain, position_of, read_to_end
from runtime.kafka.sending import send_all
from runtime.lifecycle import READY_VARIABLE, StopSignal
from schemas.click import Click
from schemas.codec import decode, encode
from schemas.item import Item
from schemas.state import Neighbours
from schemas.topics import CLICKS, CLICKS_ACCEPTED, DEAD_LETTERS, FEATURES_USER, ITEMS, NEIGHBOURS, USERS
from schemas.user import User
from tests.builders import NOW_MS, click_of
from tests.contract.redis_server import RedisServer
from tests.corpus import ACCEPTED_CLICKS, BAD_CLICKS, REJECTED_CLICKS

pytestmark = pytest.mark.stack

Eventually = Callable[..., None]
CLOCK = SystemClock()


class Tail:
    """What comes to some topics from now on."""

    def __init__(self, config: Config, *topics: str) -> None:
        self._consumer = reader(config.kafka)
        assign_at_end(self._consumer, topics)
        self.messages: dict[str, list[Message]] = defaultdict(list)

    def read(self) -> "Tail":
        for message in drain(self._consumer, 10_000, 0.05):
            self.messages[position_of(message)[0]].append(message)
        return self

    def close(self) -> None:
        self._consumer.close()


@contextmanager
def running(process: Callable[[StopSignal], None]) -> Iterator[None]:
    """Run a process's loop in a thread until the end of the block; its failure is the test's."""
    stop, failures = StopSignal(), list[BaseException]()

    def run() -> None:
        try:
            process(stop)
        except BaseException as error:
            failures.append(error)

    thread = Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.stop()
        thread.join()
    if failures:
        raise failures[0]


def publish(config: Config, topic: str, *messages: tuple[bytes | str | None, bytes | None]) -> None:
    send_all(config.kafka, ((topic, key, value) for key, value in messages))


@pytest.fixture
def tail(kafka: Config) -> Iterator[Tail]:
    tail = Tail(kafka, CLICKS.name, CLICKS_ACCEPTED.name, DEAD_LETTERS.name, NEIGHBOURS.name)
    yield tail
    tail.close()


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


def materializer(config: Config, store: FeatureStore) -> Callable[[StopSignal], None]:
    return lambda stop: run_materializer(config, store, CLOCK, stop)


def test_the_materializer_holds_what_the_topics_say(kafka: Config, tail: Tail, eventually: Eventually) -> None:
    store = MemoryStore(3_600, CLOCK)
    builder = RecordBuilder(4)
    old, new = (pack_record(builder.add(click_of("mat-u", item), (0, offset))) for offset, item in enumerate("ab"))
    item, profile = encode(Item(item_id="mat-i", ts=NOW_MS)), encode(User(user_id="mat-u", ts=NOW_MS))
    with running(materializer(kafka, store)):
        # A job that starts again from a checkpoint repeats records that are older than what is there.
        publish(kafka, FEATURES_USER.name, ("mat-u", new), ("mat-u", old), ("mat-bad", b"not a record"))
        publish(kafka, ITEMS.name, ("mat-gone", item.replace(b"mat-i", b"mat-gone")), ("mat-gone", None))
        publish(kafka, ITEMS.name, ("mat-bad", b'{"item_id": 17}'), ("mat-i", item))
        publish(kafka, USERS.name, ("mat-u", profile))
        keys = [Family.USER.key("mat-u"), Family.ITEM.key("mat-i"), Family.PROFILE.key("mat-u")]
        values = [new, item, profile]
        eventually(
            lambda: (
                [held and held.value for held in store.get_many(keys)] == values
                and len(tail.read().messages[DEAD_LETTERS.name]) >= 2
            ),
            "the store holds the last values",
        )
        assert store.get_many([Family.ITEM.key("mat-gone"), Family.ITEM.key("mat-bad")]) == [None, None]
    letters = [read_dead_letter(message) for message in tail.read().messages[DEAD_LETTERS.name]]
    assert sorted((letter.source_topic, letter.code, letter.original) for letter in letters) == [
        ("features.user", "unreadable_record", b"not a record"),
        ("items", "wrong_type", b'{"item_id": 17}'),
    ]


def test_the_materializer_waits_for_a_store_that_is_away_and_misses_nothing(
    kafka: Config, eventually: Eventually, tmp_path_factory: pytest.TempPathFactory
) -> None:
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    store = RedisStore(RedisConfig(url=server.url, timeout_ms=5_000, ttl_s=3_600))
    items = [(f"away-{n}", encode(Item(item_id=f"away-{n}", ts=NOW_MS))) for n in range(50)]
    keys = [Family.ITEM.key(item_id) for item_id, _ in items]
    try:
        publish(kafka, ITEMS.name, *items[:25])
        with running(materializer(kafka, store)):
            publish(kafka, ITEMS.name, *items[25:])
            server.start()
            eventually(lambda: None not in store.get_many(keys), "what came meanwhile is written")
            server.kill()
            publish(kafka, ITEMS.name, *items[:25])
            server.start()
            eventually(lambda: None not in store.get_many(keys[:25]), "so is what came during another outage")
    finally:
        store.close()
        server.kill()


def test_the_materializer_waits_for_a_store_that_is_full_or_hangs(
    kafka: Config, eventually: Eventually, tmp_path_factory: pytest.TempPathFactory, caplog: pytest.LogCaptureFixture
) -> None:
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start()
    store = RedisStore(RedisConfig(url=server.url, timeout_ms=300, ttl_s=3_600))
    reader_ = RedisStore(RedisConfig(url=server.url, timeout_ms=2_000, ttl_s=3_600))
    items = [(f"full-{n}", encode(Item(item_id=f"full-{n}", ts=NOW_MS, title="x" * 1_000))) for n in range(90)]
    keys = [Family.ITEM.key(item_id) for item_id, _ in items]

    def waits() -> int:
        return sum("waiting: Redis" in message for message in caplog.messages)

    def written(part: list[str]) -> Callable[[], bool]:
        return lambda: None not in reader_.get_many(part)

    try:
        with server.client() as redis, running(materializer(kafka, store)):
            publish(kafka, ITEMS.name, *items[:30])
            eventually(written(keys[:30]), "the first are written")
            redis.config_set("maxmemory", int(redis.info("memory")["used_memory"]) // 2)
            publish(kafka, ITEMS.name, *items[30:60])
            eventually(lambda: waits() == 1, "the full store is waited for, and that is said once")
            assert written(keys[:30])(), "readers go on with what is there"
            redis.config_set("maxmemory", 0)
            eventually(written(keys[:60]), "what came meanwhile is written")
            with server.frozen():
                publish(kafka, ITEMS.name, *items[60:])
                eventually(lambda: waits() == 2, "so is one that hangs")
            eventually(written(keys), "and what came then")
    finally:
        store.close()
        reader_.close()
        server.kill()


def test_a_store_that_lost_everything_is_rebuilt_beside_the_running_materializer(
    kafka: Config, eventually: Eventually
) -> None:
    live, lost = MemoryStore(3_600, CLOCK), MemoryStore(3_600, CLOCK)
    items = [(f"again-{n}", encode(Item(item_id=f"again-{n}", ts=NOW_MS))) for n in range(20)]
    keys = [Family.ITEM.key(item_id) for item_id, _ in items]
    publish(kafka, ITEMS.name, *items, ("again-0", None), ("other", items[1][1]))
    with running(materializer(kafka, live)):
        eventually(lambda: None not in live.get_many(keys[1:]), "everything is written and committed")
    assert rebuild_store(kafka, lost, StopSignal()) >= len(items) + 1
    assert lost.get_many(keys) == live.get_many(keys)
    assert lost.get_many([keys[0], Family.ITEM.key("other")]) == [None, None]


def test_a_store_is_held_against_the_topics_key_by_key(kafka: Config) -> None:
    builder = RecordBuilder(4)
    old, new, newer = (pack_record(builder.add(click_of("ver-u", item), (1, n))) for n, item in enumerate("abc"))
    items = {name: encode(Item(item_id=name, ts=NOW_MS)) for name in ("ver-1", "ver-2", "ver-gone")}
    publish(kafka, ITEMS.name, *items.items(), ("ver-gone", None))
    publish(kafka, FEATURES_USER.name, ("ver-u", new), ("ver-u", old))
    store = MemoryStore(3_600, CLOCK)
    rebuild_store(kafka, store, StopSignal())

    def looked_at(topic: str) -> Verification:
        return verify_store(kafka, store, CLOCK, StopSignal(), patience_ms=0)[topic]

    assert all(each.whole for each in verify_store(kafka, store, CLOCK, StopSignal()).values())
    user, item = Family.USER.key("ver-u"), Family.ITEM.key("ver-1")
    store.put_many([Write(user, newer, 1, 2)])
    assert looked_at(FEATURES_USER.name).whole, "what is newer than the topic was a moment ago is right"
    store.put_many([Write(user, old, 1, 2), Write(user, old, 0, 0), Write(user, old, 1, 0)])
    assert looked_at(FEATURES_USER.name).examples == (user,)
    store.put_many([Write(item, None, 9, 9), Write(Family.ITEM.key("ver-gone"), b"{}", 9, 9)])
    found = looked_at(ITEMS.name)
    assert (found.missing, found.different) == (1, 1)
    assert found.examples == (item, Family.ITEM.key("ver-gone"))
    again = Write(Family.ITEM.key("ver-gone"), b"{}", partition_of_key(b"ver-gone", kafka.kafka.partitions), 1_000_000)
    store.put_many([again])
    assert looked_at(ITEMS.name).different == 0, "what came back after its deletion is newer"


def test_the_learner_is_ready_before_it_has_read_the_log(
    kafka: Config, tail: Tail, eventually: Eventually, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ready = tmp_path / "ready"
    monkeypatch.setenv(READY_VARIABLE, str(ready))

    def read_when_ready(consumer: Consumer, spans: list[Span]) -> Iterator[Message]:
        eventually(ready.exists, "it is ready")
        yield from read_to_end(consumer, spans)
        assert tail.read().messages[NEIGHBOURS.name] == []

    monkeypatch.setattr("jobs.neighbours.read_to_end", read_when_ready)
    publish(kafka, CLICKS_ACCEPTED.name, *(("early", encode(click_of("early", item))) for item in "ab"))
    with running(lambda stop: run_neighbours(kafka, CLOCK, stop)):
        eventually(lambda: tail.read().messages[NEIGHBOURS.name] != [], "the lists are published")


def test_the_learner_publishes_what_changed_and_learns_the_log_again_after_a_restart(
    kafka: Config, tail: Tail, eventually: Eventually
) -> None:
    def learner(stop: StopSignal) -> None:
        run_neighbours(kafka, CLOCK, stop)

    def names(item_id: str) -> list[list[str]]:
        lists = [decode(message.value(), Neighbours) for message in tail.read().messages[NEIGHBOURS.name]]
        return [[name for name, _ in each.neighbours] for each in lists if each.item_id == item_id]

    def accepted(*steps: tuple[str, str]) -> None:
        clicks = [click_of(user, item) for user, item in steps]
        publish(kafka, CLICKS_ACCEPTED.name, *((click.user_id, encode(click)) for click in clicks))

    accepted(("near-1", "near-a"), ("near-1", "near-b"))
    with running(learner):
        eventually(lambda: names("near-a") == [["near-b"]], "the log so far is learned and published once")
        accepted(("near-2", "near-a"), ("near-2", "near-c"), ("near-3", "near-a"), ("near-3", "near-c"))
        eventually(lambda: names("near-a")[-1] == ["near-c", "near-b"], "new clicks change the list")
    before = len(names("near-a"))
    with running(learner):
        eventually(lambda: len(names("near-a")) > before, "a new process publishes its lists")
        assert names("near-a")[-1] == ["near-c", "near-b"]
