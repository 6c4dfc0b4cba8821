"""The parts of the worker that need no Kafka."""

from typing import Any, cast

import msgspec
import pytest

from runtime.clock import ManualClock
from runtime.config import load_config
from runtime.lifecycle import StopSignal
from schemas.codec import MAX_MESSAGE_BYTES, decode
from schemas.recommendation import Recommendation, RecommendedItem
from serving import worker
from serving.worker import Worker, encoded
from tests.builders import NOW_MS


def answer(items: int, id_chars: int, reason_chars: int) -> Recommendation:
    return Recommendation(
        request_id="r",
        ts=NOW_MS,
        user_id="u",
        items=tuple(
            RecommendedItem(item_id=f"{n:0{id_chars}}", score=1.0, propensity=1.0, reasons=("x" * reason_chars,))
            for n in range(items)
        ),
        final=True,
        tier="light",
        model="cf",
        model_version="1",
        precision="fp32",
        route_reason="test",
    )


def test_an_ordinary_answer_is_sent_as_it_is() -> None:
    ordinary = answer(items=10, id_chars=8, reason_chars=40)
    assert decode(encoded(ordinary), Recommendation) == ordinary


def test_an_answer_that_is_too_large_loses_its_reasons_and_says_so() -> None:
    shortened = decode(encoded(answer(items=10, id_chars=8, reason_chars=110_000)), Recommendation)
    assert [item.item_id for item in shortened.items] == [f"{n:08}" for n in range(10)]
    assert shortened.items[0].reasons == ()
    assert shortened.degradations == ("reasons_left_out",)


@pytest.mark.parametrize("reason_chars", [0, 1_000])
def test_an_answer_whose_items_alone_are_too_large_becomes_an_error(reason_chars: int) -> None:
    vast = msgspec.structs.replace(
        answer(items=3_000, id_chars=256, reason_chars=reason_chars), route_reason="y" * 10**6
    )
    value = encoded(vast)
    assert len(value) <= MAX_MESSAGE_BYTES
    refused = decode(value, Recommendation)
    assert refused.error is not None
    assert (refused.items, refused.final, refused.error.code) == ((), True, "answer_too_large")


class Part:
    """Something that notes its closing, and may fail at that."""

    def __init__(self, name: str, closed: list[str], *, fails: bool = False) -> None:
        self._name = name
        self._closed = closed
        self._fails = fails

    def subscribe(self, _topics: list[str], **_callbacks: object) -> None:
        """What a consumer is asked for first."""

    def close(self) -> None:
        self._closed.append(self._name)
        if self._fails:
            raise RuntimeError(f"{self._name} cannot be closed")


def test_what_fails_to_close_leaves_nothing_else_open(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []
    consumer, tables, users = (
        cast("Any", Part(name, closed, fails=name != "users")) for name in ("consumer", "tables", "users")
    )
    monkeypatch.setattr(worker, "group_consumer", lambda *_: consumer)
    stop = StopSignal()
    stop.stop()
    made = Worker(load_config(), cast("Any", None), tables, users, cast("Any", None), ManualClock(NOW_MS))
    with pytest.raises(RuntimeError, match="cannot be closed"):
        made.run(stop, "worker-0")
    assert closed == ["consumer", "tables", "users"]
