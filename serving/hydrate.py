"""The second stage: what the store knows of the users of a micro-batch, in one read."""

import logging
from collections.abc import Mapping, Sequence

from features.near_cache import NearCache, PartlyUnavailable
from features.record_batch import decode_records
from features.store import Family, FeatureStore, Stored
from features.user_record import UserRecord
from runtime.errors import StoreUnavailable
from schemas.codec import decode
from schemas.errors import MessageError
from schemas.request import Request
from schemas.user import User

_LOG = logging.getLogger("headrace.serving")


class Hydrator:
    """Reads records and profiles; remembers whether the store was away, so that an outage is one line in the log."""

    def __init__(self, store: FeatureStore) -> None:
        self._store = store
        self._away = False

    def read(self, requests: Sequence[Request]) -> list[tuple[UserRecord | None, User | None, list[str]]]:
        """Return record, profile and degradations for each request.

        Without the store a user is what a near-cache knows of them, and a stranger if it knows nothing.
        """
        users = [request.user_id for request in requests]
        record_keys, profile_keys = [[family.key(user) for user in users] for family in (Family.USER, Family.PROFILE)]
        known = self._known([*record_keys, *profile_keys])
        degradations: list[list[str]] = [
            [] if record_key in known and profile_key in known else ["store_unavailable"]
            for record_key, profile_key in zip(record_keys, profile_keys, strict=True)
        ]
        records = _records([known.get(key) for key in record_keys], degradations)
        profiles = [_profile(known.get(key), each) for key, each in zip(profile_keys, degradations, strict=True)]
        return list(zip(records, profiles, degradations, strict=True))

    def _known(self, keys: Sequence[str]) -> Mapping[str, Stored | None]:
        """Return what is known of each key; those of which nothing is known are left out."""
        try:
            known: Mapping[str, Stored | None] = dict(zip(keys, self._store.get_many(keys), strict=True))
        except StoreUnavailable as error:
            if not self._away:
                _LOG.warning("answering without the store: %s", error)
            self._away = True
            return error.known if isinstance(error, PartlyUnavailable) else {}
        if self._away and not (isinstance(self._store, NearCache) and self._store.store_is_away):
            _LOG.info("the store answers again")
            self._away = False
        return known


def _records(stored: Sequence[Stored | None], degradations: Sequence[list[str]]) -> list[UserRecord | None]:
    """Read the records; one of a foreign format counts as none, and the answer says so."""
    batch = decode_records([None if each is None else each.value for each in stored])
    for row, reason in batch.problems.items():
        _LOG.warning("%s", reason)
        degradations[row].append("record_unreadable")
    return batch.records()


def _profile(stored: Stored | None, degradations: list[str]) -> User | None:
    if stored is None:
        return None
    try:
        return decode(stored.value, User)
    except MessageError as error:
        _LOG.warning("profile: %s", error)
        degradations.append("profile_unreadable")
        return None
