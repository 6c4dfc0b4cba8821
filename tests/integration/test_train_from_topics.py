"""`headrace train --from topic` against a real broker."""

import subprocess
import sys
from pathlib import Path

import pytest

from cli.train import read_topics
from models.registry import load_pointer
from runtime.config import Config, write_config
from runtime.kafka.clients import reader
from runtime.kafka.reading import assign_from_beginning, read_to_end
from runtime.kafka.sending import send_all
from schemas.codec import decode, encode
from schemas.item import Item
from schemas.state import ModelPointer
from schemas.topics import CLICKS_ACCEPTED, ITEMS, MODELS, USERS
from schemas.user import User
from tests.builders import NOW_MS, click_of

pytestmark = pytest.mark.stack

CLICKS = [
    click_of(user_id, item_id, NOW_MS + place)
    for place, (user_id, item_id) in enumerate([("u", "a"), ("v", "b"), ("u", "b")])
]


@pytest.fixture(scope="module")
def filled(kafka: Config) -> Config:
    messages: list[tuple[str, str, bytes | None]] = [
        *((CLICKS_ACCEPTED.name, click.user_id, encode(click)) for click in CLICKS),
        (ITEMS.name, "a", encode(Item(item_id="a", ts=NOW_MS, title="old"))),
        (ITEMS.name, "a", encode(Item(item_id="a", ts=NOW_MS, title="new"))),
        (ITEMS.name, "gone", encode(Item(item_id="gone", ts=NOW_MS))),
        (ITEMS.name, "gone", None),
        (ITEMS.name, "bad", b'{"item_id": 17}'),
        (ITEMS.name, "other", encode(Item(item_id="a", ts=NOW_MS, title="under a foreign key"))),
        (USERS.name, "u", encode(User(user_id="u", ts=NOW_MS))),
        (USERS.name, "bad", b"not json"),
    ]
    send_all(kafka.kafka, messages)
    return kafka


def test_a_history_is_what_the_topics_hold_in_the_order_of_time_without_what_is_invalid(
    filled: Config, capsys: pytest.CaptureFixture[str]
) -> None:
    history = read_topics(filled.kafka)
    assert "left out 3 invalid" in capsys.readouterr().err
    assert list(history.clicks) == CLICKS
    assert {item_id: item.title for item_id, item in history.items.items()} == {"a": "new"}
    assert set(history.users) == {"u"}


def test_the_command_saves_a_model_and_publishes_it(filled: Config, tmp_path: Path) -> None:
    file = tmp_path / "headrace.toml"
    write_config(filled, file)
    command = [sys.executable, "-m", "cli", "--config", str(file), "train", "cf", "--from", "topic"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    consumer = reader(filled.kafka)
    try:
        ends = assign_from_beginning(consumer, [MODELS.name])
        pointers = [decode(message.value(), ModelPointer) for message in read_to_end(consumer, ends)]
    finally:
        consumer.close()
    assert [pointer.model for pointer in pointers] == ["cf"]
    assert pointers[0].version in done.stdout
    assert load_pointer(pointers[0]).version == pointers[0].version
