import pytest

from runtime.addresses import without_credentials


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://127.0.0.1:6379/0", "redis://127.0.0.1:6379/0"),
        ("redis://:SECRET@host:6379/0", "redis://host:6379/0"),
        ("rediss://me:SECRET@host", "rediss://host"),
        ("https://me:SEC/RE?T@#@host:8081/flink", "https://host:8081/flink"),
        ("redis://host:6379/0?username=me&password=SECRET", "redis://host:6379/0"),
        ("unix://me:SECRET@/run/redis.sock?db=1", "unix:///run/redis.sock"),
        ("one:9092,two:9092", "one:9092,two:9092"),
    ],
)
def test_an_address_is_shown_without_what_may_be_secret(url: str, shown: str) -> None:
    assert without_credentials(url) == shown
