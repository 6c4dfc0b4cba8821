"""The field types that every wire type is made of, with their bounds."""

from typing import Annotated

import msgspec

MAX_ID_BYTES = 256
"""An id is a non-empty string of at most this many bytes in UTF-8."""

MIN_TS_MS = 315_532_800_000
"""1980-01-01 in epoch milliseconds. An epoch in *seconds* stays below it until the year 11968, so the
most common mistake of a producer is caught without a guess."""

MAX_TS_MS = 253_402_300_799_999
"""The end of the year 9999; keeps every sum of a timestamp and a timeout inside 64 bits."""

MAX_K = 1_000
"""The most items that one request may ask for."""

Id = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=MAX_ID_BYTES,
        # Control characters separate the fields of packed feature values and have no place in an id. `schemas.codec`
        # looks for them: a pattern here would cost more than all the rest of decoding.
        extra_json_schema={"pattern": r"^[^\x00-\x1f\x7f]*(?![\s\S])"},
        extra={"id": True},
        description="Non-empty, at most 256 bytes of UTF-8, no control characters.",
    ),
]

TimestampMs = Annotated[
    int,
    msgspec.Meta(ge=MIN_TS_MS, le=MAX_TS_MS, description="Event time in milliseconds since the epoch."),
]

Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]

# Readers in other languages refuse integers beyond 64 bits and names of many thousand characters, and one
# such message would stop a whole Flink job.
_Integer = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Name = Annotated[str, msgspec.Meta(max_length=256)]

Scalar = str | _Integer | float | bool | None
"""What a context or attribute value may be."""

Scalars = dict[_Name, Scalar]
"""Named values: a context, attributes."""
