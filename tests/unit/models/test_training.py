from pathlib import Path

import pytest

from models.contract import History
from models.item_cf import ItemCf
from models.registry import TRAINABLE
from models.training import train
from runtime.artifact import follow
from runtime.clock import ManualClock
from runtime.config import load_config
from runtime.errors import ArtifactError, DataError
from stack.layout import Layout
from tests.builders import NOW_MS, click_of

HISTORY = History((click_of("u", "a"), click_of("u", "b"), click_of("v", "c")))


def test_a_trained_model_lies_where_its_pointer_says(tmp_path: Path) -> None:
    config = load_config(overrides={"state_dir": tmp_path})
    seen: list[str] = []
    pointer = train("cf", HISTORY, config, 0, ManualClock(NOW_MS), lambda _done, _total, what: seen.append(what))
    assert follow(pointer) == (tmp_path / "models" / "cf" / pointer.version).resolve()
    assert ItemCf.load(follow(pointer)).version == pointer.version
    assert pointer.version.startswith("20231114T221320000Z-")
    assert (pointer.model, pointer.ts, pointer.parent) == ("cf", NOW_MS, None)
    assert seen


def test_versions_sort_by_time_and_name_the_one_before_as_parent(tmp_path: Path) -> None:
    config, clock = load_config(overrides={"state_dir": tmp_path}), ManualClock(NOW_MS)
    first = train("popularity", HISTORY, config, 0, clock)
    clock.advance(1)
    second = train("popularity", HISTORY, config, 0, clock)
    assert second.version > first.version
    assert second.parent == first.version


@pytest.mark.parametrize("name", TRAINABLE)
def test_nothing_is_learnt_from_nothing(tmp_path: Path, name: str) -> None:
    config = load_config(overrides={"state_dir": tmp_path})
    with pytest.raises(DataError, match=f"no clicks to train {name} on"):
        train(name, History(()), config, 0, ManualClock(NOW_MS))
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_model_is_refused_with_the_names_that_exist(tmp_path: Path) -> None:
    config = load_config(overrides={"state_dir": tmp_path})
    with pytest.raises(ArtifactError, match="popularity, cf, gbdt_lr, deepfm"):
        train("gbdt", HISTORY, config, 0, ManualClock(NOW_MS))


def test_a_model_trained_before_the_first_start_does_not_make_the_state_folder_a_strangers(tmp_path: Path) -> None:
    train("popularity", HISTORY, load_config(overrides={"state_dir": tmp_path}), 0, ManualClock(NOW_MS))
    assert [folder.name for folder in Layout(tmp_path).present()] == ["models"]
    Layout(tmp_path).require_ours()
