"""Java archives by coordinate: pinned with their sha256 in ops/jars.toml, fetched in parallel, cached, checked.

`python -m stack.jars` resolves the roots in that file anew and writes the pinned lists back.
"""

import hashlib
import logging
import tempfile
import tomllib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tomli_w

from runtime.config import Config
from runtime.errors import StackError
from runtime.files import write_atomically
from stack.layout import OPS

JARS_FILE = OPS / "jars.toml"
DOWNLOAD_THREADS = 8
REQUEST_TIMEOUT_S = 60

Group = Literal["kafka", "flink"]
Progress = Callable[[int, int], None]
"""Called with how many jars are ready and how many there are."""


@dataclass(frozen=True, slots=True)
class Jar:
    """One archive: `coordinate` is group:artifact:version, `sha256` in hex."""

    coordinate: str
    sha256: str

    @property
    def filename(self) -> str:
        """The name it has in a Maven repository and in the cache."""
        _, artifact, version = self.coordinate.split(":")
        return f"{artifact}-{version}.jar"


def pinned_jars(group: Group) -> list[Jar]:
    """Return the pinned archives of the broker or of Flink's Kafka connector."""
    tree = tomllib.loads(JARS_FILE.read_text(encoding="utf-8"))
    return [Jar(coordinate, sha256) for coordinate, sha256 in tree[group].items()]


def cached_jars(cache_dir: Path, group: Group) -> list[Path]:
    """Return where the archives of `group` lie; `ensure_jars` has put them there."""
    return [_folder(cache_dir) / jar.filename for jar in pinned_jars(group)]


def needed_groups(config: Config) -> list[Group]:
    """Return which archives this configuration needs: Flink's clients need the connector wherever Flink runs."""
    return ["kafka", "flink"] if "kafka" in config.stack.parts else ["flink"]


def missing_jars(cache_dir: Path, groups: Sequence[Group]) -> list[Jar]:
    """Return the pinned archives of `groups` that are not in the cache, or are there but damaged."""
    return [jar for jar in _jars_of(groups) if not _is_sound(_folder(cache_dir) / jar.filename, jar)]


def ensure_jars(cache_dir: Path, groups: Sequence[Group], on_progress: Progress = lambda _ready, _total: None) -> None:
    """Fetch every pinned archive of `groups` that the cache lacks, or holds damaged.

    Raises `StackError` if one cannot be had or is not what was pinned. Two processes may do this at once.
    """
    total = len(_jars_of(groups))
    missing = missing_jars(cache_dir, groups)
    on_progress(total - len(missing), total)
    if not missing:
        return
    folder = _folder(cache_dir)
    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(DOWNLOAD_THREADS) as pool:
        downloads = [pool.submit(_fetch, jar, folder) for jar in missing]
        try:
            for ready, download in enumerate(as_completed(downloads), total - len(missing) + 1):
                download.result()
                on_progress(ready, total)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _fetch(jar: Jar, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder, prefix=".download-") as private:
        try:
            file = _artifact(_context(Path(private)), jar.coordinate).resolve()
        except (OSError, RuntimeError) as error:
            raise StackError(
                f"{jar.coordinate} cannot be downloaded: {error}; check the network and HTTPS_PROXY, or name a mirror "
                "under [repositories] in ~/.config/jgo.conf"
            ) from error
        found = _sha256(file)
        if found != jar.sha256:
            raise StackError(
                f"{jar.coordinate} as downloaded has sha256 {found}, ops/jars.toml says {jar.sha256}; it was "
                "altered on its way (a proxy's error page?); try again or use another mirror"
            )
        file.replace(folder / jar.filename)


def _context(cache: Path) -> Any:
    from jgo.config import GlobalSettings
    from jgo.constants import MAVEN_CENTRAL_URL
    from jgo.maven import MavenContext, PythonResolver

    logging.getLogger("jgo").setLevel(logging.ERROR)
    return MavenContext(
        repo_cache=cache,
        remote_repos={**GlobalSettings.load().repositories, "central": MAVEN_CENTRAL_URL},
        resolver=PythonResolver(),
        timeout=REQUEST_TIMEOUT_S,
    )


def _artifact(context: Any, coordinate: str) -> Any:
    group, artifact, version = coordinate.split(":")
    return context.project(group, artifact).at_version(version).artifact()


def _jars_of(groups: Sequence[Group]) -> list[Jar]:
    """Each archive once: the two groups share some."""
    return list(dict.fromkeys(jar for group in groups for jar in pinned_jars(group)))


def _folder(cache_dir: Path) -> Path:
    return cache_dir.resolve() / "jars"


def _is_sound(file: Path, jar: Jar) -> bool:
    return file.is_file() and _sha256(file) == jar.sha256


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _pin() -> None:
    """Resolve the roots of each group with all they need at run time, and write coordinates and checksums."""
    tree = tomllib.loads(JARS_FILE.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(prefix="headrace-pin-") as scratch:
        context = _context(Path(scratch))
        for group, roots in tree["roots"].items():
            chosen: dict[tuple[str, str], Any] = {}
            # One root at a time: resolved together, the version rules of one root's POM would be laid on the others.
            for root in roots:
                inputs, transitive = context.resolver.resolve([context.create_dependency(root)])
                for each in [*inputs, *transitive]:
                    if each.artifactId not in tree["provided"][group]:
                        chosen.setdefault((each.groupId, each.artifactId), each)
            tree[group] = {
                f"{name[0]}:{name[1]}:{each.version}": _sha256(each.artifact.resolve())
                for name, each in sorted(chosen.items())
            }
    write_atomically(JARS_FILE, (_HEADER + tomli_w.dumps(tree)).encode())


_HEADER = """\
# Java archives of the embedded stack, with their sha256. To move to other versions, change [roots] and run
#     python -m stack.jars
# which resolves what they need and rewrites the lists. [provided] names what the host of a group has already.

"""

if __name__ == "__main__":
    _pin()
