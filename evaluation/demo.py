"""The demo's steps against a running stack: load the history, wait for the features, run live, balance the books."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from evaluation.balance import take_balance
from evaluation.live import Answered, LiveRun, Progress
from evaluation.protocol import Audience, Plan
from evaluation.recount import miscounted, recount
from evaluation.report import Report, rows
from features.redis_store import PATIENT_TIMEOUT_MS, RedisStore
from jobs.cluster import list_jobs
from models.registry import NAMES
from runtime.clock import Clock
from runtime.config import Config, KafkaConfig
from runtime.errors import KafkaError, StoreUnavailable
from runtime.kafka.clients import reader
from runtime.kafka.reading import assign_at_end
from runtime.kafka.sending import send_all
from runtime.kafka.topics import existing_topics
from schemas.codec import encode
from schemas.item import Item
from schemas.recommendation import Recommendation
from schemas.request import Request
from schemas.state import ModelPointer
from schemas.topics import CLICKS, CLICKS_ACCEPTED, ITEMS, RECOMMENDATIONS, USERS
from schemas.user import User
from serving.client import recommendation_client

PROBE_TIMEOUT_MS = 2_000
PROBE_PAUSE_S = 0.25
PROBE_FOR_S = 120


def require_empty_topics(config: KafkaConfig) -> None:
    """Raise `KafkaError` unless the stream is empty or not there: books that start in the middle never balance."""
    consumer = reader(config)
    try:
        existing = existing_topics(consumer)
        counted = [topic.name for topic in (CLICKS, CLICKS_ACCEPTED, RECOMMENDATIONS) if topic.name in existing]
        spans = assign_at_end(consumer, counted)
    finally:
        consumer.close()
    filled = sorted({span.topic for span in spans if span.end > 0})
    if filled:
        raise KafkaError(
            f"the demo needs empty topics, but {', '.join(filled)} hold messages; use another Kafka for it"
        )


def produce_history(config: KafkaConfig, plan: Plan, items: Sequence[Item], users: Sequence[User]) -> None:
    """Send the catalogue, the profiles and the history, and return when all of it is acknowledged."""
    messages: Sequence[tuple[str, str, Any]] = (
        *((ITEMS.name, item.item_id, item) for item in items),
        *((USERS.name, user.user_id, user) for user in users),
        *((CLICKS.name, click.user_id, click) for click in plan.history),
    )
    send_all(config, ((topic, key, encode(message)) for topic, key, message in messages), linger_ms=5)


def wait_for_answer(config: KafkaConfig, clock: Clock, user_id: str, model: str | None, version: str | None) -> int:
    """Ask until an answer holds items and, if given, comes of this model version; return how often it took.

    Raises `KafkaError` if there is none within two minutes.
    """
    until_ms = clock.monotonic_ms() + PROBE_FOR_S * 1000
    asked = 0
    answer: Recommendation | None = None
    with recommendation_client(config, clock) as client:
        while clock.monotonic_ms() < until_ms:
            asked += 1
            probe = Request(
                request_id=f"probe-{uuid.uuid4()}",
                ts=clock.now_ms(),
                user_id=user_id,
                k=1,
                timeout_ms=PROBE_TIMEOUT_MS,
                model=model,
            )
            answer = client.ask(probe, PROBE_TIMEOUT_MS)
            if answer is not None and answer.items and version in {None, answer.model_version}:
                return asked
            client.receive(PROBE_PAUSE_S)
    raise KafkaError(f"no answer of {model or 'any model'} {version or ''} within {PROBE_FOR_S} s; the last: {answer}")


def wait_for_models(config: KafkaConfig, clock: Clock, user_id: str, pointers: Iterable[ModelPointer]) -> int:
    """Ask until answers come of each ranker that `pointers` name; return how often it took.

    Item vectors are no ranker: nothing answers with them. Raises `KafkaError` as `wait_for_answer` does.
    """
    rankers = [pointer for pointer in pointers if pointer.model in NAMES]
    return sum(wait_for_answer(config, clock, user_id, each.model, each.version) for each in rankers)


def run_live(config: Config, plan: Plan, items: Sequence[Item], clock: Clock, progress: Progress) -> Sequence[Answered]:
    """Run the live part on top of the history and return every answered request."""
    audience = Audience([item.item_id for item in items])
    for click in plan.history:
        audience.saw(click.user_id, click.item_id)
    return LiveRun(config.kafka, plan, audience, clock, run_id=f"demo-{uuid.uuid4().hex[:8]}").run(progress)


def make_report(
    config: Config,
    plan: Plan,
    answered: Sequence[Answered],
    clock: Clock,
    *,
    records: int,
    probes: int,
    seconds: Mapping[str, float],
    versions: Mapping[str, str],
) -> Report:
    """Count the topics' content and put everything into the report; `probes` are requests beside the plan's."""
    balance = take_balance(config.kafka)
    counted = recount(config)
    store = RedisStore(config.redis, timeout_ms=PATIENT_TIMEOUT_MS)
    try:
        wrong = len(miscounted(counted, store, clock))
    except StoreUnavailable:
        wrong = counted.entities
    finally:
        store.close()
    tiers, activity, overall = rows(answered)
    return Report(
        requests=plan.requests + probes,
        answers=balance.answers,
        duplicates=balance.duplicates,
        events=len(plan.history) + len(plan.live),
        records=records,
        recounted=counted.entities,
        miscounted=wrong,
        dead_letters=dict(balance.dead_letters),
        tiers=tiers,
        activity=activity,
        all=overall,
        first_recommendation_s=round(seconds["first_recommendation"], 1),
        live_s=round(seconds["live"], 1),
        total_s=round(seconds["total"], 1),
        flink_jobs={job.name: job.state for job in list_jobs(config.flink) or ()},
        versions=dict(versions),
    )


def write_report(report: Report) -> bytes:
    """Return the report as indented JSON."""
    return msgspec.json.format(encode(report), indent=2)
