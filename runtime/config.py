"""The configuration tree: one file, then the environment; frozen, checked at load, passed by hand."""

import difflib
import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from runtime.addresses import without_credentials
from runtime.errors import ConfigError
from runtime.files import write_atomically
from runtime.lifecycle import READY_VARIABLE

ENV_PREFIX = "HEADRACE_"
CONFIG_VARIABLE = "HEADRACE_CONFIG"
DEFAULT_FILE = Path(__file__).resolve().parent.parent / "ops" / "headrace.toml"

MAX_PARTITIONS = 200
"""The gate keeps one number per partition in the metadata of a commit, of which a broker takes 4,096 bytes."""

RESERVED_CLIENT_PROPERTIES = frozenset(
    {
        "bootstrap.servers",
        "acks",
        "enable.idempotence",
        "partitioner",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "auto.offset.reset",
        "group.id",
        "group.instance.id",
        "isolation.level",
    }
)
"""librdkafka properties on which order, placement and exactly one answer depend."""


def _plain_value(value: Any) -> Any:
    """One complaint instead of one for each type that the value could have had."""
    if not isinstance(value, str | int | float | bool):
        raise ValueError("a client property is one text, number, true or false")
    return value


Positive = Annotated[int, Field(ge=1)]


def _not_empty(path: Any) -> Any:
    if isinstance(path, str) and not path.strip():
        raise ValueError("this would be the current folder; name one, or write '.' if that is meant")
    return path


Folder = Annotated[Path, BeforeValidator(_not_empty)]
Property = Annotated[str | int | float | bool, BeforeValidator(_plain_value)]
Part = Literal["kafka", "redis", "flink"]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class KafkaConfig(_Section):
    """Where Kafka is, how topics are laid out, and what its clients are told besides."""

    bootstrap_servers: str = Field(min_length=1)
    partitions: int = Field(ge=1, le=MAX_PARTITIONS)
    replication_factor: Positive
    client: dict[str, Property]
    java_client: dict[str, Property]

    @field_validator("client")
    @classmethod
    def _leaves_our_guarantees_alone(cls, client: dict[str, Any]) -> dict[str, Any]:
        if taken := sorted(client.keys() & RESERVED_CLIENT_PROPERTIES):
            raise ValueError(f"{', '.join(taken)} is set by Headrace, whose guarantees depend on it; leave it out")
        return client


class RedisConfig(_Section):
    """Where Redis is, how long a request waits for it, how long a key lives."""

    url: str = Field(pattern=r"^(redis|rediss|unix)://")
    timeout_ms: Positive
    ttl_s: Positive


class FlinkConfig(_Section):
    """Where the JobManager is and how the jobs run."""

    rest_url: str = Field(pattern=r"^https?://[^/]+")
    parallelism: Positive
    checkpoint_interval_ms: Positive
    buffer_timeout_ms: int = Field(ge=0)
    state_ttl_s: Positive
    savepoint_dir: str
    bundle_time_ms: Positive


class StackConfig(_Section):
    """The embedded stack: which parts, with how much memory."""

    parts: tuple[Part, ...]
    kafka_heap_mb: int = Field(ge=128)
    jobmanager_memory_mb: int = Field(ge=600)
    taskmanager_memory_mb: int = Field(ge=800)
    start_timeout_s: Positive


class GateConfig(_Section):
    """What the gate lets through."""

    future_tolerance_ms: int = Field(ge=0)
    dedup_window_events: int = Field(ge=0, le=10_000_000)


class FeaturesConfig(_Section):
    """The shape of the user record, where a session ends, and how much of the store a reader keeps in memory."""

    record_events: int = Field(ge=1, le=256)
    session_gap_ms: Positive
    near_cache_mb: Positive


class ItemStatisticsConfig(_Section):
    """How late an event may be to be counted in a window, and what a CTR is smoothed with."""

    max_lateness_ms: int = Field(ge=0)
    idle_after_ms: Positive
    prior_ctr: float = Field(gt=0.0, lt=1.0)
    prior_impressions: float = Field(gt=0.0)


class EmbeddingConfig(_Section):
    """How item vectors are trained, and how a user's vector is made of them."""

    size: int = Field(ge=2, le=1_024)
    step_decay: float = Field(gt=0.0, le=1.0)


class LeaderboardConfig(_Section):
    """How popularity decays and how much of it is published."""

    half_life_ms: Positive
    size: int = Field(ge=1, le=1_000)
    interval_ms: int = Field(ge=100)


class NeighboursConfig(_Section):
    """What the item-item learner counts as seen together."""

    window: Positive
    step_decay: float = Field(gt=0.0, le=1.0)
    shrinkage: float = Field(ge=0.0)
    size: Positive
    interval_ms: int = Field(ge=0)
    max_users: Positive


class RouterConfig(_Section):
    """When a user gets which ranker."""

    medium_above_events: int = Field(ge=0)
    heavy_above_events: int = Field(ge=0)
    heavy_above_streak: int = Field(ge=0)
    light_last_events: Positive


class WorkerConfig(_Section):
    """How much one worker takes on at once."""

    max_batch: Positive
    max_candidates: int = Field(ge=1, le=10_000)
    remember_requests: Positive


class Config(BaseSettings):
    """The whole tree. Load it with `load_config`."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", env_prefix=ENV_PREFIX, env_nested_delimiter="__")

    state_dir: Folder
    cache_dir: Folder
    metrics_port: int = Field(ge=0, le=65_535)
    kafka: KafkaConfig
    redis: RedisConfig
    flink: FlinkConfig
    stack: StackConfig
    gate: GateConfig
    features: FeaturesConfig
    item_statistics: ItemStatisticsConfig
    embedding: EmbeddingConfig
    leaderboard: LeaderboardConfig
    neighbours: NeighboursConfig
    router: RouterConfig
    worker: WorkerConfig


def load_config(
    file: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    other_defaults: Mapping[str, Any] | None = None,
) -> Config:
    """Return the defaults, overlaid with `file` (or $HEADRACE_CONFIG), the environment and then `overrides`.

    `overrides` is a partial tree, {"kafka": {"partitions": 8}}; so is `other_defaults`, which lies between the
    defaults and `file`. Raises `ConfigError`, naming the key, the value and the remedy, before anything starts.
    """
    if file is None and os.environ.get(CONFIG_VARIABLE):
        file = Path(os.environ[CONFIG_VARIABLE])
    _refuse_unknown_variables(os.environ)

    class Layered(Config):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            given = () if file is None else (_source(settings_cls, file),)
            defaults = InitSettingsSource(settings_cls, dict(other_defaults or {}))
            return (init_settings, env_settings, *given, defaults, _source(settings_cls, DEFAULT_FILE))

    try:
        return Layered(**(overrides or {}))
    except ValidationError as error:
        raise ConfigError("\n".join(_explained(each) for each in error.errors())) from error
    except SettingsError as error:
        raise ConfigError(_not_json(error.__cause__, os.environ)) from error


def write_config(config: Config, file: Path) -> None:
    """Write the whole effective tree, with absolute folders, so that another process can load exactly it.

    Only the owner may read the file: addresses and client properties hold credentials.
    """
    tree = config.model_dump(mode="json")
    tree |= {name: str(Path(tree[name]).resolve()) for name in ("state_dir", "cache_dir")}
    write_atomically(file, tomli_w.dumps(tree).encode())


def _source(settings_cls: type[BaseSettings], file: Path) -> TomlConfigSettingsSource:
    if not file.is_file():
        raise ConfigError(f"no configuration file at {file}; pass another with --config or unset {CONFIG_VARIABLE}")
    try:
        return TomlConfigSettingsSource(settings_cls, file)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} is not a TOML file: {error}") from error


def _refuse_unknown_variables(environ: Iterable[str]) -> None:
    """Raise for a HEADRACE_ variable that would silently do nothing."""
    sections = [ENV_PREFIX + name.upper() for name, field in Config.model_fields.items() if _is_section(field)]
    known = [ENV_PREFIX + name.upper() for name in Config.model_fields] + [CONFIG_VARIABLE, READY_VARIABLE]
    for name in environ:
        head, nested, _ = name.partition("__")
        if name.startswith(ENV_PREFIX) and head not in (sections if nested else known):
            raise ConfigError(f"unknown environment variable {name}{_nearest(name, known)}")


def _is_section(field: FieldInfo) -> bool:
    return isinstance(field.annotation, type) and issubclass(field.annotation, _Section)


def _not_json(cause: BaseException | None, environ: Mapping[str, str]) -> str:
    text = getattr(cause, "doc", None)
    names = [name for name, value in environ.items() if name.upper().startswith(ENV_PREFIX) and value == text]
    return f'{" or ".join(names)} is not JSON ({cause}); write a list as ["kafka"], a section as {{"partitions": 8}}'


def _explained(error: Any) -> str:
    path = [str(part) for part in error["loc"]]
    name = ".".join(path)
    if error["type"] == "extra_forbidden":
        section: Any = Config
        for part in path[:-1]:
            section = section.model_fields[part].annotation
        return f"unknown configuration key {name}{_nearest(path[-1], section.model_fields)}"
    value = error["input"]
    whole = path == ["kafka"] and isinstance(value, dict)
    if whole or path[:2] in (["kafka", "client"], ["kafka", "java_client"]):
        return f"configuration key {name}: {error['msg']}"  # without the value, which may hold a password
    shown = without_credentials(value) if isinstance(value, str) else value
    return f"configuration key {name} = {shown!r}: {error['msg']}"


def _nearest(name: str, known: Iterable[str]) -> str:
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else f"; known are {', '.join(sorted(names))}"
