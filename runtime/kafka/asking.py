"""Asking a broker: patient while the reason passes by itself, and never deaf to Ctrl-C."""

from collections.abc import Callable
from typing import TypeVar

from confluent_kafka import KafkaError as Code  # its codes; the name is taken by our own error
from confluent_kafka import KafkaException
from tenacity import Retrying, retry_if_exception, stop_before_delay, wait_fixed

from runtime.errors import KafkaError

Answer = TypeVar("Answer")

REQUEST_TIMEOUT_S = 10.0
"""For metadata and administration: a broker that is up answers in milliseconds, a starting one in seconds."""

SLICE_S = 1.0
"""For one try: Python sees Ctrl-C only when the client's call is over."""

PAUSE_S = 0.05

PASSING = frozenset(
    {
        # For a moment after a partition was created or has moved.
        Code.NOT_LEADER_FOR_PARTITION,
        Code.LEADER_NOT_AVAILABLE,
        Code.UNKNOWN_TOPIC_OR_PART,
        # What the client says for a moment after it has lost all brokers and found one again.
        Code._UNKNOWN_PARTITION,
        Code._UNKNOWN_TOPIC,
        # Starting, stopping, or slow.
        Code._TRANSPORT,
        Code._ALL_BROKERS_DOWN,
        Code._TIMED_OUT,
        Code.REQUEST_TIMED_OUT,
        Code.BROKER_NOT_AVAILABLE,
        Code.NETWORK_EXCEPTION,
        Code._WAIT_COORD,
        Code.COORDINATOR_NOT_AVAILABLE,
        Code.COORDINATOR_LOAD_IN_PROGRESS,
        Code.NOT_COORDINATOR,
    }
)


class _Unanswered(Exception):
    """The client's time for one try was over."""


def ask(question: Callable[[float], Answer | None], complaint: str) -> Answer:
    """Return the answer to `question`, which gets the seconds that it may take and returns None if they are over.

    It is asked again while what is in the way passes by itself, for `REQUEST_TIMEOUT_S` in all; then, and for
    anything else, `KafkaError` is raised with `complaint` and the reason.
    """

    def once() -> Answer:
        answer = question(SLICE_S)
        if answer is None:
            raise _Unanswered("it timed out")
        return answer

    patiently = Retrying(
        retry=retry_if_exception(_passes),
        stop=stop_before_delay(REQUEST_TIMEOUT_S),
        wait=wait_fixed(PAUSE_S),
        reraise=True,
    )
    try:
        return patiently(once)
    except (KafkaException, _Unanswered) as error:
        reason = error.args[0].str() if isinstance(error, KafkaException) else str(error)
        raise KafkaError(f"{complaint}: {reason}; is Kafka up? (headrace status)") from error


def _passes(error: BaseException) -> bool:
    return isinstance(error, _Unanswered) or (isinstance(error, KafkaException) and error.args[0].code() in PASSING)
