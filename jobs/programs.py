"""The Flink programs by name, and what identifies the state of each."""

import hashlib
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from jobs import item_statistics, leaderboards, user_embedding, user_record
from runtime.config import Config
from runtime.errors import ConfigError

if TYPE_CHECKING:
    from pyflink.table import TableEnvironment

Define = Callable[["TableEnvironment", Config, int], list[str]]
"""Creates a program's tables and functions on the environment and returns its INSERT statements, which run together as
one job. The last argument is the landmark: a moment near the events, in epoch milliseconds, that the program may use as
the origin of its numbers, and that stays the same for as long as its state is kept."""

PROGRAMS: dict[str, Define] = {
    module.JOB_NAME: module.define for module in (user_record, item_statistics, leaderboards, user_embedding)
}

_CLIENT_PROPERTY = re.compile(r"'properties\.[^']*' = '(?:[^']|'')*',?")
"""In a table's options: where Kafka is and how its clients are tuned, which no state depends on."""


class RecordedStatements:
    """Stands in for a table environment and keeps what a program would do with it; needs no JVM."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def execute_sql(self, statement: str) -> None:
        """Keep a statement."""
        self.texts.append(statement)

    def create_temporary_function(self, path: str, _function: Any) -> None:
        """Keep a function's name: what it does has no part in the state."""
        self.texts.append(f"FUNCTION {path}")

    def get_config(self) -> "RecordedStatements":
        """Take settings, which have no part in the state."""
        return self

    def set(self, _key: str, _value: str) -> None:
        """Pass over a setting."""


def require_programs(names: Sequence[str]) -> None:
    """Raise `ConfigError` for a name that no program has."""
    if unknown := [name for name in names if name not in PROGRAMS]:
        raise ConfigError(f"no job is called {', '.join(unknown)}; the jobs are {', '.join(PROGRAMS)}")


def fingerprint(name: str, config: Config) -> str:
    """Return 64 hex digits that differ whenever the state of program `name` cannot be carried over.

    They are made of the program's statements: of the shape of its tables and of its queries, not of how they are laid
    out, nor of the landmark or of the properties of its Kafka clients.
    """
    recorded = RecordedStatements()
    inserts = PROGRAMS[name](cast("TableEnvironment", recorded), config, 0)
    texts = (" ".join(_CLIENT_PROPERTY.sub("", text).split()) for text in (*recorded.texts, *inserts))
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def settings_digest(config: Config) -> str:
    """Return 16 hex digits that differ whenever a running job has to be restarted, with its state, to take them up."""
    flink = config.flink.model_dump_json(exclude={"rest_url", "savepoint_dir"})
    kafka = config.kafka.model_dump_json(include={"bootstrap_servers", "java_client"})
    return hashlib.sha256((flink + kafka).encode()).hexdigest()[:16]
