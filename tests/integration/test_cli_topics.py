"""The commands that send to topics and show them, on a real broker."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cli.main import app
from runtime.config import Config, write_config
from runtime.errors import DataError, KafkaError
from schemas.codec import encode
from schemas.item import Item
from tests.builders import NOW_MS, click_of

pytestmark = pytest.mark.stack

Headrace = Callable[..., Result]


@pytest.fixture
def headrace(kafka: Config, tmp_path: Path) -> Headrace:
    """Run the command line against the broker."""
    write_config(kafka, tmp_path / "headrace.toml")

    def run(*arguments: str, stdin: bytes | None = None) -> Result:
        return CliRunner().invoke(app, ["--config", str(tmp_path / "headrace.toml"), *arguments], input=stdin)

    return run


def _lines(*values: bytes) -> bytes:
    return b"".join(value + b"\n" for value in values)


def test_a_file_of_items_is_sent_and_can_be_read_back(headrace: Headrace, tmp_path: Path) -> None:
    items = [encode(Item(item_id=f"cli-{n}", ts=NOW_MS, title=f"Film {n} 🎬")) for n in range(3)]
    for name, content in (("items.jsonl", _lines(*items)), ("items.jsonl.gz", gzip.compress(_lines(*items)))):
        (tmp_path / name).write_bytes(content)
        sent = headrace("produce", "items", str(tmp_path / name))
        assert (sent.exit_code, sent.stdout) == (0, "3 messages acknowledged by items\n")
    read = headrace("consume", "items", "--from-beginning", "--key", "cli-1", "--max", "2")
    assert read.exit_code == 0
    assert read.stdout_bytes == _lines(items[1], items[1])


def test_the_first_wrong_line_stops_the_sending(headrace: Headrace) -> None:
    good = [encode(click_of("cli", f"i{n}")) for n in range(4)]
    sent = headrace("produce", "clicks", "-", stdin=_lines(*good[:2], b'{"user_id": 17}', *good[2:]))
    assert sent.stdout == "2 messages acknowledged by clicks\n"
    assert isinstance(sent.exception, DataError)
    assert str(sent.exception).startswith("-, line 3: wrong_type: ")
    assert str(sent.exception).endswith("nothing from this line on was sent")


def test_without_the_check_every_line_is_sent(headrace: Headrace) -> None:
    sent = headrace("produce", "clicks", "-", "--no-check", stdin=_lines(b"hello", b'{"user_id": 17}', b"\xff"))
    assert (sent.exit_code, sent.stdout) == (0, "3 messages acknowledged by clicks\n")


def test_what_was_sent_before_a_line_that_is_too_large_is_acknowledged(headrace: Headrace) -> None:
    good = encode(click_of("cli", "before"))
    sent = headrace("produce", "clicks", "-", "--no-check", stdin=_lines(good, b"x" * 5_000_000, good))
    assert sent.stdout == "1 messages acknowledged by clicks\n"
    assert isinstance(sent.exception, KafkaError)
    assert "5,000,000 bytes cannot go to clicks" in str(sent.exception)
    by_the_broker = headrace("produce", "clicks", "-", "--no-check", stdin=_lines(good, b"x" * 3_000_000))
    assert by_the_broker.stdout == "1 messages acknowledged by clicks\n"
    assert isinstance(by_the_broker.exception, KafkaError)


def test_a_file_that_is_not_there_or_not_whole_is_named(headrace: Headrace, tmp_path: Path) -> None:
    missing = headrace("produce", "clicks", str(tmp_path / "no.jsonl"))
    assert isinstance(missing.exception, DataError)
    assert "no.jsonl" in str(missing.exception)
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(gzip.compress(_lines(encode(click_of("cli", "i"))))[:-9])
    assert isinstance(headrace("produce", "clicks", str(cut)).exception, DataError)


def test_the_topics_are_listed_with_what_they_are(headrace: Headrace) -> None:
    listed = headrace("topics", "--create")
    assert listed.exit_code == 0
    assert "created: nothing was missing" in listed.stdout
    assert "dead-letters" in listed.stdout
    assert "compact" in listed.stdout


def test_an_unknown_topic_is_an_error_with_a_remedy(headrace: Headrace) -> None:
    failed = headrace("consume", "clickz")
    assert isinstance(failed.exception, KafkaError)
    assert "topic clickz does not exist; there are clicks, clicks.accepted" in str(failed.exception)


def test_dead_letters_can_be_listed_as_a_table(headrace: Headrace, kafka: Config) -> None:
    from confluent_kafka import Message

    from runtime.dead_letters import dead_letter, send_dead_letter
    from runtime.kafka.clients import producer
    from schemas.errors import NotJson

    sink = producer(kafka.kafka)
    message = Message("clicks", 0, 5, None, b"[red]{broken")  # type: ignore[call-arg, arg-type, unused-ignore]
    send_dead_letter(sink, dead_letter(message, NotJson("it is [bold]not[/] JSON"), NOW_MS))
    sink.flush()
    listed = headrace("dead-letters", "--last", "1")
    assert listed.exit_code == 0
    assert "[red]" in listed.stdout
    assert "not_json" in listed.stdout


def test_what_consume_prints_is_json_for_the_next_program(headrace: Headrace) -> None:
    headrace("produce", "clicks", "-", stdin=_lines(encode(click_of("cli-json", "i1"))))
    read = headrace("consume", "clicks", "--from-beginning", "--key", "cli-json", "--max", "1")
    assert json.loads(read.stdout)["item_id"] == "i1"
