"""One process of the stack: how it is started, and how one knows that it answers."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from runtime.config import CONFIG_VARIABLE, ENV_PREFIX
from runtime.lifecycle import READY_VARIABLE

Probe = Callable[[int], bool]
"""Told when the process was started (milliseconds since the epoch), says within a second or two whether it does its
work; never raises for one that does not yet."""


@dataclass(frozen=True, slots=True)
class Service:
    """A process to be kept running: `env` is its whole environment, `address` what the user is told."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    probe: Probe
    address: str = ""
    ready_file: Path | None = None
    """Written by the process when it is ready; removed before each start."""


def inherited_environment() -> dict[str, str]:
    """Return our environment without what the configuration file of the stack already says."""
    own = (ENV_PREFIX, READY_VARIABLE)
    return {name: value for name, value in os.environ.items() if not name.startswith(own)}


def python_service(name: str, argv: tuple[str, ...], config_file: Path, ready_file: Path, address: str = "") -> Service:
    """Return the service for a process of ours, which loads `config_file` and writes `ready_file` when ready."""
    env = inherited_environment() | {
        CONFIG_VARIABLE: str(config_file),
        READY_VARIABLE: str(ready_file),
        # Parallelism comes from processes; thread pools of several libraries would only get in each other's way.
        "OMP_NUM_THREADS": "1",
    }
    return Service(name, argv, env, lambda _started_ms: ready_file.is_file(), address, ready_file)
