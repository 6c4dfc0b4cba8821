"""The jobs `item-statistics` and `leaderboards` on a real Kafka and Flink: clicks and catalogue in, numbers out."""

import math
import os
import random
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
import pytest

from features.forward_decay import weight
from features.item_statistics import WINDOWS, Counts, ItemStatistics, parse_statistics
from features.item_statistics_builder import ItemStatisticsBuilder
from features.leaderboard import LeaderboardTable
from features.leaderboard_sql import DAMPING, EPOCH_HALF_LIVES, TRENDING_SHARE
from jobs import item_statistics, leaderboards
from jobs.cluster import list_jobs
from jobs.submit import records_of
from runtime.clock import SystemClock
from runtime.config import CONFIG_VARIABLE, Config, write_config
from runtime.kafka.clients import producer, reader
from runtime.kafka.reading import assign_from_beginning, read_to_end
from runtime.kafka.sending import Deliveries, send
from runtime.kafka.topics import create_topics
from schemas.click import ACTIONS, Click
from schemas.codec import decode, encode
from schemas.item import Item
from schemas.state import Leaderboard
from schemas.topics import CLICKS_ACCEPTED, FEATURES_ITEM, ITEMS, LEADERBOARDS, TOPICS
from stack.control import PARTS_ONLY, down, up
from stack.flink import flink_environment, flink_overview
from stack.layout import Layout

pytestmark = pytest.mark.stack

Eventually = Callable[..., None]

NOW_MS = SystemClock().now_ms()
HALF_LIFE_MS = 24 * 60_000
SHORT_HALF_LIFE_MS = HALF_LIFE_MS // TRENDING_SHARE
DAY_MS = 86_400_000


class ItemJobs:
    """A running Kafka and Flink, and what went into and came out of the two jobs."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.clicks: list[tuple[int, Click]] = []
        self._producer = producer(config.kafka)

    def submit(self, *names: str, parallelism: int) -> None:
        """Start programs and return once the cluster has accepted them."""
        layout = Layout.of(self.config)
        flink = self.config.flink.model_copy(update={"parallelism": parallelism})
        file = layout.run / "submitted.toml"
        write_config(self.config.model_copy(update={"flink": flink}), file)
        environment = os.environ | flink_environment(layout) | {CONFIG_VARIABLE: str(file)}
        subprocess.run([sys.executable, "-m", "jobs.submit", *names], env=environment, check=True, timeout=180)

    def click(self, item_id: str, ts: int = NOW_MS, partition: int = 0, **rest: object) -> None:
        """Queue one accepted click; `flush` sends what is queued."""
        fields: dict[str, object] = {"user_id": "u", "action": "click"} | rest
        click = Click(event_id=f"e{len(self.clicks)}", ts=ts, item_id=item_id, **fields)  # type: ignore[arg-type]
        self.clicks.append((partition, click))
        send(self._producer, CLICKS_ACCEPTED.name, encode(click), click.user_id, partition=partition)

    def item(self, item_id: str, category: str | None = None, *, available: bool = True) -> None:
        """Put one item into the catalogue."""
        item = Item(item_id=item_id, ts=NOW_MS, category=category, available=available)
        self.publish_items((item_id, encode(item)))

    def publish_items(self, *messages: tuple[bytes | str, bytes | None]) -> None:
        """Write messages to `items` as they are, all to one partition, so that their order is known."""
        deliveries = Deliveries()
        for key, value in messages:
            send(self._producer, ITEMS.name, value, key, partition=0, on_delivery=deliveries.note)
        deliveries.confirm(self._producer)

    def flush(self) -> None:
        """Send every queued click."""
        assert self._producer.flush(60) == 0

    def statistics(self) -> dict[str, ItemStatistics]:
        """The last row of every item."""
        return {item_id: parse_statistics(packed) for item_id, packed in self._last(FEATURES_ITEM.name).items()}

    def boards(self) -> dict[str, list[str]]:
        """The items of every board, best first."""
        boards = {name: decode(value, Leaderboard) for name, value in self._last(LEADERBOARDS.name).items()}
        table = LeaderboardTable()
        for board in boards.values():
            table.put(board)
        return {name: [item_id for item_id, _ in table.top(1_000, name)] for name in boards}

    def board(self, name: str) -> dict[str, float]:
        """The scores of one board, as readers see them."""
        table = LeaderboardTable()
        table.put(decode(self._last(LEADERBOARDS.name)[name], Leaderboard))
        return dict(table.top(1_000, name))

    def restarts(self, name: str) -> int:
        """How often the job of this name has failed and begun again."""
        (job,) = (each for each in list_jobs(self.config.flink) or () if each.name == name and each.running)
        metrics = flink_overview(self.config.flink, f"/jobs/{job.jid}/metrics?get=numRestarts")
        return int(metrics[0]["value"]) if metrics else -1

    def _last(self, topic: str) -> Mapping[str, bytes]:
        consumer = reader(self.config.kafka)
        last: dict[str, bytes] = {}
        try:
            for message in read_to_end(consumer, assign_from_beginning(consumer, [topic])):
                key, value = (message.key() or b"").decode(), message.value()
                if value is None:
                    last.pop(key, None)
                else:
                    last[key] = value
        finally:
            consumer.close()
        return last


BACKLOG = 20_000


def fill_backlog(jobs: ItemJobs) -> None:
    """A day of clicks, written one partition after the other, out of order by up to the lateness; the last partition
    ends early, and each ends with an event that closes every window."""
    chance = random.Random(1)
    lateness_ms = jobs.config.item_statistics.max_lateness_ms
    for partition, count in enumerate((BACKLOG // 3, BACKLOG // 3, BACKLOG // 3 - 50, 50)):
        for place in range(count):
            ts = NOW_MS - 3 * DAY_MS + place * DAY_MS // BACKLOG * 3 - chance.randrange(lateness_ms)
            jobs.click(f"i{chance.randrange(40)}", ts, partition, action=chance.choice(ACTIONS))
        jobs.click("closing", NOW_MS - DAY_MS + partition, partition, action="hide")
    jobs.flush()


@pytest.fixture(scope="module")
def jobs(new_config: Callable[..., Config]) -> Iterator[ItemJobs]:
    config = new_config(
        stack={"parts": ["kafka", "flink"]},
        # Short: a day is two epochs and a half of the trending board.
        leaderboard={"half_life_ms": HALF_LIFE_MS, "interval_ms": 200},
    )
    try:
        up(config, PARTS_ONLY)
        create_topics(config.kafka, TOPICS)
        jobs = ItemJobs(config)
        jobs.submit(leaderboards.JOB_NAME, parallelism=2)
        yield jobs
    finally:
        down(config, wipe=True)


def same(got: ItemStatistics | None, wanted: ItemStatistics) -> bool:
    """Everything that is an integer is equal; the one sum of floats may have been added up in another order."""
    return (
        got is not None
        and (got.lifetime, got.windows, got.landmark_ms) == (wanted.lifetime, wanted.windows, wanted.landmark_ms)
        and math.isclose(got.popularity, wanted.popularity, rel_tol=1e-9)
    )


def test_one_click_makes_a_board(jobs: ItemJobs, eventually: Eventually) -> None:
    jobs.click("first", NOW_MS - 3 * DAY_MS, partition=2)
    jobs.flush()
    eventually(lambda: jobs.boards() == {"global": ["first"], "trending": ["first"]}, "the boards have the item")


def test_a_backlog_over_partitions_of_different_length_loses_no_event_of_any_window(
    jobs: ItemJobs, eventually: Eventually
) -> None:
    fill_backlog(jobs)
    jobs.submit(item_statistics.JOB_NAME, parallelism=2)
    landmark_ms = records_of(jobs.config).read(item_statistics.JOB_NAME).landmark_ms
    builder = ItemStatisticsBuilder(HALF_LIFE_MS, landmark_ms, jobs.config.item_statistics.max_lateness_ms)
    for partition, click in jobs.clicks:
        builder.add(click, partition)
    wanted = builder.build(builder.watermark_ms)
    assert len(wanted) == 42
    assert all(each.windows[-1].counts != Counts() for item_id, each in wanted.items() if item_id != "closing")

    def equal() -> bool:
        got = jobs.statistics()
        return all(same(got.get(item_id), each) for item_id, each in wanted.items())

    eventually(equal, "every item has the statistics of a recount")
    assert sum(each.lifetime.impressions for each in jobs.statistics().values()) == sum(
        click.action == "impression" for _, click in jobs.clicks
    )


def test_what_happened_shows_in_the_lifetime_counts_before_any_window_has_closed(
    jobs: ItemJobs, eventually: Eventually
) -> None:
    jobs.click("fresh", action="impression")
    jobs.click("fresh", action="purchase")
    jobs.flush()
    eventually(
        lambda: "fresh" in jobs.statistics() and jobs.statistics()["fresh"].lifetime.purchases == 1,
        "the new item has a row",
    )
    fresh = jobs.statistics()["fresh"]
    assert fresh.lifetime == Counts(impressions=1, purchases=1, interactions=1)
    assert all(fresh.counts_at(window, NOW_MS, 0) == Counts() for window in WINDOWS)


def test_silent_partitions_hold_no_window_back(jobs: ItemJobs, eventually: Eventually) -> None:
    jobs.click("later", NOW_MS + 2 * DAY_MS, partition=0, action="hide")
    jobs.flush()

    def closed() -> bool:
        last = jobs.statistics()["fresh"].windows
        return all(each.counts == Counts(impressions=1, purchases=1, interactions=1) for each in last)

    eventually(closed, "the other partitions count as idle, and every window has closed")


def test_an_item_that_was_only_hidden_has_a_row_of_zeros(jobs: ItemJobs) -> None:
    assert jobs.statistics()["closing"].lifetime == Counts()
    assert jobs.statistics()["closing"].popularity == 0.0


def decayed(ts: Sequence[int], half_life_ms: int) -> float:
    """The binary logarithm of a forward-decayed sum, relative to the last event."""
    return math.log2(sum(weight(each, max(ts), half_life_ms) for each in ts)) + max(ts) / half_life_ms


def test_the_boards_order_items_by_their_decayed_sums_across_epochs(jobs: ItemJobs, eventually: Eventually) -> None:
    assert DAY_MS > 2 * EPOCH_HALF_LIVES * SHORT_HALF_LIFE_MS
    happened: dict[str, list[int]] = defaultdict(list)
    for _, click in jobs.clicks:
        if click.action not in ("impression", "hide"):
            happened[click.item_id].append(click.ts)
    long = {item_id: decayed(ts, HALF_LIFE_MS) for item_id, ts in happened.items()}
    trend = {item_id: decayed(ts, SHORT_HALF_LIFE_MS) - DAMPING * long[item_id] for item_id, ts in happened.items()}

    def agrees(name: str, logarithms: Mapping[str, float]) -> bool:
        best = max(logarithms.values())
        wanted = {item_id: 2.0 ** (each - best) for item_id, each in logarithms.items()}
        return jobs.board(name) == pytest.approx(wanted, rel=1e-3, abs=1e-12)

    eventually(lambda: {"global", "trending"} <= jobs.boards().keys(), "there are boards")
    eventually(lambda: agrees("global", long), "popularity equals a recount")
    eventually(lambda: agrees("trending", trend), "trending equals a recount")


def test_a_surface_has_its_board_whatever_producers_put_in_its_place(jobs: ItemJobs, eventually: Eventually) -> None:
    contexts: list[object] = [None, {}, {"surface": None}, {"surface": ""}, {"surface": "x" * 65}, {"device": "tv"}]
    for context in [*contexts, {"surface": "home"}, {"surface": 7}, {"surface": True}]:
        jobs.click("placed", context=context)
    jobs.flush()
    eventually(lambda: {"surface:home", "surface:7", "surface:true"} <= jobs.boards().keys(), "the surfaces' boards")
    assert {name for name in jobs.boards() if name.startswith("surface:")} == {
        "surface:home",
        "surface:7",
        "surface:true",
    }
    assert jobs.boards()["surface:home"] == ["placed"]
    assert "placed" in jobs.boards()["global"]


def test_items_that_change_vanish_or_return_move_between_boards(jobs: ItemJobs, eventually: Eventually) -> None:
    def on(*names: str) -> bool:
        boards = jobs.boards()
        wanted = {name: name in names for name in ("global", "trending", "surface:shop", "category:a", "category:b")}
        return {name: "moving" in boards.get(name, []) for name in wanted} == wanted

    def click() -> None:
        jobs.click("moving", context={"surface": "shop"})
        jobs.flush()

    click()
    everywhere = ("global", "trending", "surface:shop")
    eventually(lambda: on(*everywhere), "an item outside the catalogue is on every board but a category's")
    jobs.item("moving", "a")
    eventually(lambda: on(*everywhere, "category:a"), "it has a category")
    jobs.item("moving", "b")
    click()
    eventually(lambda: on(*everywhere, "category:b"), "it has another category")
    jobs.item("moving", "b", available=False)
    eventually(on, "it is not available")
    click()
    jobs.item("moving")
    eventually(lambda: on(*everywhere), "it is back, without a category")
    jobs.publish_items(("moving", None))
    eventually(on, "it was deleted")
    assert "category:a" not in jobs.boards()
    jobs.item("moving", "a")
    eventually(lambda: on(*everywhere, "category:a"), "it is there again")


def test_what_is_no_item_changes_nothing_and_stops_nothing(jobs: ItemJobs, eventually: Eventually) -> None:
    jobs.click("known")
    jobs.flush()
    jobs.item("known", "kept")
    junk = [b"", b"not json", b"[]", b"17", b'"known"', b"null", b"{", b"\xff\xfe", b'{"item_id": "other"}', b"\0"]
    strange = {"item_id": "strange", "category": {"a": 1}, "available": "perhaps", "tags": 3}
    jobs.publish_items(
        *((key, value) for value in junk for key in ("known", "", b"\xff", "nobody")),
        ("other", encode(Item(item_id="known", ts=NOW_MS, category="lost"))),
        ("", None),
        ("strange", msgspec.json.encode(strange)),
    )
    jobs.click("strange")
    jobs.flush()
    jobs.item("sentinel", "after")
    jobs.click("sentinel")
    jobs.flush()
    eventually(lambda: jobs.boards().get("category:after") == ["sentinel"], "the job goes on")
    boards = jobs.boards()
    assert boards["category:kept"] == ["known"]
    assert "category:lost" not in boards
    assert {"known", "strange"} <= set(boards["global"])
    eventually(lambda: jobs.restarts(leaderboards.JOB_NAME) == 0, "the job never failed")


def test_one_click_is_enough_where_most_subtasks_have_nothing(
    new_config: Callable[..., Config], eventually: Eventually
) -> None:
    config = new_config(stack={"parts": ["kafka", "flink"]}, flink={"parallelism": 4})
    try:
        up(config, PARTS_ONLY)
        create_topics(config.kafka, TOPICS)
        jobs = ItemJobs(config)
        jobs.submit(leaderboards.JOB_NAME, item_statistics.JOB_NAME, parallelism=4)
        jobs.click("only")
        jobs.flush()
        eventually(lambda: jobs.boards() == {"global": ["only"], "trending": ["only"]}, "the boards have the item")
        eventually(lambda: jobs.statistics().keys() == {"only"}, "the item has its statistics")
    finally:
        down(config, wipe=True)
