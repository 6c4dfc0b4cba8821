"""From the global options to the configuration."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from runtime.errors import ConfigError

if TYPE_CHECKING:
    from runtime.config import Config


@dataclass(frozen=True, slots=True)
class Settings:
    """The global options as given."""

    file: Path | None
    assignments: tuple[str, ...]


def load(context: typer.Context, other_defaults: dict[str, Any] | None = None) -> "Config":
    """Return the configuration: defaults, `other_defaults`, file, environment, then --set. Raises `ConfigError`."""
    from runtime.config import load_config

    settings: Settings = context.obj
    tree: dict[str, Any] = {}
    for assignment in settings.assignments:
        key, equals, text = assignment.partition("=")
        if not equals:
            raise ConfigError(f"--set {assignment!r} has no '='; write --set kafka.partitions=8")
        if not key:
            raise ConfigError(f"--set {assignment!r} names no key before the '='; write --set kafka.partitions=8")
        require_utf8(assignment, "--set")
        *sections, name = key.split(".")
        section = tree
        for each in sections:
            section = section.setdefault(each, {})
            if not isinstance(section, dict):
                raise ConfigError(f"--set {assignment!r} goes into {each}, which an earlier --set made a plain value")
        section[name] = _value(text)
    return load_config(settings.file, tree, other_defaults)


def require_utf8(argument: str, option: str) -> None:
    """Raise `ConfigError` for bytes on the command line that are no text: Python keeps them as lone surrogates."""
    try:
        argument.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(f"{option} {argument!r} is not UTF-8; write it so") from error


def _value(text: str) -> Any:
    """Read a value as TOML; what is none is taken as a plain string, so that addresses need no quotes."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
