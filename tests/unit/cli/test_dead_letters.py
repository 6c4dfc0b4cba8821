import pytest

from cli.dead_letters import cells
from schemas.dead_letter import DeadLetter


@pytest.mark.parametrize(
    ("original", "shown"),
    [
        (None, "null"),
        (b"", ""),
        (b'{"user_id": ""}', '{"user_id": ""}'),
        (b"\xff\x00", r"\xff\x00"),
        (b"x" * 41, "x" * 40 + "... (41 bytes)"),
    ],
)
def test_a_dead_letter_is_one_row_of_printable_text(original: bytes | None, shown: str) -> None:
    letter = DeadLetter(
        source_topic="clicks",
        source_partition=2,
        source_offset=17,
        ts=1_700_000_000_123,
        code="not_json",
        detail="it is not JSON",
        key=None,
        original=original,
    )
    assert cells(letter) == ("2023-11-14 22:13:20", "clicks[2]@17", "not_json", "it is not JSON", shown)
