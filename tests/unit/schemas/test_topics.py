import pytest

from schemas.topics import TOPICS, Topic


def test_names_are_distinct() -> None:
    assert len({topic.name for topic in TOPICS}) == len(TOPICS)


@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.name)
def test_cleanup_and_its_time_are_always_stated(topic: Topic) -> None:
    settings = topic.settings()
    other = {"delete": "retention.ms", "compact": "delete.retention.ms"}[topic.cleanup]
    assert settings.keys() == {"cleanup.policy", "max.message.bytes", "segment.bytes", other}
    assert int(settings[other]) >= 86_400_000
