"""kill -9 in the middle of live traffic: every request still gets one final answer, and no event is lost."""

import os
import signal
import threading

import pytest

from evaluation.live import LiveRun
from evaluation.protocol import Audience, Plan, asks_before
from features.user_record import record_position
from runtime.clock import SystemClock
from runtime.config import Config
from schemas.click import Click
from schemas.codec import decode
from schemas.recommendation import Recommendation
from schemas.topics import CLICKS_ACCEPTED, FEATURES_USER, RECOMMENDATIONS
from stack.control import read_status
from tests.conftest import Eventually
from tests.e2e.application import Application

pytestmark = pytest.mark.stack

EVENTS = 900
USERS = 30
SPACING_MS = 8.0


def pid_of(config: Config, name: str) -> int:
    (service,) = (each for each in read_status(config).services if each.name == name)
    assert service.pid is not None
    return service.pid


@pytest.mark.parametrize("victim", ["worker", "materializer", "taskmanager", "gate"])
def test_nothing_is_lost_and_nothing_comes_twice(
    victim: str, application: Application, stack: Config, eventually: Eventually
) -> None:
    run = application.new(victim)
    items = [f"{run}-i{n}" for n in range(50)]
    live = tuple(
        Click(
            event_id=f"{run}-{place}",
            ts=application.now_ms(),
            user_id=f"{run}-u{place % USERS}",
            item_id=items[place * 7 % len(items)],
            action="view",
        )
        for place in range(EVENTS)
    )
    plan = Plan(history=(), live=live, spacing_ms=SPACING_MS)
    pid = pid_of(stack, victim)
    killer = threading.Event()

    def kill_in_the_middle(events: int, _requests: int, _answers: int) -> None:
        if events > EVENTS // 3 and not killer.is_set():
            killer.set()
            os.kill(pid, signal.SIGKILL)

    answered = LiveRun(stack.kafka, plan, Audience(items), SystemClock(), run).run(kill_in_the_middle)

    assert killer.is_set()
    asked = {f"{run}-{place}" for place in range(EVENTS) if asks_before(place)}
    assert {each.answer.request_id for each in answered} == asked
    eventually(lambda: pid_of(stack, victim) != pid and read_status(stack).ready, f"{victim} is back", within_s=120)

    finals = [decode(each.value(), Recommendation) for each in application.read(RECOMMENDATIONS.name)]
    mine = [each.request_id for each in finals if each.request_id.startswith(run)]
    assert len(mine) == len(set(mine)) == len(asked)

    accepted = application.read(CLICKS_ACCEPTED.name, lambda each: (each.key() or b"").startswith(run.encode()))
    assert len(accepted) == EVENTS
    positions = {(each.partition(), each.offset()) for each in accepted}

    def records() -> set[tuple[int, int]]:
        return {
            record_position(each.value() or b"")
            for each in application.read(FEATURES_USER.name, lambda each: (each.key() or b"").startswith(run.encode()))
        }

    eventually(lambda: records() == positions, "every event has its record", within_s=120)
