"""The learner of neighbours on a real broker, in a thread of this process."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message

from jobs.neighbours import run_neighbours
from runtime.config import Config
from runtime.kafka.reading import Span, read_to_end
from runtime.lifecycle import READY_VARIABLE, StopSignal
from schemas.codec import decode, encode
from schemas.state import Neighbours
from schemas.topics import CLICKS_ACCEPTED, NEIGHBOURS
from tests.builders import click_of
from tests.conftest import Eventually
from tests.integration.processes import CLOCK, Tail, publish, running

pytestmark = pytest.mark.stack


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
