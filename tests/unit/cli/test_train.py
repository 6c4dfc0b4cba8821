from pathlib import Path
from typing import get_args

import pytest

from cli.train import MODELS, Model, app, read_file
from models import registry
from runtime.errors import DataError
from schemas.click import Click
from schemas.codec import encode
from tests.builders import click_of


def test_a_file_of_json_lines_is_read_in_order(tmp_path: Path) -> None:
    clicks = [click_of("u", "a"), click_of("v", "b")]
    path = tmp_path / "clicks.jsonl"
    path.write_bytes(b"\n".join(map(encode, clicks)) + b"\n\n")
    assert list(read_file(str(path), Click)) == clicks


def test_a_line_that_is_wrong_is_named_with_its_file(tmp_path: Path) -> None:
    path = tmp_path / "clicks.jsonl"
    path.write_bytes(encode(click_of("u", "a")) + b"\n{}\n")
    with pytest.raises(DataError, match=r"clicks\.jsonl, line 2: "):
        list(read_file(str(path), Click))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no file at .*nothing\.jsonl"):
        list(read_file(str(tmp_path / "nothing.jsonl"), Click))


def test_there_is_a_command_for_every_model() -> None:
    assert tuple(MODELS) == get_args(Model) == registry.NAMES
    assert tuple(command.name for command in app.registered_commands) == registry.TRAINABLE
