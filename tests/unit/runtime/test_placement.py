import pytest

from runtime.kafka.placement import partition_of_key


@pytest.mark.parametrize(
    ("key", "murmur2"),
    # From the tests of Kafka's Java client (UtilsTest.testMurmur2).
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_a_key_lies_where_java_puts_it(key: bytes, murmur2: int) -> None:
    for partitions in (1, 4, 200, 2**31 - 1):
        assert partition_of_key(key, partitions) == (murmur2 & 0x7FFFFFFF) % partitions
