"""What the supervisor says about its services, as one JSON file that others read."""

from pathlib import Path
from typing import Literal

import msgspec

from runtime.files import write_atomically
from stack.layout import Layout

Condition = Literal["waiting", "starting", "ready", "not answering", "restarting", "failed", "stopped", "unsupervised"]


class ServiceState(msgspec.Struct, frozen=True):
    """One service: `restarts` counts how often it died and was started again."""

    name: str
    condition: Condition
    address: str = ""
    pid: int | None = None
    restarts: int = 0


class StackState(msgspec.Struct, frozen=True):
    """All services in starting order; `complete` once all of them were ready, `error` if that failed."""

    services: tuple[ServiceState, ...] = ()
    complete: bool = False
    error: str | None = None

    @property
    def ready(self) -> bool:
        """Whether everything is there and answers."""
        return self.complete and all(service.condition == "ready" for service in self.services)


def write_state(layout: Layout, state: StackState) -> None:
    """Publish `state`."""
    write_atomically(_file(layout), msgspec.json.encode(state))


def read_state(layout: Layout) -> StackState:
    """Return what was published last; an empty state if nothing was."""
    try:
        return msgspec.json.decode(_file(layout).read_bytes(), type=StackState)
    except (FileNotFoundError, msgspec.DecodeError):
        return StackState()


def clear_state(layout: Layout) -> None:
    """Forget what was published."""
    _file(layout).unlink(missing_ok=True)


def _file(layout: Layout) -> Path:
    return layout.run / "state.json"
