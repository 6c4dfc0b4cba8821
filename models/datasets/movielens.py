"""MovieLens 100k: 100,000 ratings by 943 users of 1,682 films, taken out of the recbole wheel."""

import csv
import hashlib
import io
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from runtime.errors import DataError
from schemas.click import Click
from schemas.item import Item
from schemas.user import User

LICENCE = (
    "MovieLens 100k, GroupLens Research, University of Minnesota: for research use, no redistribution without "
    "permission, no endorsement implied. Please acknowledge F. Maxwell Harper and Joseph A. Konstan, 2015, "
    "The MovieLens Datasets: History and Context, ACM Transactions on Interactive Intelligent Systems 5 (4), 19."
)

_PACKAGE = "recbole==1.2.1"
_WHEEL = "recbole-1.2.1-py3-none-any.whl"
_WHEEL_SHA256 = "9c9948202011f37eb0a7c6768129313f00d6403ad221ec940d5e2d5d5f33a407"
_MEMBER = "recbole/dataset_example/ml-100k/ml-100k.{part}"
_PIP_TIMEOUT_S = 300


@dataclass(frozen=True, slots=True)
class MovieLens:
    """The data set: clicks sorted by time (ties in the order of the file), the films, the users."""

    clicks: list[Click]
    items: list[Item]
    users: list[User]


def load(cache_dir: Path) -> MovieLens:
    """Return the data set, downloading its wheel into `cache_dir` unless it is there.

    Raises `DataError` if it cannot be downloaded, was altered or is not what was expected.
    """
    wheel = cache_dir / _WHEEL
    if not wheel.is_file():
        _download(cache_dir)
    return read_wheel(wheel)


def read_wheel(wheel: Path, sha256: str = _WHEEL_SHA256) -> MovieLens:
    """Return the data set out of `wheel`, whose hash must be `sha256`; raise `DataError` otherwise."""
    found = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if found != sha256:
        raise DataError(f"{wheel} has sha256 {found}, not {sha256}; delete it, so that it is downloaded again")
    with zipfile.ZipFile(wheel) as archive:
        clicks = sorted(_clicks(archive), key=lambda click: click.ts)
        start_ts = clicks[0].ts
        return MovieLens(clicks, list(_items(archive, start_ts)), list(_users(archive, start_ts)))


def _download(cache_dir: Path) -> None:
    cache_dir.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    try:
        done = subprocess.run(
            [*command, "--dest", str(cache_dir), _PACKAGE],
            capture_output=True,
            text=True,
            timeout=_PIP_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise DataError(f"pip download {_PACKAGE} took over {_PIP_TIMEOUT_S} s; is the registry reachable?") from error
    if done.returncode:
        raise DataError(
            f"pip download {_PACKAGE} failed: {done.stderr.strip()}; check pip's access to its registry, or "
            f"put {_WHEEL} into {cache_dir} by hand"
        )


def _rows(archive: zipfile.ZipFile, part: str) -> Iterator[dict[str, str]]:
    """Yield the rows of a tab-separated member whose header cells read `name:type`."""
    name = _MEMBER.format(part=part)
    try:
        text = archive.read(name).decode("utf-8")
    except KeyError as error:
        raise DataError(f"{archive.filename} holds no {name}") from error
    reader = csv.reader(io.StringIO(text, newline=""), delimiter="\t", quoting=csv.QUOTE_NONE)
    columns = [cell.partition(":")[0] for cell in next(reader)]
    for cells in reader:
        yield dict(zip(columns, cells, strict=True))


def _clicks(archive: zipfile.ZipFile) -> Iterator[Click]:
    for row in _rows(archive, "inter"):
        yield Click(
            event_id=f"ml-100k-{row['user_id']}-{row['item_id']}",
            ts=int(float(row["timestamp"])) * 1000,
            user_id=row["user_id"],
            item_id=row["item_id"],
            action="rating",
            value=float(row["rating"]),
        )


def _items(archive: zipfile.ZipFile, ts: int) -> Iterator[Item]:
    for row in _rows(archive, "item"):
        genres = tuple(row["class"].split())
        year = row["release_year"]
        yield Item(
            item_id=row["item_id"],
            ts=ts,
            title=row["movie_title"],
            category=genres[0] if genres else None,
            tags=genres,
            attributes={"year": int(year)} if year.isdigit() else None,
        )


def _users(archive: zipfile.ZipFile, ts: int) -> Iterator[User]:
    for row in _rows(archive, "user"):
        yield User(
            user_id=row["user_id"],
            ts=ts,
            attributes={"age": int(row["age"]), "gender": row["gender"], "occupation": row["occupation"]},
        )
