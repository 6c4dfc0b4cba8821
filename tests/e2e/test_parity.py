"""What the running pipeline holds of everybody, against a plain recount of its log."""

from collections.abc import Callable

import pytest

from evaluation.recount import Recount, miscounted, recount
from features.memory_store import MemoryStore
from features.record_batch import parse_record
from features.redis_store import RedisStore
from features.store import Family, Write
from runtime.clock import SystemClock
from runtime.config import Config
from schemas.click import ACTIONS, Click
from schemas.codec import encode
from schemas.topics import CLICKS
from tests.e2e.application import Application

Eventually = Callable[..., None]

pytestmark = pytest.mark.stack

USERS, ITEMS, CLICKS_EACH = 40, 25, 50


def test_every_record_and_every_count_is_that_of_a_recount_of_the_log(
    stack: Config, application: Application, eventually: Eventually
) -> None:
    """Byte for byte, and over all that any other test has sent: more events than a record keeps, every action."""
    users, items = application.new("parity"), application.new("item")
    now_ms = application.now_ms()
    clicks = [
        Click(
            event_id=f"{users}-{n}",
            ts=now_ms - n * 977 % 3_600_000,  # in no order
            user_id=f"{users}-{n % USERS}",
            item_id=f"{items}-{n * n % ITEMS}",
            action=ACTIONS[n % len(ACTIONS)],
            value=None if n % 3 else n * 1.5e-4 * 10 ** (n % 13),
        )
        for n in range(USERS * CLICKS_EACH)
    ]
    application.produce(CLICKS.name, [(click.user_id, encode(click)) for click in clicks])
    expected = recount(stack)

    def all_counted() -> bool:
        nonlocal expected
        expected = recount(stack)
        ours = [packed for user_id, packed in expected.users.items() if user_id.startswith(users)]
        return sum(parse_record(packed).total_events for packed in ours) == len(clicks)

    eventually(all_counted, "every click is accepted")
    store = RedisStore(stack.redis, timeout_ms=5_000)
    try:
        assert miscounted(expected, store, SystemClock()) == []
    finally:
        store.close()


def test_a_value_that_is_not_what_the_log_says_is_found(stack: Config) -> None:
    expected, store = recount(stack), MemoryStore(60, SystemClock())
    user_id, packed = next(iter(expected.users.items()))
    item_id = next(iter(expected.items))
    wrong = miscounted(Recount({user_id: packed}, {item_id: expected.items[item_id]}), store, SystemClock(), 0)
    assert wrong == [Family.USER.key(user_id), Family.ITEM_STATISTICS.key(item_id)]
    store.put_many([Write(Family.USER.key(user_id), packed, 0, 0)])
    assert miscounted(Recount({user_id: packed}, {}), store, SystemClock(), 0) == []
    assert miscounted(Recount({user_id: packed + b"\t"}, {}), store, SystemClock(), 0) == [Family.USER.key(user_id)]
