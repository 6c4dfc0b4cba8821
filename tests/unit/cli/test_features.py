import msgspec
import pytest
from rich.console import Console
from typer.testing import CliRunner

from cli import features
from cli.feature_views import item_view, user_view
from cli.main import app
from features.item_statistics import Counts, ItemStatistics, pack_statistics
from features.memory_store import MemoryStore
from features.registry import REGISTRY
from features.store import Family, Write
from features.user_record import pack_record
from features.user_vector import pack_vector
from runtime.clock import ManualClock
from runtime.config import Config, load_config
from runtime.errors import ConfigError, HeadraceError, StoreUnavailable
from schemas.codec import encode
from schemas.item import Item
from schemas.user import User
from tests.builders import NOW_MS, record_of

RECORD = record_of("d1", "d2", "else\x1b[2J")


@pytest.fixture
def config() -> Config:
    return load_config()


@pytest.fixture
def store() -> MemoryStore:
    import numpy as np

    made = MemoryStore(600, ManualClock(NOW_MS))
    made.put_many(
        [
            Write(Family.USER.key("u"), pack_record(RECORD), *RECORD.position),
            Write(Family.PROFILE.key("u"), encode(User(user_id="u", ts=NOW_MS, attributes={"city": "[red]Ulm"})), 0, 1),
            Write(Family.EMBEDDING.key("u"), pack_vector(0, 2, "v7", np.array([0.6, 0.8], np.float32)).encode(), 0, 2),
            Write(Family.ITEM.key("d1"), encode(Item(item_id="d1", ts=NOW_MS, category="drama", price=3.0)), 0, 1),
            Write(Family.ITEM.key("d2"), encode(Item(item_id="d2", ts=NOW_MS, category="drama")), 0, 2),
            Write(
                Family.ITEM_STATISTICS.key("d1"),
                pack_statistics(ItemStatistics(Counts(impressions=80, clicks=15), 2.0, NOW_MS)),
                0,
                1,
            ),
        ]
    )
    return made


@pytest.fixture
def console() -> Console:
    import io

    return Console(file=io.StringIO(), width=120)


def shown(console: Console) -> str:
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_every_feature_is_listed() -> None:
    result = CliRunner().invoke(app, ["features", "list"])
    assert result.exit_code == 0
    for feature in REGISTRY:
        assert feature.name in result.output


def test_a_user_is_shown_with_events_vector_and_features(store: MemoryStore, config: Config, console: Console) -> None:
    features.print_user(console, user_view(store, config, "u", NOW_MS + 60_000), NOW_MS + 60_000)
    text = shown(console)
    for part in (
        "clicks.accepted[0]@2",
        "view 3",
        "city [red]Ulm",
        "2 numbers of norm 1.000; encoder v7",
        "2023-11-14 22:13:20",
        "60 s",
        "session_events",
        "drama",
    ):
        assert part in text
    assert "\x1b[2J" not in text


def test_the_document_of_a_user_has_what_its_features_say(store: MemoryStore, config: Config) -> None:
    view = msgspec.json.decode(encode(user_view(store, config, "u", NOW_MS)))
    assert view["record"]["counts"]["view"] == 3
    assert view["record"]["events"][0] == {"ts": NOW_MS - 2_000, "action": "view", "item_id": "d1", "value": None}
    assert view["features"]["session_dwell_ms"] == 2_000
    assert view["features"]["price_band"] == 2
    assert (view["features"]["category_streak"], view["features"]["top_category"]) == (0, "drama")
    assert "device" not in view["features"]


def test_an_item_is_shown_with_its_entry_and_rates(store: MemoryStore, config: Config, console: Console) -> None:
    view = item_view(store, config, "d1", NOW_MS)
    assert view["features"]["item_ctr"] == pytest.approx(0.16)
    features.print_item(console, view, NOW_MS)
    for part in ("no title; drama; price 3; available", "item_ctr", "0.16", "80, 15, 0, 0, 0"):
        assert part in shown(console)


def test_what_is_known_in_part_is_shown_in_part(store: MemoryStore, config: Config, console: Console) -> None:
    store.put_many([Write(Family.PROFILE.key("new"), encode(User(user_id="new", ts=NOW_MS)), 0, 9)])
    features.print_user(console, user_view(store, config, "new", NOW_MS), NOW_MS)
    features.print_item(console, item_view(store, config, "d2", NOW_MS), NOW_MS)
    assert "no events" in shown(console)
    assert "no statistics" in shown(console)


def test_an_unknown_id_is_said_to_be_unknown(store: MemoryStore, config: Config) -> None:
    with pytest.raises(HeadraceError, match="nothing is known of user 'who'"):
        user_view(store, config, "who", NOW_MS)
    with pytest.raises(HeadraceError, match="nothing is known of item 'what'"):
        item_view(store, config, "what", NOW_MS)


def test_what_cannot_be_read_is_named_with_the_remedy(store: MemoryStore, config: Config) -> None:
    store.put_many([Write(Family.USER.key("old"), b"1\t0\t0\t0\t1", 0, 1)])
    with pytest.raises(HeadraceError, match=r"record of user 'old' .* format '1'.*headrace features rebuild"):
        user_view(store, config, "old", NOW_MS)


@pytest.mark.parametrize("arguments", [[], ["--user", "u", "--item", "i"]])
def test_one_of_user_and_item_is_wanted(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, ["features", "show", *arguments])
    assert result.exit_code == 2
    assert "name one of them" in result.output


def test_bytes_that_are_no_text_are_refused() -> None:
    assert isinstance(CliRunner().invoke(app, ["features", "show", "--user", "a\udcff"]).exception, ConfigError)


def test_without_redis_it_says_so() -> None:
    result = CliRunner().invoke(app, ["--set", "redis.url=redis://127.0.0.1:1/0", "features", "show", "--item", "i"])
    assert isinstance(result.exception, StoreUnavailable)
