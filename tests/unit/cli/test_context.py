from pathlib import Path

import pytest
import typer

from cli.context import Settings, load
from cli.main import app
from runtime.config import CONFIG_VARIABLE, Config
from runtime.errors import ConfigError


@pytest.fixture(autouse=True)
def _defaults_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CONFIG_VARIABLE, raising=False)


def loaded(*assignments: str) -> Config:
    return load(typer.Context(typer.main.get_command(app), obj=Settings(None, assignments)), {"state_dir": "other"})


def test_values_are_read_as_toml_and_what_is_none_as_text() -> None:
    config = loaded("kafka.partitions=8", "stack.parts=['kafka']", "redis.url=redis://127.0.0.1:1/0")
    assert (config.kafka.partitions, config.stack.parts) == (8, ("kafka",))
    assert config.redis.url == "redis://127.0.0.1:1/0"
    assert config.state_dir == Path("other")


@pytest.mark.parametrize(
    ("assignments", "complaint"),
    [
        (["state_dir=a", "state_dir.b=c"], r"--set 'state_dir\.b=c' goes into state_dir, which"),
        (["kafka.partitions=8", "kafka.partitions.b.c=1"], r"goes into partitions, which"),
        (["state_dir.b=c"], "configuration key state_dir = "),
        (["kafka=3"], "configuration key kafka = 3"),
        (["kafka.partitions"], "has no '='"),
        (["=3"], "'=3' names no key before the '='"),
        (["state_dir=a\udcff"], "is not UTF-8"),
        (["kafka..x=3"], "unknown configuration key"),
    ],
)
def test_an_assignment_that_fits_nowhere_is_refused(assignments: list[str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        loaded(*assignments)
