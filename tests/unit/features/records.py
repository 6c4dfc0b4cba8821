"""Strategies for user records."""

from hypothesis import strategies as st

from features.user_record import Event, UserRecord
from schemas.click import ACTIONS

ids = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20) | st.sampled_from(
    ["👩‍🚀", "a|b", "a,b;c:d", "a b", "\u2028", "1"]
)
events = st.builds(
    Event,
    ts=st.integers(0, 10**13 - 1),
    action=st.sampled_from(ACTIONS),
    item_id=ids,
    value=st.none() | st.floats(allow_nan=False, allow_infinity=False),
)
records = st.builds(
    UserRecord,
    position=st.tuples(st.integers(0, 1_000), st.integers(0, 10**15 - 1)),
    first_ts=st.integers(0, 10**13 - 1),
    counts=st.tuples(*(st.integers(0, 2**40) for _ in ACTIONS)),
    events=st.lists(events, min_size=1, max_size=8).map(tuple),
)
