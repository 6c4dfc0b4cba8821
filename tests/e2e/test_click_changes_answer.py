"""From a click to a changed answer, through real Kafka, Flink and Redis."""

import msgspec
import pytest

from features.record_batch import parse_record
from features.store import Family
from features.user_record import RecordBuilder
from runtime.config import Config
from schemas.click import ACTIONS, Click
from schemas.codec import decode, encode
from schemas.item import Item
from schemas.topics import CLICKS, CLICKS_ACCEPTED, FEATURES_USER, ITEMS
from tests.conftest import Eventually
from tests.e2e.application import Application
from tests.e2e.redis_client import redis_client

pytestmark = pytest.mark.stack


def test_a_click_changes_the_answer_of_a_stranger(application: Application, eventually: Eventually) -> None:
    liked, near, other = (application.new(name) for name in ("liked", "near", "other"))
    for _ in range(3):
        application.click(application.new("crowd"), liked, near)
        application.click(application.new("crowd"), other)
    user = application.new("user")
    eventually(lambda: application.ask(user).tier == "stranger" and bool(application.ask(user).items), "a leaderboard")

    application.click(user, liked)

    def near_comes_first() -> bool:
        answer = application.ask(user, explain=True)
        return answer.tier == "light" and answer.items[0].item_id == near

    eventually(near_comes_first, "the neighbour of what was clicked comes first")
    answer = application.ask(user, explain=True)
    assert liked not in {item.item_id for item in answer.items}
    assert answer.items[0].reasons == (f"similar to {liked}",)
    assert set(answer.state_read) == {CLICKS_ACCEPTED.name}
    assert answer.feature_age_ms is not None


def test_an_item_that_is_no_longer_available_disappears_from_answers(
    application: Application, eventually: Eventually
) -> None:
    gone, user = application.new("gone"), application.new("user")
    for _ in range(20):
        application.click(application.new("crowd"), gone)
    eventually(
        lambda: gone in {item.item_id for item in application.ask(user, k=100).items}, "the popular item is recommended"
    )
    item = Item(item_id=gone, ts=application.now_ms(), available=False)
    application.produce(ITEMS.name, [(gone, encode(item))])
    eventually(
        lambda: gone not in {item.item_id for item in application.ask(user, k=100).items}, "the item is filtered"
    )


def test_records_of_flink_equal_those_of_the_python_replay(
    application: Application, stack: Config, eventually: Eventually
) -> None:
    users = [application.new(name) for name in ("ü", "🎬 with spaces", "plain")]
    clicks = [
        Click(
            event_id=application.new("e"),
            ts=application.now_ms() + step,
            user_id=users[step % 3],
            item_id=f"i{step % 7}🎬",
            action=ACTIONS[step % len(ACTIONS)],
            value=(None, 3.5, 1e-9, 1e20, -0.25)[step % 5],
        )
        for step in range(120)
    ]
    application.produce(CLICKS.name, [(click.user_id, encode(click)) for click in clicks])
    mine = {user.encode() for user in users}
    eventually(
        lambda: len(application.read(FEATURES_USER.name, lambda each: each.key() in mine)) == len(clicks),
        "one record per event",
    )

    builders = {user: RecordBuilder(stack.features.record_events) for user in users}
    expected = []
    for message in application.read(CLICKS_ACCEPTED.name, lambda each: each.key() in mine):
        click = decode(message.value(), Click)
        expected.append(builders[click.user_id].add(click, (message.partition() or 0, message.offset() or 0)))
    emitted = application.read(FEATURES_USER.name, lambda each: each.key() in mine)
    records = [parse_record(each.value() or b"") for each in emitted]
    in_log_order = [(each.key(), record.total_events) for each, record in zip(emitted, records, strict=True)]
    assert sorted(records, key=lambda record: record.position) == sorted(expected, key=lambda record: record.position)
    for user in users:
        assert [total for key, total in in_log_order if key == user.encode()] == list(range(1, 41))


def test_redis_holds_the_last_record_with_a_ttl(
    application: Application, stack: Config, eventually: Eventually
) -> None:
    user = application.new("user")
    application.click(user, "a", "b", "c")
    client = redis_client(stack.redis)
    key = Family.USER.key(user)

    def last_item() -> str | None:
        value = client.get(key)
        return None if value is None else parse_record(value.split(b" ", 2)[2]).events[-1].item_id

    eventually(lambda: last_item() == "c", "the last record is in Redis")
    assert 0 < client.ttl(key) <= stack.redis.ttl_s


def test_the_answer_follows_the_contract_on_the_wire(application: Application) -> None:
    application.click(application.new("crowd"), "a", "b")
    answer = application.ask(application.new("user"), explain=True)
    assert decode(encode(answer), type(answer)) == answer
    assert msgspec.to_builtins(answer)["final"] is True
