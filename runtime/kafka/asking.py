"""Asking a broker: patient while the reason passes by itself, and never deaf to Ctrl-C."""

import time
from collections.abc import Callable
from typing import TypeVar

from confluent_kafka import KafkaError as Code  # its codes; the name is taken by our own error
from confluent_kafka import KafkaException

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


def ask(question: Callable[[float], Answer | None], complaint: str) -> Answer:
    """Return the answer to `question`, which gets the seconds that it may take and returns None if they are over.

    It is asked again while what is in the way passes by itself, for `REQUEST_TIMEOUT_S` in all; then, and for
    anything else, `KafkaError` is raised with `complaint` and the reason.
    """
    deadline = time.monotonic() + REQUEST_TIMEOUT_S
    while True:
        reason, cause = "it timed out", None
        try:
            answer = question(max(PAUSE_S, min(SLICE_S, deadline - time.monotonic())))
        except KafkaException as error:
            reason, cause = error.args[0].str(), error
        else:
            if answer is not None:
                return answer
        passes = cause is None or cause.args[0].code() in PASSING
        if not passes or time.monotonic() >= deadline:
            raise KafkaError(f"{complaint}: {reason}; is Kafka up? (headrace status)") from cause
        time.sleep(PAUSE_S)
