"""The Flink programs by name, and what identifies the state of each."""

import hashlib
import inspect
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from features import embedding, packed, record_batch, record_bytes, user_vector
from jobs import encode_records, encoder_follower, item_statistics, leaderboards, user_embedding, user_record
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

_TUNING = re.compile(r"'(?:properties|scan\.watermark|sink\.buffer-flush)\.[^']*' = '(?:[^']|'')*',?")
"""In a table's options: where Kafka is, how its clients are tuned, what waits how long; no state depends on those."""

_FUNCTION_CODE = (encode_records, encoder_follower, embedding, packed, record_batch, record_bytes, user_vector)
"""What a Python function does. Its worker imports these once, when its job starts."""


class RecordedStatements:
    """Stands in for a table environment and keeps what a program would do with it; needs no JVM."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.has_function = False

    def execute_sql(self, statement: str) -> None:
        """Keep a statement."""
        self.texts.append(statement)

    def create_temporary_function(self, path: str, _function: Any) -> None:
        """Keep a function's name: what it does has no part in the state."""
        self.texts.append(f"FUNCTION {path}")
        self.has_function = True

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
    out, nor of the landmark or of what `settings_digest` is made of.
    """
    texts = (" ".join(_TUNING.sub("", text).split()) for text in _recorded(name, config).texts)
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def settings_digest(name: str, config: Config) -> str:
    """Return 16 hex digits that differ whenever a job of program `name` has to be restarted, with its state, to take up
    its settings, the tuning of its tables, or what its Python function does and is given."""
    recorded = _recorded(name, config)
    parts = [config.flink.model_dump_json(exclude={"rest_url", "savepoint_dir"})]
    parts += (option for text in recorded.texts for option in _TUNING.findall(text))
    if recorded.has_function:
        parts.append(config.kafka.model_dump_json(include={"client"}))
        parts += map(inspect.getsource, _FUNCTION_CODE)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _recorded(name: str, config: Config) -> RecordedStatements:
    recorded = RecordedStatements()
    recorded.texts += PROGRAMS[name](cast("TableEnvironment", recorded), config, 0)
    return recorded
