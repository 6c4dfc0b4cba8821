import hashlib
from pathlib import Path
from typing import Any

import pytest
from jgo.maven import MavenContext

import stack.jars
from runtime.errors import StackError
from stack.jars import cached_jars, ensure_jars, missing_jars, pinned_jars

CONTENT = b"what is in the archive"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository folder with one archive, pinned as the broker's only one."""
    repository = tmp_path / "repository"
    file = repository / "org" / "example" / "thing" / "1.0" / "thing-1.0.jar"
    file.parent.mkdir(parents=True)
    file.write_bytes(CONTENT)
    pinned = tmp_path / "jars.toml"
    digest = hashlib.sha256(CONTENT).hexdigest()
    pinned.write_text(f'[kafka]\n"org.example:thing:1.0" = "{digest}"\n[flink]\n')

    def context(cache: Path) -> Any:
        return MavenContext(repo_cache=cache, local_repos=[repository], remote_repos={})

    monkeypatch.setattr(stack.jars, "JARS_FILE", pinned)
    monkeypatch.setattr(stack.jars, "_context", context)
    return file


def test_a_missing_archive_is_fetched_and_then_cached(repository: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    cache = tmp_path / "cache"
    ensure_jars(cache, ["kafka", "flink"], lambda ready, total: seen.append((ready, total)))
    assert [file.read_bytes() for file in cached_jars(cache, "kafka")] == [CONTENT]
    assert seen == [(0, 1), (1, 1)]
    repository.unlink(missing_ok=True)
    ensure_jars(cache, ["kafka", "flink"])


def test_a_damaged_archive_in_the_cache_is_fetched_again(repository: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    (cache / "jars").mkdir(parents=True)
    (cache / "jars" / "thing-1.0.jar").write_bytes(CONTENT[:-1])
    assert [jar.coordinate for jar in missing_jars(cache, ["kafka"])] == ["org.example:thing:1.0"]
    ensure_jars(cache, ["kafka", "flink"])
    assert missing_jars(cache, ["kafka"]) == []


def test_an_archive_that_is_not_what_was_pinned_is_refused(repository: Path, tmp_path: Path) -> None:
    repository.write_bytes(b"<html>please log in</html>")
    cache = tmp_path / "cache"
    with pytest.raises(StackError, match=r"org.example:thing:1.0 as downloaded has sha256 [0-9a-f]{64}"):
        ensure_jars(cache, ["kafka", "flink"])
    assert list((cache / "jars").iterdir()) == []


def test_an_archive_that_is_nowhere_gives_an_error_with_a_remedy(repository: Path, tmp_path: Path) -> None:
    repository.unlink()
    with pytest.raises(StackError, match=r"org.example:thing:1.0 cannot be downloaded: .*check the network"):
        ensure_jars(tmp_path / "cache", ["kafka", "flink"])


@pytest.mark.parametrize(
    ("group", "wanted"),
    [
        ("kafka", {"org.apache.kafka:kafka_2.13:4.3.1", "org.apache.kafka:kafka-clients:4.3.1"}),
        ("flink", {"org.apache.flink:flink-connector-kafka:5.0.0-2.2", "org.apache.kafka:kafka-clients:4.2.0"}),
    ],
)
def test_the_pinned_lists_hold_what_belongs_together(group: Any, wanted: set[str]) -> None:
    jars: list[stack.jars.Jar] = pinned_jars(group)
    assert wanted <= {jar.coordinate for jar in jars}
    assert len({jar.coordinate.rsplit(":", 1)[0] for jar in jars}) == len(jars)
    assert all(len(jar.sha256) == 64 for jar in jars)
