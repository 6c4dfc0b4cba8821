"""Which processes make up Headrace, and how the whole of them is started from one place."""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runtime.config import Config
    from stack.control import OnState
    from stack.jars import Progress
    from stack.layout import Layout
    from stack.service import Service
    from stack.state import StackState

PROCESSES = ("gate", "jobs", "materializer", "neighbours", "worker")
"""Our own processes, in the order of the stream; each is `headrace run NAME`."""

RUN = (sys.executable, "-m", "cli", "run")


def start(
    config: "Config",
    on_state: "OnState" = lambda _state: None,
    on_jars: "Progress" = lambda _ready, _total: None,
) -> "StackState":
    """Start the embedded parts and our own processes; return when all are ready. Raises `StackError`."""
    from stack.control import up

    return up(config, (*RUN, "supervisor"), on_state, on_jars)


def supervise(config: "Config") -> None:
    """Be the supervisor: run the embedded parts, create the topics, run our own processes, until told to stop."""
    from runtime.kafka.topics import create_topics
    from runtime.lifecycle import StopSignal, log_to_stderr
    from schemas.topics import TOPICS
    from stack.embedded import embedded_services, supervisor_of
    from stack.layout import Layout

    log_to_stderr()
    stop = StopSignal().listen()
    layout = Layout.of(config)
    with supervisor_of(config, stop) as supervisor:
        supervisor.start(embedded_services(config, layout))
        if not stop.stopping:
            create_topics(config.kafka, TOPICS)
        supervisor.start([_own(config, layout, name) for name in PROCESSES])
        supervisor.watch()


def _own(config: "Config", layout: "Layout", name: str) -> "Service":
    from stack.service import python_service

    address = f"http://127.0.0.1:{config.metrics_port}/metrics" if name == "worker" and config.metrics_port else ""
    return python_service(name, (*RUN, name), layout.config_file, layout.ready_file(name), address)
