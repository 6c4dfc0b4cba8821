"""JSON to wire types and back, with one error class for each way a message can be wrong."""

import re
from functools import cache
from typing import TypeVar

import msgspec

from schemas.errors import (
    InvalidId,
    MessageError,
    MissingField,
    MissingValue,
    NotAnObject,
    NotJson,
    OutOfRange,
    TimestampInFuture,
    TimestampInSeconds,
    TooLarge,
    UnknownValue,
    WrongType,
)
from schemas.fields import MAX_ID_BYTES, MIN_TS_MS
from schemas.ids import ids_of

Message = TypeVar("Message", bound=msgspec.Struct)

MAX_MESSAGE_BYTES = 512 * 1024
"""A value longer than this is refused unread: ten thousand candidates of 36 bytes fit, a file sent by mistake
does not."""

MAX_SECONDS = 20_000_000_000
"""An epoch in seconds up to the year 2603; a `ts` between a day and this is taken for one."""

encode = msgspec.json.encode

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")

_FIELD = re.compile(r"`\$\.?([^`]*)`")


@cache
def _decoder(kind: type[Message]) -> msgspec.json.Decoder[Message]:
    return msgspec.json.Decoder(kind)


def decode(value: bytes | None, kind: type[Message], max_bytes: int = MAX_MESSAGE_BYTES) -> Message:
    """Return `value` as a message of type `kind`; unknown fields are ignored.

    Raises the subclass of `MessageError` that names what is wrong with it.
    """
    if not value:
        raise MissingValue(f"the {kind.__name__.lower()} has no value; send one JSON object per message")
    if len(value) > max_bytes:
        raise TooLarge(f"{len(value)} bytes; at most {max_bytes} are accepted")
    try:
        message: Message = _decoder(kind).decode(value)
    except msgspec.ValidationError as error:
        raise _classified(str(error), value) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotJson(f"{error}; send one JSON object in UTF-8 per message") from error
    except RecursionError as error:
        raise NotJson("nested too deeply; send one flat JSON object per message") from error
    # In ASCII without escapes a character is a byte, as the decoder counts them, and none is a control character.
    if not value.isascii() or b"\\" in value or b"\x7f" in value:
        for name, text in ids_of(message):
            _check_id(name, text)
    return message


def encode_bounded(message: msgspec.Struct) -> bytes:
    """Return `message` as JSON that `decode` reads again.

    Raises `TooLarge` where it would not: what was decoded can be longer once encoded, 1e15 as 1000000000000000.0.
    """
    value = encode(message)
    if len(value) > MAX_MESSAGE_BYTES:
        raise TooLarge(f"{len(value)} bytes when written again; at most {MAX_MESSAGE_BYTES} are accepted")
    return value


def check_not_in_future(ts_ms: int, now_ms: int, tolerance_ms: int) -> None:
    """Raise `TimestampInFuture` if `ts_ms` is more than `tolerance_ms` ahead of `now_ms` (both epoch ms)."""
    if ts_ms > now_ms + tolerance_ms:
        raise TimestampInFuture(
            f"ts {ts_ms} is {ts_ms - now_ms} ms ahead of the clock; at most {tolerance_ms} ms are accepted, "
            "check the producer's clock"
        )


def _check_id(name: str, text: str) -> None:
    """Raise `InvalidId` for what the decoder does not see: bytes instead of characters, and control characters."""
    if len(text) > MAX_ID_BYTES // 4 and len(text.encode()) > MAX_ID_BYTES:
        raise InvalidId(f"{name} has {len(text.encode())} bytes; at most {MAX_ID_BYTES} are accepted")
    if control := _CONTROL.search(text):
        raise InvalidId(f"{name} holds the control character {control.group()!r}; ids are plain text")


def _classified(text: str, value: bytes) -> MessageError:
    """Turn the text of msgspec's one `ValidationError` into the error class for that kind of mistake."""
    found = _FIELD.search(text)
    field = found.group(1) if found else ""
    if "missing required field" in text:
        return MissingField(f"{text}; field names are case-sensitive")
    if not field and text.startswith("Expected `object`"):
        return NotAnObject(f"{text}; send one JSON object per message")
    if "of length" in text:
        # Apart from ids only the names in a context are bounded text; the other lengths are those of lists.
        wrong_id = text.startswith("Expected `str`") and "`key`" not in text
        return (InvalidId if wrong_id else OutOfRange)(text)
    if "Invalid enum value" in text:
        return UnknownValue(text)
    if field == "ts" and text.startswith("Expected `int` >= ") and _looks_like_seconds(value):
        return TimestampInSeconds("ts is in seconds; send milliseconds since the epoch")
    out_of_range = "out of range" in text or re.match(r"Expected `(int|float)` (<|>)", text)
    return OutOfRange(text) if out_of_range else WrongType(text)


class _OnlyTs(msgspec.Struct):
    ts: int


def _looks_like_seconds(value: bytes) -> bool:
    try:
        ts = msgspec.json.decode(value, type=_OnlyTs).ts
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # What stands behind the wrong ts, unread so far, is broken as well.
        return False
    return 86_400 < ts < min(MAX_SECONDS, MIN_TS_MS)
