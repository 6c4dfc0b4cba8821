import pytest

from cli.produce import read_keys
from runtime.errors import DataError
from schemas.click import Click
from schemas.codec import encode
from schemas.item import Item
from tests.builders import click_of

GOOD = encode(click_of("u1", "i1"))


def test_every_line_goes_under_the_id_that_it_names() -> None:
    lines = [GOOD + b"\n", b"\n", encode(click_of("👩‍🚀", "i2"))]
    assert list(read_keys(iter(lines), "file", Click, "user_id", no_check=False)) == [
        ("u1", GOOD),
        ("👩‍🚀", lines[2]),
    ]


def test_a_line_is_sent_as_it_is_with_the_fields_that_we_do_not_know() -> None:
    line = b'{"item_id": "i1",  "ts": 1700000000000, "colour": "red"}'
    assert list(read_keys(iter([line + b"\r\n"]), "file", Item, "item_id", no_check=False)) == [("i1", line)]


def test_the_first_wrong_line_is_named_with_its_number_and_what_is_wrong() -> None:
    messages = read_keys(iter([GOOD, b"", b'{"user_id": 17}', GOOD]), "day.jsonl", Click, "user_id", no_check=False)
    assert next(messages) == ("u1", GOOD)
    with pytest.raises(DataError, match=r"day\.jsonl, line 3: wrong_type: .*user_id"):
        next(messages)


def test_without_the_check_everything_goes_under_whatever_id_can_be_read() -> None:
    lines = [b'{"user_id": "u1"}', b'{"user_id": 17}', b"[]", b"hello", b"\xff", GOOD]
    assert list(read_keys(iter(lines), "file", Click, "user_id", no_check=True)) == [
        ("u1", lines[0]),
        (None, lines[1]),
        (None, lines[2]),
        (None, lines[3]),
        (None, lines[4]),
        ("u1", GOOD),
    ]
