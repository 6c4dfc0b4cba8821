"""The application that the end-to-end tests play."""

import pytest

from runtime.config import Config
from tests.e2e.application import Application


@pytest.fixture(scope="session")
def application(stack: Config) -> Application:
    """A client of the running pipeline."""
    return Application(stack.kafka)
