"""Every feature by name: what it means, of what type and shape it is, and what it is made of.

    python -m features.registry [--check]

writes docs/features_reference.md from it, or says that the file is out of date. The values are computed by
`features/user_features.py`, `features/item_features.py` and `features/candidate.py`; tests hold names, types, shapes
and defaults together.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from schemas.click import ACTIONS

FILE = Path(__file__).resolve().parent.parent / "docs" / "features_reference.md"

Entity = Literal["user", "item", "candidate"]


@dataclass(frozen=True, slots=True)
class Feature:
    """One feature of a user, of an item, or of a candidate for a user.

    `shape` is that of one entity's value, () for a single one. `default` is the value for a user without a record, an
    item to which nothing happened, or a candidate of which nothing is known. `source` names topics and keys.
    """

    of: Entity
    name: str
    meaning: str
    dtype: Literal["int64", "float32", "float64", "str"]
    unit: str
    default: str
    source: str
    shape: tuple[int, ...] | tuple[str] = ()


_RECORD = "features.user"
_RECORD_AND_ITEMS = "features.user, items"
_ACTIONS = f"in the order {', '.join(ACTIONS)}"
_DELIBERATE = "every action but impression and hide"


def _user(
    name: str,
    meaning: str,
    dtype: Literal["int64", "float32", "float64", "str"],
    unit: str,
    default: str,
    source: str = _RECORD,
    shape: tuple[int, ...] | tuple[str] = (),
) -> Feature:
    return Feature("user", name, meaning, dtype, unit, default, source, shape)


def _candidate(name: str, meaning: str, unit: str, source: str, default: str = "0.0") -> Feature:
    return Feature("candidate", name, meaning, "float32", unit, default, source)


def _item(period: str, suffix: str) -> tuple[Feature, ...]:
    counted = "impressions, clicks (and views), carts, purchases and interactions"
    return (
        Feature("item", f"item_counts{suffix}", f"{counted} {period}", "int64", "events", "0", "features.item", (5,)),
        Feature(
            "item",
            f"item_ctr{suffix}",
            f"clicks per impression {period}, smoothed towards item_statistics.prior_ctr",
            "float64",
            "ratio",
            "item_statistics.prior_ctr",
            "features.item",
        ),
    )


def _cf(k: int) -> Feature:
    items = "item" if k == 1 else f"{k} items"
    meaning = f"log of the recency-weighted similarity to the user's last {items}"
    return _candidate(f"cf_last_{k}", meaning, "log similarity", "features.user, neighbours", "-6.91")


def _cf_place(k: int) -> Feature:
    return _candidate(
        f"cf_place_{k}",
        f"place among the candidates by cf_last_{k}",
        "log place",
        "features.user, neighbours",
        "by ties",
    )


REGISTRY: tuple[Feature, ...] = (
    _user("activity", "events ever", "int64", "events", "0"),
    _user("action_counts", f"events ever per action, {_ACTIONS}", "int64", "events", "0", shape=(7,)),
    _user(
        "action_shares", f"the share of each action in all events, {_ACTIONS}", "float32", "ratio", "0.0", shape=(7,)
    ),
    _user("recency_ms", "time since the last event", "int64", "ms", "-1"),
    _user("tenure_ms", "time since the first event ever", "int64", "ms", "-1"),
    _user("events_5m", "kept events of the last 5 minutes", "int64", "events", "0"),
    _user("events_1h", "kept events of the last hour", "int64", "events", "0"),
    _user("events_24h", "kept events of the last 24 hours", "int64", "events", "0"),
    _user(
        "session_id", "ts of the current session's first event, 0 where the user is in none", "int64", "epoch ms", "0"
    ),
    _user("session_events", "events of the current session", "int64", "events", "0"),
    _user("session_dwell_ms", "time from the current session's first event to its last", "int64", "ms", "0"),
    _user(
        "category_streak",
        f"how many of the last deliberate events ({_DELIBERATE}) in a row share the last one's category",
        "int64",
        "events",
        "0",
        _RECORD_AND_ITEMS,
    ),
    _user("streak_category", "that category", "str", "category", "''", _RECORD_AND_ITEMS),
    _user(
        "top_category",
        "the most frequent category of the kept deliberate events, the most recent of equals",
        "str",
        "category",
        "''",
        _RECORD_AND_ITEMS,
    ),
    _user(
        "top_category_share",
        "its share in those of them that have a category",
        "float32",
        "ratio",
        "0.0",
        _RECORD_AND_ITEMS,
    ),
    _user(
        "price_band",
        "whole part of the mean of log2(1 + price) over the kept deliberate events; band b is of prices from 2^b - 1",
        "int64",
        "band",
        "-1",
        _RECORD_AND_ITEMS,
    ),
    _user(
        "last_items",
        "items of the last deliberate events, most recent first, each once",
        "str",
        "item_id",
        "''",
        shape=(3,),
    ),
    _user("hour", "hour of now, UTC", "int64", "hour, 0 to 23", "of now", "now"),
    _user("weekday", "weekday of now, UTC", "int64", "day, Monday is 0", "of now", "now"),
    _user("device", "context.device of the request", "str", "as sent", "''", "recommend.requests"),
    _user(
        "surface", "surface of the request, or else its context.surface", "str", "as sent", "''", "recommend.requests"
    ),
    _user(
        "user_vector",
        "decayed mean of the vectors of the items last come to, of unit length and embedding.size numbers",
        "float32",
        "cosine space",
        "none",
        "embeddings.user",
        ("size",),
    ),
    *_item("ever", ""),
    *_item("in the last 5 minutes", "_5m"),
    *_item("in the last hour", "_1h"),
    *_item("in the last 24 hours", "_24h"),
    Feature(
        "item",
        "item_popularity",
        "interactions, each counting half after leaderboard.half_life_ms",
        "float64",
        "events",
        "0.0",
        "features.item",
    ),
    *(_cf(k) for k in (1, 3, 10, 32)),
    *(_cf_place(k) for k in (3, 10, 32)),
    _candidate("popularity", "score on the global leaderboard", "of the best item's", "leaderboards"),
    _candidate("popularity_place", "place among the candidates by popularity", "log place", "leaderboards", "by ties"),
    _candidate("log_events", "log of the events that the neighbour learner counted", "log events", "neighbours"),
    _candidate("log_events_place", "place among the candidates by log_events", "log place", "neighbours", "by ties"),
    _candidate(
        "log_events_gap",
        "log_events less its mean over the user's last 10 items",
        "log events",
        "features.user, neighbours",
        "less that mean",
    ),
    _candidate("year", "attributes.year, from 1990", "decades", "items"),
    _candidate(
        "year_gap", "distance of its year to the mean of the user's last 10 items", "decades", _RECORD_AND_ITEMS
    ),
    _candidate(
        "tag_affinity",
        "the share of the user's last 10 items that bear a tag, averaged over the candidate's tags",
        "ratio",
        _RECORD_AND_ITEMS,
    ),
    _candidate(
        "streak_match", "log(1 + category_streak) where the candidate goes on with it", "log events", _RECORD_AND_ITEMS
    ),
    _candidate("user_log_events", "log(1 + activity)", "log events", _RECORD),
)


def features_of(entity: Entity) -> tuple[Feature, ...]:
    """Return the features of one kind of entity, in the order of the registry."""
    return tuple(feature for feature in REGISTRY if feature.of == entity)


def shown_shape(feature: Feature) -> str:
    """Return the shape as documentation and the command line show it."""
    return " x ".join(map(str, feature.shape)) or "1"


def reference() -> str:
    """Return docs/features_reference.md."""
    parts = ["# Feature reference", "", "Written by `python -m features.registry` from `features/registry.py`."]
    titles: dict[Entity, str] = {"user": "Of a user", "item": "Of an item", "candidate": "Of a candidate for a user"}
    for entity, title in titles.items():
        parts += ["", f"## {title}", "", "| name | meaning | dtype | shape | unit | default | source |"]
        parts.append("| --- | --- | --- | --- | --- | --- | --- |")
        for each in features_of(entity):
            cells = (
                f"`{each.name}`",
                each.meaning,
                each.dtype,
                shown_shape(each),
                each.unit,
                each.default,
                each.source,
            )
            parts.append(f"| {' | '.join(cells)} |")
    return "\n".join(parts) + "\n"


def main(arguments: list[str]) -> int:
    """Write the file, or with --check say whether it is out of date; return the exit status."""
    wanted = reference()
    if arguments == ["--check"]:
        if not FILE.is_file() or FILE.read_text() != wanted:
            print(f"stale: {FILE.name}; run `python -m features.registry`")  # noqa: T201
            return 1
        return 0
    FILE.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
