"""Real Kafka, Redis and Flink for the tests that need them: own ports, own state folder, the checkout's cache."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from cli.services import start
from runtime.config import Config, load_config
from runtime.kafka.topics import create_topics
from schemas.topics import TOPICS
from stack.control import PARTS_ONLY, down, up
from stack.ports import LOOPBACK, free_port

CACHE_DIR = Path(__file__).resolve().parent.parent / ".headrace" / "cache"

Eventually = Callable[..., None]

# An example that takes long on a busy machine is no failure.
hypothesis.settings.register_profile("headrace", deadline=None)
hypothesis.settings.load_profile("headrace")


@pytest.fixture(scope="session")
def eventually() -> Eventually:
    """A function that waits for a condition and fails, with a text of its own, when it does not come true."""

    def wait(condition: Callable[[], bool], what: str, within_s: float = 60.0) -> None:
        deadline = time.monotonic() + within_s
        while not condition():
            if time.monotonic() > deadline:
                pytest.fail(f"not within {within_s:.0f} s: {what}")
            time.sleep(0.05)

    return wait


@pytest.fixture(scope="session")
def new_config(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Config]:
    """A function that returns a configuration with free ports and a new state folder; its arguments are sections."""

    def make(**sections: Any) -> Config:
        tree: dict[str, Any] = {
            "state_dir": tmp_path_factory.mktemp("state"),
            "cache_dir": CACHE_DIR,
            "metrics_port": 0,
            "kafka": {"bootstrap_servers": f"{LOOPBACK}:{free_port()}"},
            "redis": {"url": f"redis://{LOOPBACK}:{free_port()}/0"},
            "flink": {"rest_url": f"http://{LOOPBACK}:{free_port()}"},
            # No test is about how fast a busy machine starts it.
            "stack": {"start_timeout_s": 300},
        }
        for name, section in sections.items():
            tree[name] = {**tree.get(name, {}), **section} if isinstance(section, dict) else section
        return load_config(overrides=tree)

    return make


@pytest.fixture(scope="module")
def kafka(new_config: Callable[..., Config]) -> Iterator[Config]:
    """A real broker with all topics, and nothing else; each module of tests has its own, with nothing in it."""
    config = new_config(stack={"parts": ["kafka"]})
    up(config, PARTS_ONLY)
    try:
        create_topics(config.kafka, TOPICS)
        yield config
    finally:
        down(config, wipe=True)


@pytest.fixture(scope="session")
def redis(new_config: Callable[..., Config]) -> Iterator[Config]:
    """A real Redis, and nothing else."""
    config = new_config(stack={"parts": ["redis"]})
    up(config, PARTS_ONLY)
    yield config
    down(config, wipe=True)


@pytest.fixture(scope="session")
def stack(new_config: Callable[..., Config]) -> Iterator[Config]:
    """The whole pipeline, as `headrace up` starts it."""
    config = new_config()
    start(config)
    yield config
    down(config, wipe=True)
