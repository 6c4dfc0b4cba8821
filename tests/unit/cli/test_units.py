"""How durations and sizes are put."""

import pytest

from cli.units import age, size

MINUTE_MS = 60_000


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (-5, "0 s"),
        (999, "0 s"),
        (2 * MINUTE_MS - 1, "119 s"),
        (2 * MINUTE_MS, "2 min"),
        (60 * MINUTE_MS, "60 min"),
        (86_400_000, "24 h"),
        (10**9, "11 d"),
    ],
)
def test_an_age_is_given_in_the_largest_unit_that_is_not_too_coarse(milliseconds: int, text: str) -> None:
    assert age(milliseconds) == text


@pytest.mark.parametrize(("count", "text"), [(0, "0 B"), (999, "999 B"), (31_000, "31 kB"), (2_450_000, "2.5 MB")])
def test_a_size_is_given_in_its_largest_unit(count: int, text: str) -> None:
    assert size(count) == text
