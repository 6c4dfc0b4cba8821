"""Where the embedded stack keeps what: folders under the state folder."""

from dataclasses import dataclass
from pathlib import Path

from runtime.config import DEFAULT_FILE, Config

OPS = DEFAULT_FILE.parent
"""The folder of configuration templates and the list of jars."""

FOLDERS = ("run", "log", "kafka", "redis", "flink", "models")
"""All folders that a run writes into; `headrace down --wipe` removes these and nothing else."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The folders of one state folder, as absolute paths."""

    root: Path

    @classmethod
    def of(cls, config: Config) -> "Layout":
        """Return the layout of this configuration's state folder."""
        return cls(config.state_dir.resolve())

    @property
    def run(self) -> Path:
        """Process records, ready files, the state and the effective configuration."""
        return self.root / "run"

    @property
    def log(self) -> Path:
        """One log file per process."""
        return self.root / "log"

    @property
    def config_file(self) -> Path:
        """The effective configuration that every process of this stack loads."""
        return self.run / "config.toml"

    def log_of(self, name: str) -> Path:
        """The log file of one process."""
        return self.log / f"{name}.log"

    def ready_file(self, name: str) -> Path:
        """The file that a process of ours writes once it has caught up."""
        return self.run / f"{name}.ready"

    def folder(self, *parts: str) -> Path:
        """Return a folder under the state folder, creating it if need be."""
        path = self.root.joinpath(*parts)
        path.mkdir(parents=True, exist_ok=True)
        return path
