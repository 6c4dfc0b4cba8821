"""Where the embedded stack keeps what: folders under the state folder."""

from dataclasses import dataclass
from pathlib import Path

from runtime.config import DEFAULT_FILE, Config
from runtime.errors import StackError

OPS = DEFAULT_FILE.parent
"""The folder of configuration templates and the list of jars."""

FOLDERS = ("run", "log", "kafka", "redis", "flink", "models")
"""All folders that a run writes into; `headrace down --wipe` removes these and nothing else."""

MARKER = "headrace-state"
"""The empty file in a state folder that says that FOLDERS in it are ours; without it nothing is wiped."""


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

    def present(self) -> list[Path]:
        """Return those of FOLDERS that exist, be it as links."""
        paths = [self.root / name for name in FOLDERS]
        return [path for path in paths if path.exists() or path.is_symlink()]

    def require_ours(self) -> None:
        """Raise `StackError` if folders named like ours are here that we did not make."""
        if not (self.root / MARKER).exists() and (present := self.present()):
            names = ", ".join(path.name for path in present)
            raise StackError(
                f"{self.root} holds {names} but no {MARKER}: Headrace did not make that and leaves it alone; choose "
                "another folder with --set state_dir=FOLDER"
            )

    def claim(self) -> None:
        """Mark the state folder as ours, creating it if need be; raise `StackError` as `require_ours` does."""
        # A stack was started here before there was a marker.
        if not self.config_file.is_file():
            self.require_ours()
        self.root.mkdir(parents=True, exist_ok=True)
        (self.root / MARKER).touch()

    def folder(self, *parts: str) -> Path:
        """Return a folder under the state folder, creating it if need be; claims the state folder first."""
        self.claim()
        path = self.root.joinpath(*parts)
        path.mkdir(parents=True, exist_ok=True)
        return path
