import numpy as np

from models.contract import History, no_progress
from models.deepfm.inputs import Inputs
from models.samples import Replay
from models.vocabulary import OUT_OF_VOCABULARY, USER, build_vocabulary
from runtime.config import load_config
from tests.builders import NOW_MS, click_of

VISITS = [(user_id, item_id) for user_id in "uvw" for item_id in "abcd"] + [
    ("x", "a"),
    ("x", "b"),
    ("x", "a"),
    ("x", "z"),
]
HISTORY = History(tuple(click_of(user_id, item_id, NOW_MS + place) for place, (user_id, item_id) in enumerate(VISITS)))


def test_a_moment_is_what_was_known_just_before_the_click() -> None:
    moments = list(Replay(HISTORY, load_config()).moments(start=12, every=1, progress=no_progress))
    # x comes to a as a stranger and to b after a; the second a was seen already, z is what nobody could propose.
    assert [(moment.index, moment.candidates[0]) for moment in moments] == [(12, "a"), (13, "b")]
    stranger, known = moments
    assert stranger.request.record is None
    assert set(stranger.candidates) == {"a", "b", "c", "d"}
    assert known.request.record is not None
    assert [event.item_id for event in known.request.record.events] == ["a"]
    assert set(known.candidates) == {"b", "c", "d"}


def test_hidden_actions_are_no_moments_and_teach_nothing() -> None:
    history = History((*HISTORY.clicks, click_of("y", "a", NOW_MS + 99, action="impression")))
    moments = Replay(history, load_config()).moments(start=len(HISTORY.clicks), every=1, progress=no_progress)
    assert list(moments) == []


def test_forgetting_hides_the_same_user_from_a_whole_group_and_never_from_all() -> None:
    inputs = Inputs(build_vocabulary(HISTORY), ())
    rows = np.ones((200, 5, inputs.width), np.float32)
    inputs.forget(rows, np.random.default_rng(0))
    users = rows[:, :, inputs.sparse.index(USER)]
    assert (users == users[:, :1]).all()
    assert 0.4 < (users == OUT_OF_VOCABULARY).mean() < 0.6
    others = rows[:, :, 1 : len(inputs.sparse)]
    assert 0.05 < (others == OUT_OF_VOCABULARY).mean() < 0.15
