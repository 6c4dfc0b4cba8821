"""The near-cache: the part of the store that this process asks for again and again, in its memory and always fresh.

It stays fresh because its owner follows the very topics that the store is filled from, for the partitions that it was
given, and hands on every message (`take`). A key that lies elsewhere is read from the store each time.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from features.store import Family, FeatureStore, Stored, Write
from runtime.clock import Clock
from runtime.errors import StoreUnavailable
from runtime.kafka.placement import partition_of_key

HomeOf = Callable[[str], int | None]
"""The partition whose messages keep a key fresh; None for a key that nobody follows."""

FAMILIES = frozenset({Family.USER, Family.PROFILE})
"""What is partitioned as the requests are, by user, and read on the request path."""

STORE_HOLD_MS = 5_000
"""For how long the store's word is taken. Whatever is newer comes as a message, but none comes because a store has lost
data or was rebuilt: that shows after this. A longer hold would save at most one read of a user in five seconds."""

_ABSENT = -2
"""The partition of a key that the store did not have: no event's, so that whatever comes supersedes it."""

_ENTRY_BYTES = 400
"""What an entry takes besides its key and value: objects, pointers, its place in the order of use."""

_PASSED_SHARE = 0.1
"""Of the bytes, for the positions of what had to leave: those of 15,000 keys in 64 MB. If the materializer is further
behind, an older value from the store may be held after all, for `STORE_HOLD_MS`."""


class PartlyUnavailable(StoreUnavailable):
    """The store does not answer in time; `known` holds what the cache can tell of the keys without it."""

    def __init__(self, text: str, known: Mapping[str, Stored | None]) -> None:
        super().__init__(text)
        self.known = known


@dataclass(frozen=True, slots=True)
class _Held:
    write: Write
    home: int
    until_ms: int
    """From then on the store is asked again; while it does not answer, this still stands."""

    @property
    def bytes(self) -> int:
        return _ENTRY_BYTES + len(self.write.key) + len(self.write.value or b"")


def user_home(partitions: int) -> HomeOf:
    """Return a function that knows the home of every key of `FAMILIES` among so many partitions."""

    def home_of(key: str) -> int | None:
        _, family, entity_id = key.split(":", 2)
        return partition_of_key(entity_id.encode(), partitions) if family in FAMILIES else None

    return home_of


class NearCache:
    """A feature store in front of another one; for one thread. It holds nothing until `keep` names its partitions.

    What a message said is held for `ttl_s`, as in the store. What was read from the store is read again after
    `STORE_HOLD_MS`; if the store does not answer then, what it said last still stands.
    What is held is bounded in bytes; the least recently used leaves first. It leaves its position behind, so that an
    older value, from a store that is itself not up to date yet, is passed on but not kept.
    """

    def __init__(self, store: FeatureStore, home_of: HomeOf, max_bytes: int, ttl_s: int, clock: Clock) -> None:
        self._store = store
        self._home_of = home_of
        self._max_bytes = max_bytes
        self._ttl_ms = ttl_s * 1_000
        self._clock = clock
        self._store_is_away = False
        self._kept: frozenset[int] = frozenset()
        self._held: OrderedDict[str, _Held] = OrderedDict()
        self._passed: OrderedDict[str, _Held] = OrderedDict()
        self._held_bytes = 0
        self._passed_bytes = 0

    @property
    def bytes(self) -> int:
        """How much memory the entries take, about."""
        return self._held_bytes + self._passed_bytes

    @property
    def store_is_away(self) -> bool:
        """Whether the last read of the store failed; what is answered from memory says nothing about that."""
        return self._store_is_away

    def keep(self, partitions: Collection[int]) -> None:
        """Hold keys of these partitions from now on, and forget all others."""
        self._kept = frozenset(partitions)
        for entries in (self._held, self._passed):
            for key in [key for key, entry in entries.items() if entry.home not in self._kept]:
                self._forget(key)

    def take(self, writes: Iterable[Write], partition: int) -> None:
        """Apply what the messages of a followed partition ask for, under the same guard as the store.

        Every message, not only those of keys that are held: what passed by unseen would be missed for ever.
        """
        if partition not in self._kept:
            return
        until_ms = self._clock.now_ms() + self._ttl_ms
        for write in writes:
            held = self._held.get(write.key) or self._passed.get(write.key)
            if held is None or write.supersedes(held.write):
                self._hold(_Held(write, partition, until_ms))

    def get_many(self, keys: Sequence[str]) -> list[Stored | None]:
        """Return what each key holds, None where it is absent, deleted or expired; at most one read of the store.

        Raises `PartlyUnavailable` if the store has to be asked for a key and does not answer.
        """
        now_ms = self._clock.now_ms()
        known: dict[str, Stored | None] = {}
        wanted: list[str] = []
        for key in dict.fromkeys(keys):
            held = self._held.get(key)
            if held is not None:
                self._held.move_to_end(key)
                known[key] = _stored(held.write)
            if held is None or held.until_ms <= now_ms:
                wanted.append(key)
        if wanted:
            try:
                found = self._store.get_many(wanted)
            except StoreUnavailable as error:
                self._store_is_away = True
                raise PartlyUnavailable(str(error), known) from error
            self._store_is_away = False
            for key, stored in zip(wanted, found, strict=True):
                known[key] = stored
                self._fill(key, stored)
        return [known[key] for key in keys]

    def put_many(self, writes: Sequence[Write]) -> int:
        """Write to the store and return how many took effect; what is held of these keys is read again."""
        for write in writes:
            if write.key in self._held:
                self._evict(write.key)
        return self._store.put_many(writes)

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    def _fill(self, key: str, stored: Stored | None) -> None:
        """Hold what the store says of `key`, if messages will keep it fresh and none newer has passed already."""
        home = self._home_of(key)
        if home is None or home not in self._kept:
            return
        write = Write(key, None, _ABSENT, 0) if stored is None else Write(key, *stored)
        passed = self._passed.get(key)
        if passed is not None and (write.partition != passed.write.partition or not write.supersedes(passed.write)):
            return
        self._hold(_Held(write, home, self._clock.now_ms() + STORE_HOLD_MS))

    def _hold(self, entry: _Held) -> None:
        self._forget(entry.write.key)
        self._held[entry.write.key] = entry
        self._held_bytes += entry.bytes
        while self._held_bytes + self._passed_bytes > self._max_bytes and self._held:
            self._evict(next(iter(self._held)))

    def _evict(self, key: str) -> None:
        entry = self._held[key]
        self._forget(key)
        if entry.write.partition == _ABSENT:
            return
        left = _Held(Write(key, None, entry.write.partition, entry.write.offset), entry.home, entry.until_ms)
        self._passed[key] = left
        self._passed_bytes += left.bytes
        while self._passed_bytes > self._max_bytes * _PASSED_SHARE:
            _, oldest = self._passed.popitem(last=False)
            self._passed_bytes -= oldest.bytes

    def _forget(self, key: str) -> None:
        if (held := self._held.pop(key, None)) is not None:
            self._held_bytes -= held.bytes
        if (passed := self._passed.pop(key, None)) is not None:
            self._passed_bytes -= passed.bytes


def _stored(write: Write) -> Stored | None:
    return None if write.value is None else Stored(write.value, write.partition, write.offset)
