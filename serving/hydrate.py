"""The second stage: what the store knows of the users of a micro-batch, in one read."""

import logging
from collections.abc import Sequence

from features.store import Family, FeatureStore, Stored
from features.user_record import UserRecord, parse_record
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
        """Return record, profile and degradations for each request; without the store everybody is a stranger."""
        keys = [key(request.user_id) for request in requests for key in (Family.USER.key, Family.PROFILE.key)]
        stored = self._stored(keys)
        found = []
        for record, profile in zip(stored[::2], stored[1::2], strict=True):
            degradations = ["store_unavailable"] if self._away else []
            found.append((_record(record, degradations), _profile(profile, degradations), degradations))
        return found

    def _stored(self, keys: Sequence[str]) -> Sequence[Stored | None]:
        try:
            stored = self._store.get_many(keys)
        except StoreUnavailable as error:
            if not self._away:
                _LOG.warning("answering without the store: %s", error)
            self._away = True
            return [None] * len(keys)
        if self._away:
            _LOG.info("the store answers again")
        self._away = False
        return stored


def _record(stored: Stored | None, degradations: list[str]) -> UserRecord | None:
    """Read a record; one of a foreign format counts as none, and the answer says so."""
    if stored is None:
        return None
    try:
        return parse_record(stored.value)
    except ValueError as error:
        _LOG.warning("%s", error)
        degradations.append("record_unreadable")
        return None


def _profile(stored: Stored | None, degradations: list[str]) -> User | None:
    if stored is None:
        return None
    try:
        return decode(stored.value, User)
    except MessageError as error:
        _LOG.warning("profile: %s", error)
        degradations.append("profile_unreadable")
        return None
