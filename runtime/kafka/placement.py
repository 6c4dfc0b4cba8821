"""On which partition a key lies: the murmur2 partitioner that all producers of ours and of Java share."""

_SEED = 0x9747B28C
_FACTOR = 0x5BD1E995
_MASK = 0xFFFFFFFF


def partition_of_key(key: bytes, partitions: int) -> int:
    """Return the partition of a non-empty `key` in a topic of so many, as `partitioner=murmur2_random` places it."""
    return (_murmur2(key) & 0x7FFFFFFF) % partitions


def _murmur2(data: bytes) -> int:
    """Austin Appleby's MurmurHash2 in the variant of Kafka's Java client (`Utils.murmur2`), 32 bits."""
    whole = len(data) & ~3
    found = _SEED ^ len(data)
    for start in range(0, whole, 4):
        word = int.from_bytes(data[start : start + 4], "little") * _FACTOR & _MASK
        word = (word ^ word >> 24) * _FACTOR & _MASK
        found = (found * _FACTOR & _MASK) ^ word
    if whole < len(data):
        found = (found ^ int.from_bytes(data[whole:], "little")) * _FACTOR & _MASK
    found = (found ^ found >> 13) * _FACTOR & _MASK
    return found ^ found >> 15
