import pytest

from features.user_record_sql import LARGEST_PIECE, entries_per_piece, select_user_records


@pytest.mark.parametrize(
    ("record_events", "size"), [(1, 1), (2, 2), (7, 1), (9, 3), (10, 2), (32, 4), (251, 1), (256, 4)]
)
def test_pieces_come_out_even(record_events: int, size: int) -> None:
    assert entries_per_piece(record_events) == size


def test_every_length_that_can_be_configured_has_pieces() -> None:
    for record_events in range(1, 257):
        size = entries_per_piece(record_events)
        assert record_events % size == 0
        assert 1 <= size <= LARGEST_PIECE


@pytest.mark.parametrize("record_events", [1, 4, 32, 256])
def test_the_query_keeps_as_many_pieces_as_the_record_is_long(record_events: int) -> None:
    pieces = record_events // entries_per_piece(record_events)
    query = select_user_records("clicks", record_events)
    assert query.count("LAST_VALUE") == pieces
    assert query.count("LAG(") == entries_per_piece(record_events) - 1
