"""What an application asks for."""

from typing import Annotated

import msgspec

from schemas.fields import MAX_K, Id, Scalars, TimestampMs

DEFAULT_TIMEOUT_MS = 500
"""The deadline of a request that names none."""


class Request(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`k` items for one user, by `ts + timeout_ms`.

    `candidates` are the only items to rank, `exclude` never appear in the answer, `vector` is a user embedding
    computed at the edge, `model` forces a tier (tests and experiments), `explain` asks for reasons per item.
    """

    request_id: Id
    ts: TimestampMs
    user_id: Id
    k: Annotated[int, msgspec.Meta(ge=1, le=MAX_K)]
    timeout_ms: Annotated[int, msgspec.Meta(ge=1, le=3_600_000)] = DEFAULT_TIMEOUT_MS
    surface: Id | None = None
    context: Scalars | None = None
    candidates: Annotated[tuple[Id, ...], msgspec.Meta(max_length=10_000)] | None = None
    exclude: Annotated[tuple[Id, ...], msgspec.Meta(max_length=10_000)] = ()
    vector: tuple[float, ...] | None = None
    explain: bool = False
    model: Id | None = None

    @property
    def deadline_ms(self) -> int:
        """The epoch millisecond after which nobody waits for the answer any more."""
        return self.ts + self.timeout_ms


class RequestIdentity(msgspec.Struct, frozen=True):
    """What is needed to answer a request that is otherwise invalid."""

    request_id: Id


class RequestOwner(msgspec.Struct, frozen=True):
    """Whose request it is, where that can be read."""

    user_id: Id
