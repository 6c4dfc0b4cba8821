import random
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.co_occurrence import CoOccurrence
from features.neighbours import NeighbourTable
from runtime.config import NeighboursConfig
from schemas.state import Neighbours
from tests.builders import NOW_MS


def config_of(
    window: int = 20, step_decay: float = 0.9, shrinkage: float = 10.0, max_users: int = 100
) -> NeighboursConfig:
    return NeighboursConfig(
        window=window, step_decay=step_decay, shrinkage=shrinkage, size=100, interval_ms=1_000, max_users=max_users
    )


def learner_of(*visits: tuple[str, str], **settings_: float) -> CoOccurrence:
    learner = CoOccurrence(config_of(**settings_))  # type: ignore[arg-type]
    for place, (user_id, item_id) in enumerate(visits):
        learner.observe(user_id, item_id, NOW_MS + place)
    return learner


def similarities(learner: CoOccurrence, item_id: str, k: int = 100) -> dict[str, float]:
    return dict(learner.neighbours(item_id, k).neighbours)


def list_of(item_id: str, *neighbours: tuple[str, float], events: float = 1.0) -> Neighbours:
    return Neighbours(item_id=item_id, ts=NOW_MS, events=events, neighbours=neighbours)


def table_of(*lists: Neighbours) -> NeighbourTable:
    table = NeighbourTable()
    for each in lists:
        table.put(each)
    return table


class TestLearner:
    def test_one_user_who_comes_to_two_items_makes_them_neighbours_of_each_other(self) -> None:
        learner = learner_of(("u", "a"), ("u", "b"))
        assert similarities(learner, "a") == pytest.approx({"b": 1 / (1 + 10)})
        assert similarities(learner, "b") == pytest.approx({"a": 1 / (1 + 10)})

    def test_a_pair_weighs_less_with_every_step_between(self) -> None:
        learner = learner_of(("u", "a"), ("u", "b"), ("u", "c"), shrinkage=0.0)
        assert similarities(learner, "a") == pytest.approx({"b": 1.0, "c": 0.9})

    def test_the_sum_is_divided_by_the_root_of_both_event_counts(self) -> None:
        learner = learner_of(("u", "a"), ("u", "b"), ("v", "b"), ("w", "b"), ("x", "b"), shrinkage=0.0)
        assert similarities(learner, "a") == pytest.approx({"b": 1 / 2})

    def test_events_of_different_users_make_no_pair(self) -> None:
        learner = learner_of(("u", "a"), ("v", "b"))
        assert similarities(learner, "a") == {}

    def test_items_further_apart_than_the_window_make_no_pair(self) -> None:
        learner = learner_of(("u", "a"), ("u", "b"), ("u", "c"), ("u", "d"), window=2)
        assert set(similarities(learner, "a")) == {"b", "c"}

    def test_coming_back_to_an_item_of_the_window_adds_nothing_but_moves_it_to_the_front(self) -> None:
        learner = learner_of(("u", "a"), ("u", "b"), ("u", "a"), ("u", "a"), shrinkage=0.0)
        assert learner.neighbours("a", 10).events == 1.0
        assert similarities(learner, "a") == pytest.approx({"b": 1.0})
        learner.observe("u", "c", NOW_MS)
        assert similarities(learner, "c") == pytest.approx({"a": 1.0, "b": 0.9})

    def test_only_the_best_are_listed_best_first(self) -> None:
        learner = learner_of(("u", "a"), ("u", "b"), ("v", "a"), ("v", "c"), ("w", "a"), ("w", "c"))
        assert [name for name, _ in learner.neighbours("a", 1).neighbours] == ["c"]
        assert [name for name, _ in learner.neighbours("a", 2).neighbours] == ["c", "b"]

    def test_a_list_carries_the_items_event_count_and_latest_event_time(self) -> None:
        found = learner_of(("u", "a"), ("v", "a")).neighbours("a", 10)
        assert (found.events, found.ts) == (2.0, NOW_MS + 1)

    def test_the_least_recently_active_user_is_forgotten_first(self) -> None:
        learner = learner_of(("u", "a"), ("v", "b"), ("u", "c"), ("w", "d"), max_users=2)
        learner.observe("v", "e", NOW_MS)  # v was forgotten for w, so this is a first event
        assert similarities(learner, "e") == {}
        assert similarities(learner, "c") != {}

    def test_changed_items_are_named_once(self) -> None:
        learner = learner_of(("u", "a"), ("u", "b"), ("v", "c"))
        assert learner.take_changed() == ["a", "b", "c"]
        assert learner.take_changed() == []
        learner.observe("v", "b", NOW_MS)
        assert learner.take_changed() == ["b", "c"]

    def test_an_item_that_never_came_has_no_list(self) -> None:
        with pytest.raises(KeyError):
            learner_of(("u", "a")).neighbours("z", 10)

    @settings(max_examples=30)
    @given(seed=st.integers(0, 2**32), users=st.integers(1, 4), items=st.integers(2, 30), window=st.integers(1, 8))
    def test_it_counts_what_a_plain_loop_over_the_log_counts(
        self, seed: int, users: int, items: int, window: int
    ) -> None:
        draw = random.Random(seed)
        log = [(f"u{draw.randrange(users)}", f"i{draw.randrange(items)}") for _ in range(400)]
        learner = learner_of(*log, window=window, shrinkage=3.0)
        sums: dict[tuple[str, str], float] = defaultdict(float)
        events: dict[str, int] = defaultdict(int)
        windows: dict[str, list[str]] = defaultdict(list)
        for user_id, item_id in log:
            before = windows[user_id]
            if item_id in before:
                before.remove(item_id)
            else:
                events[item_id] += 1
                for steps, other in enumerate(reversed(before[-window:])):
                    sums[item_id, other] += 0.9**steps
                    sums[other, item_id] += 0.9**steps
            before.append(item_id)
            del before[:-window]
        for item_id in events:
            expected = {
                other: total / ((events[one] * events[other]) ** 0.5 + 3.0)
                for (one, other), total in sums.items()
                if one == item_id
            }
            assert similarities(learner, item_id) == pytest.approx(expected)


class TestTable:
    def test_a_candidate_sums_its_similarities_each_step_back_weighing_less(self) -> None:
        table = table_of(list_of("a", ("x", 0.5)), list_of("b", ("x", 0.25), ("y", 0.75)))
        scores = table.scores(("a", "b"), ("x", "y", "z"), cuts=(1, 2))
        assert scores.tolist() == [pytest.approx([0.5, 0.0, 0.0]), pytest.approx([0.5 + 0.8 * 0.25, 0.8 * 0.75, 0.0])]
        assert scores.dtype == "float32"

    def test_a_cut_beyond_the_last_item_takes_them_all(self) -> None:
        table = table_of(list_of("a", ("x", 0.5)))
        assert table.scores(("a",), ("x",), cuts=(0, 1, 10)).tolist() == [[0.0], [0.5], [0.5]]

    def test_nobody_is_near_to_nothing(self) -> None:
        table = table_of(list_of("a", ("x", 0.5)))
        assert table.nearest((), 10) == []
        assert table.nearest(("unknown",), 10) == []
        assert table.scores((), ("x",), cuts=(3,)).tolist() == [[0.0]]
        assert NeighbourTable().scores(("a",), ("x",), cuts=(3,)).tolist() == [[0.0]]

    def test_the_nearest_come_best_first_with_the_most_recent_item_behind_them(self) -> None:
        table = table_of(list_of("a", ("x", 0.125)), list_of("b", ("x", 0.5), ("y", 0.75)))
        near = table.nearest(("a", "b"), 10)
        assert [(each.item_id, each.source) for each in near] == [("y", "b"), ("x", "a")]
        assert [each.score for each in near] == pytest.approx([0.8 * 0.75, 0.125 + 0.8 * 0.5])

    @given(order=st.permutations(["p", "q", "r", "s"]))
    def test_equals_are_ordered_by_id_however_they_arrived(self, order: list[str]) -> None:
        table = table_of(
            *(list_of(name, (name, 0.5)) for name in order), list_of("a", *((name, 0.5) for name in order))
        )
        assert [each.item_id for each in table.nearest(("a",), 2)] == ["p", "q"]

    def test_a_new_list_replaces_the_old_one_and_a_dropped_one_is_gone(self) -> None:
        table = table_of(list_of("a", ("x", 0.5), events=1.0), list_of("a", ("y", 0.25), events=2.0))
        assert [each.item_id for each in table.nearest(("a",), 10)] == ["y"]
        assert table.events("a") == 2.0
        table.drop("a")
        table.drop("never there")
        assert "a" not in table
        assert table.nearest(("a",), 10) == []
        assert table.events("a") == 0.0

    def test_the_fallback_stands_in_only_for_lists_that_are_missing(self) -> None:
        live = table_of(list_of("a", ("x", 0.5)))
        fitted = table_of(list_of("a", ("wrong", 9.0)), list_of("b", ("y", 0.5), ("x", 0.25)))
        assert live.scores(("a", "b"), ("x", "y", "wrong"), (2,), fallback=fitted)[0].tolist() == pytest.approx(
            [0.5 + 0.8 * 0.25, 0.8 * 0.5, 0.0]
        )
        assert [each.item_id for each in live.nearest(("b",), 10, fallback=fitted)] == ["y", "x"]
