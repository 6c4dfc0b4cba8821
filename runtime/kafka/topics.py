"""Which topics there are, and creating those that are missing."""

from collections.abc import Iterable

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from runtime.config import KafkaConfig
from runtime.errors import KafkaError
from runtime.kafka.asking import REQUEST_TIMEOUT_S, ask
from runtime.kafka.clients import client_settings
from schemas.topics import TOPICS, Topic


def existing_topics(client: Consumer | Producer | AdminClient) -> dict[str, int]:
    """Return the partition count of every topic that there is; raise `KafkaError` if the broker does not answer."""
    topics = ask(lambda timeout_s: client.list_topics(timeout=timeout_s), "Kafka does not answer").topics
    return {name: len(topic.partitions) for name, topic in topics.items()}


def partitions_of(client: Consumer | Producer | AdminClient, topic: str) -> list[int]:
    """Return the partition numbers of `topic`; raise `KafkaError` if it or the broker is not there."""
    partitions = existing_topics(client).get(topic)
    if not partitions:
        ours = [each.name for each in TOPICS]
        remedy = "create it with `headrace topics --create`" if topic in ours else f"there are {', '.join(ours)}"
        raise KafkaError(f"topic {topic} does not exist; {remedy}")
    return list(range(partitions))


def create_topics(config: KafkaConfig, topics: Iterable[Topic]) -> list[str]:
    """Create those of `topics` that are missing, with explicit settings; return the names of the new ones.

    Raises `KafkaError` if one exists with another partition count: all per-user topics must agree.
    """
    admin = AdminClient(client_settings(config))
    existing = existing_topics(admin)
    missing = []
    for topic in topics:
        wanted = config.partitions if topic.partitioned else 1
        if topic.name not in existing:
            missing.append(NewTopic(topic.name, wanted, config.replication_factor, config=topic.settings()))
        elif existing[topic.name] != wanted:
            raise KafkaError(
                f"topic {topic.name} has {existing[topic.name]} partitions, the configuration says {wanted}; "
                "set kafka.partitions to what is there, or start with new topics"
            )
    for name, done in admin.create_topics(missing).items() if missing else ():
        try:
            done.result(REQUEST_TIMEOUT_S)
        except (KafkaException, TimeoutError) as error:
            raise KafkaError(f"topic {name} cannot be created: {error}") from error
    return [topic.topic for topic in missing]
