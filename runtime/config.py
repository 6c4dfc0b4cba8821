"""The configuration tree: one file, then the environment; frozen, checked at load, passed by hand."""

import difflib
import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from runtime.errors import ConfigError
from runtime.lifecycle import READY_VARIABLE

ENV_PREFIX = "HEADRACE_"
CONFIG_VARIABLE = "HEADRACE_CONFIG"
DEFAULT_FILE = Path(__file__).resolve().parent.parent / "ops" / "headrace.toml"

Positive = Annotated[int, Field(ge=1)]
Part = Literal["kafka", "redis", "flink"]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class KafkaConfig(_Section):
    """Where Kafka is, how topics are laid out, and what its clients are told besides."""

    bootstrap_servers: str = Field(min_length=1)
    partitions: Positive
    replication_factor: Positive
    client: dict[str, str | int | float | bool]
    java_client: dict[str, str | int | float | bool]


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


class FeaturesConfig(_Section):
    """The shape of the user record."""

    record_events: int = Field(ge=1, le=256)


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

    state_dir: Path
    cache_dir: Path
    metrics_port: int = Field(ge=0, le=65_535)
    kafka: KafkaConfig
    redis: RedisConfig
    flink: FlinkConfig
    stack: StackConfig
    gate: GateConfig
    features: FeaturesConfig
    leaderboard: LeaderboardConfig
    neighbours: NeighboursConfig
    router: RouterConfig
    worker: WorkerConfig


def load_config(file: Path | None = None, overrides: Mapping[str, Any] | None = None) -> Config:
    """Return the defaults, overlaid with `file` (or $HEADRACE_CONFIG), the environment and then `overrides`.

    `overrides` is a partial tree, {"kafka": {"partitions": 8}}. Raises `ConfigError`, naming the key, the value and
    the remedy, before anything starts.
    """
    if file is None and os.environ.get(CONFIG_VARIABLE):
        file = Path(os.environ[CONFIG_VARIABLE])
    files = [DEFAULT_FILE] if file is None else [file, DEFAULT_FILE]
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
            return (init_settings, env_settings, *(_source(settings_cls, each) for each in files))

    try:
        return Layered(**(overrides or {}))
    except ValidationError as error:
        raise ConfigError("\n".join(_explained(each) for each in error.errors())) from error


def write_config(config: Config, file: Path) -> None:
    """Write the whole effective tree, with absolute folders, so that another process can load exactly it."""
    tree = config.model_dump(mode="json")
    tree |= {name: str(Path(tree[name]).resolve()) for name in ("state_dir", "cache_dir")}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(tomli_w.dumps(tree), encoding="utf-8")


def _source(settings_cls: type[BaseSettings], file: Path) -> TomlConfigSettingsSource:
    if not file.is_file():
        raise ConfigError(f"no configuration file at {file}; pass another with --config or unset {CONFIG_VARIABLE}")
    try:
        return TomlConfigSettingsSource(settings_cls, file)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} is not a TOML file: {error}") from error


def _refuse_unknown_variables(environ: Iterable[str]) -> None:
    """Raise for a HEADRACE_ variable that would silently do nothing."""
    known = [ENV_PREFIX + name.upper() for name in Config.model_fields] + [CONFIG_VARIABLE, READY_VARIABLE]
    for name in environ:
        if name.startswith(ENV_PREFIX) and name.split("__")[0] not in known:
            raise ConfigError(f"unknown environment variable {name}{_nearest(name, known)}")


def _explained(error: Any) -> str:
    path = [str(part) for part in error["loc"]]
    name = ".".join(path)
    if error["type"] == "extra_forbidden":
        section: Any = Config
        for part in path[:-1]:
            section = section.model_fields[part].annotation
        return f"unknown configuration key {name}{_nearest(path[-1], section.model_fields)}"
    return f"configuration key {name} = {error['input']!r}: {error['msg']}"


def _nearest(name: str, known: Iterable[str]) -> str:
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"; did you mean {close[0]}?" if close else f"; known are {', '.join(sorted(names))}"
