"""Every bad click through real Kafka and Flink: dead-lettered once, and the good ones around it all counted."""

from collections import Counter

import pytest

from features.leaderboard import LeaderboardTable
from features.user_record import record_position
from jobs.cluster import list_jobs
from jobs.gate_progress import source_of
from runtime.config import Config
from runtime.dead_letters import read_dead_letter
from runtime.kafka.reading import position_of
from schemas.codec import decode, encode
from schemas.state import Leaderboard
from schemas.topics import CLICKS, CLICKS_ACCEPTED, DEAD_LETTERS, FEATURES_USER, LEADERBOARDS
from stack.control import read_status
from tests.builders import click_of
from tests.conftest import Eventually
from tests.corpus import ACCEPTED_CLICKS, REJECTED_CLICKS
from tests.e2e.application import Application, Position

pytestmark = pytest.mark.stack


def test_bad_clicks_are_dead_lettered_once_and_stop_nothing(
    application: Application, stack: Config, eventually: Eventually
) -> None:
    now_ms = application.now_ms()
    bad = [(case.key, case.make(now_ms)) for case in REJECTED_CLICKS]
    odd = [(case.key, case.make(now_ms)) for case in ACCEPTED_CLICKS]
    neighbour = application.new("good")
    good = [(neighbour, encode(click_of(neighbour, f"g{n}", now_ms))) for n in range(len(bad) + 1)]
    jobs_before = {job.jid for job in list_jobs(stack.flink) or ()}
    processes_before = {service.name: service.pid for service in read_status(stack).services}

    # A good one before and after each bad one.
    mixed = [message for pair in zip(good, bad, strict=False) for message in pair]
    positions = application.produce(CLICKS.name, [*mixed, good[-1], *odd])

    bad_at = dict(zip(positions[1 : 2 * len(bad) : 2], REJECTED_CLICKS, strict=True))
    good_at = set(positions) - set(bad_at)

    def letters() -> list[tuple[Position, str, bytes | None]]:
        every = (read_dead_letter(each) for each in application.read(DEAD_LETTERS.name))
        return [
            ((letter.source_partition, letter.source_offset), letter.code, letter.original)
            for letter in every
            if letter.source_topic == CLICKS.name and (letter.source_partition, letter.source_offset) in bad_at
        ]

    def accepted() -> dict[Position, Position]:
        every = ((source_of(each), position_of(each)) for each in application.read(CLICKS_ACCEPTED.name))
        return {
            found[0]: (partition, offset) for found, (_, partition, offset) in every if found and found[0] in good_at
        }

    def records() -> set[Position]:
        return {record_position(each.value() or b"") for each in application.read(FEATURES_USER.name)}

    eventually(lambda: len(letters()) >= len(bad_at), "every bad click is a dead letter")
    eventually(lambda: len(accepted()) == len(good_at), "every good click is accepted")
    eventually(lambda: set(accepted().values()) <= records(), "every good click has its record")

    originals = dict(zip(bad_at, (value for _, value in bad), strict=True))
    assert Counter(position for position, _, _ in letters()) == dict.fromkeys(bad_at, 1)
    assert {position: code for position, code, _ in letters()} == {at: case.code for at, case in bad_at.items()}
    assert {position: original for position, _, original in letters()} == originals
    # Nothing was restarted on the way.
    assert {job.jid for job in list_jobs(stack.flink) or () if job.running} == jobs_before
    assert {service.name: service.pid for service in read_status(stack).services} == processes_before


def test_a_click_under_a_foreign_key_is_keyed_by_its_user(application: Application, eventually: Eventually) -> None:
    users = [application.new("user") for _ in range(3)]
    keys: list[bytes | None] = [None, b"", b"somebody-else"]
    clicks = [encode(click_of(user, "x", application.now_ms())) for user in users]
    application.produce(CLICKS.name, list(zip(keys, clicks, strict=True)))
    wanted = {user.encode() for user in users}
    eventually(
        lambda: {each.key() for each in application.read(CLICKS_ACCEPTED.name)} >= wanted, "all three under their user"
    )


def test_an_event_from_the_future_and_silent_partitions_do_not_hold_the_leaderboard_back(
    application: Application, eventually: Eventually
) -> None:
    user, item, other = application.new("user"), application.new("item"), application.new("other")
    # Past the gate, which would refuse it, so that Flink does see the future.
    ahead = click_of(user, other, application.now_ms() + 2 * 3_600_000)
    application.produce(CLICKS_ACCEPTED.name, [(user, encode(ahead))])
    # All under one key: every other partition is silent.
    clicks = [click_of(user, item, application.now_ms()) for _ in range(500)]
    application.produce(CLICKS.name, [(user, encode(click)) for click in clicks])

    def on_the_board() -> bool:
        table = LeaderboardTable()
        for message in application.read(LEADERBOARDS.name):
            table.put(decode(message.value(), Leaderboard))
        return table.score(item) > 0.0 and table.score(other) > 0.0

    eventually(on_the_board, "both items are on the leaderboard")
