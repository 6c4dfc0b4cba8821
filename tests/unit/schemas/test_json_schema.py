import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from schemas import json_schema
from schemas.click import Click
from schemas.codec import encode
from schemas.json_schema import KINDS, stale_files, wanted_files
from tests.corpus import ACCEPTED_CLICKS, REJECTED_CLICKS, ClickCase

NOW_MS = 1_700_000_000_000
VISIBLE = [
    case for case in REJECTED_CLICKS if case.in_schema and case.code not in {"not_json", "missing_value", "too_large"}
]

CLICK_SCHEMA = Draft202012Validator(json.loads(json_schema.json_schema(Click)))


def test_the_generated_files_are_those_of_the_wire_types() -> None:
    assert stale_files() == [], "run `python -m schemas.json_schema`"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.__name__))
def test_every_file_is_a_valid_schema(kind: type) -> None:
    Draft202012Validator.check_schema(json.loads((json_schema.FOLDER / f"{kind.__name__}.json").read_bytes()))


@pytest.mark.parametrize("case", VISIBLE, ids=str)
def test_the_schema_refuses_what_the_codec_refuses(case: ClickCase) -> None:
    assert not CLICK_SCHEMA.is_valid(json.loads(case.make(NOW_MS) or b""))


@pytest.mark.parametrize("case", ACCEPTED_CLICKS, ids=str)
def test_the_schema_accepts_what_the_codec_accepts(case: ClickCase) -> None:
    CLICK_SCHEMA.validate(json.loads(case.make(NOW_MS) or b""))


def test_what_we_send_is_valid_by_our_own_schema() -> None:
    click = Click(event_id="e", ts=NOW_MS, user_id="👩‍🚀", item_id="i", action="view", context={"a": 1, "b": None})
    CLICK_SCHEMA.validate(json.loads(encode(click)))


def test_a_missing_a_changed_and_a_left_over_file_are_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_schema, "FOLDER", tmp_path / "generated")
    assert json_schema.main([]) == 0
    assert json_schema.main(["--check"]) == 0
    missing, changed, *_ = sorted(wanted_files())
    left_over = tmp_path / "generated" / "Old.json"
    missing.unlink()
    changed.write_bytes(b"{}")
    left_over.write_bytes(b"{}")
    assert stale_files() == sorted([missing, changed, left_over])
    assert json_schema.main(["--check"]) == 1
    assert json_schema.main([]) == 0
    assert stale_files() == []
