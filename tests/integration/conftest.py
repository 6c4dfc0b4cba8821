"""What the tests of our processes share."""

from collections.abc import Iterator

import pytest

from runtime.config import Config
from schemas.topics import CLICKS, CLICKS_ACCEPTED, DEAD_LETTERS, NEIGHBOURS
from tests.integration.processes import Tail


@pytest.fixture
def tail(kafka: Config) -> Iterator[Tail]:
    tail = Tail(kafka, CLICKS.name, CLICKS_ACCEPTED.name, DEAD_LETTERS.name, NEIGHBOURS.name)
    yield tail
    tail.close()
