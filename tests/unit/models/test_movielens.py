import hashlib
import zipfile
from pathlib import Path

import pytest

from models.datasets import movielens
from runtime.errors import DataError

MEMBERS = {
    "inter": "user_id:token\titem_id:token\trating:float\ttimestamp:float\n2\t7\t4\t900\n1\t9\t5\t800\n1\t7\t1\t900\n",
    "item": (
        "item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq\n"
        '7\tThe "Quoted" One\t1995\tComedy War\n9\tUnknown\tunknown\t\n'
    ),
    "user": "user_id:token\tage:token\tgender:token\toccupation:token\tzip_code:token\n1\t24\tM\tartist\t85711\n",
}


def wheel_of(path: Path, **members: str) -> str:
    """Write a wheel with these parts of the data set and return its sha256."""
    with zipfile.ZipFile(path, "w") as archive:
        for part, text in members.items():
            archive.writestr(f"recbole/dataset_example/ml-100k/ml-100k.{part}", text)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_ratings_become_clicks_in_the_order_of_time_and_then_of_the_file(tmp_path: Path) -> None:
    data = movielens.read_wheel(tmp_path / "w.whl", wheel_of(tmp_path / "w.whl", **MEMBERS))
    assert [(click.ts, click.user_id, click.item_id, click.value) for click in data.clicks] == [
        (800_000, "1", "9", 5.0),
        (900_000, "2", "7", 4.0),
        (900_000, "1", "7", 1.0),
    ]
    assert {click.action for click in data.clicks} == {"rating"}
    assert len({click.event_id for click in data.clicks}) == 3


def test_films_carry_their_genres_and_year_where_they_are_known(tmp_path: Path) -> None:
    known, unknown = movielens.read_wheel(tmp_path / "w.whl", wheel_of(tmp_path / "w.whl", **MEMBERS)).items
    assert (known.title, known.category, known.tags) == ('The "Quoted" One', "Comedy", ("Comedy", "War"))
    assert known.attributes == {"year": 1995}
    assert (unknown.category, unknown.tags, unknown.attributes) == (None, (), None)


def test_users_carry_what_is_known_of_them_but_their_address(tmp_path: Path) -> None:
    (user,) = movielens.read_wheel(tmp_path / "w.whl", wheel_of(tmp_path / "w.whl", **MEMBERS)).users
    assert user.attributes == {"age": 24, "gender": "M", "occupation": "artist"}


def test_an_altered_wheel_is_refused(tmp_path: Path) -> None:
    wheel_of(tmp_path / "recbole-1.2.1-py3-none-any.whl", **MEMBERS)
    with pytest.raises(DataError, match="sha256"):
        movielens.load(tmp_path)


def test_a_wheel_without_the_data_is_refused(tmp_path: Path) -> None:
    sha256 = wheel_of(tmp_path / "w.whl", item=MEMBERS["item"])
    with pytest.raises(DataError, match=r"ml-100k\.inter"):
        movielens.read_wheel(tmp_path / "w.whl", sha256)
