"""What was refused, and why."""

import msgspec

from schemas.fields import TimestampMs


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A message that could not be used, whole: `original` is its value (base64 in JSON), null where it had none.

    `ts` is the time of the refusal. `code` is the `code` of one error class in `schemas.errors`.
    """

    source_topic: str
    source_partition: int
    source_offset: int
    ts: TimestampMs
    code: str
    detail: str
    key: bytes | None
    original: bytes | None
