"""Clicks that are wrong, or only look wrong: one table for the codec, the gate and the whole pipeline."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

import msgspec

HOUR_MS = 3_600_000

Fields = dict[str, object]

_EVENTS = count(1)
"""Two clicks with one event_id are one click."""


@dataclass(frozen=True)
class ClickCase:
    """One message to `clicks`: `code` is the reason of its dead letter, None where the click is accepted.

    `make` returns the value, given the current time in epoch milliseconds. `in_schema` says whether a JSON Schema can
    see the mistake.
    """

    name: str
    make: Callable[[int], bytes | None]
    code: str | None
    key: bytes | None = b"u1"
    user_id: str = "u1"
    in_schema: bool = True

    def __str__(self) -> str:
        return self.name


def _fields(now_ms: int) -> Fields:
    return {"event_id": f"e{next(_EVENTS)}", "ts": now_ms, "user_id": "u1", "item_id": "i1", "action": "view"}


def _with(**changes: object) -> Callable[[int], bytes]:
    """A good click but for `changes`."""
    return lambda now_ms: msgspec.json.encode(_fields(now_ms) | changes)


def _raw(old: str, new: str) -> Callable[[int], bytes]:
    """A good click whose JSON text has `old` replaced by `new`."""

    def make(now_ms: int) -> bytes:
        text = msgspec.json.encode(_fields(now_ms)).decode()
        assert old in text
        return text.replace(old, new).encode("utf-8", "surrogatepass")

    return make


def _without(field: str) -> Callable[[int], bytes]:
    return lambda now_ms: msgspec.json.encode({k: v for k, v in _fields(now_ms).items() if k != field})


def _renamed(field: str, name: str) -> Callable[[int], bytes]:
    return _raw(f'"{field}"', f'"{name}"')


def _ts(change: Callable[[int], object]) -> Callable[[int], bytes]:
    """A good click whose ts is a function of now."""
    return lambda now_ms: msgspec.json.encode(_fields(now_ms) | {"ts": change(now_ms)})


def _ts_text(text: str) -> Callable[[int], bytes]:
    """A good click with `text` in the place of its ts."""
    return lambda now_ms: msgspec.json.encode(_fields(now_ms)).replace(str(now_ms).encode(), text.encode())


def _always(value: bytes | None) -> Callable[[int], bytes | None]:
    return lambda _now_ms: value


REJECTED_CLICKS = (
    ClickCase("not JSON", _always(b"hello"), "not_json"),
    ClickCase("an array", _always(b"[1, 2]"), "not_an_object"),
    ClickCase("a click in an array", lambda now_ms: b"[" + _with()(now_ms) + b"]", "not_an_object"),
    ClickCase("a string", _always(b'"click"'), "not_an_object"),
    ClickCase("a number", _always(b"17"), "not_an_object"),
    ClickCase("the literal null", _always(b"null"), "not_an_object"),
    ClickCase("truncated", lambda now_ms: _with()(now_ms)[:-10], "not_json"),
    ClickCase("two objects", lambda now_ms: _with()(now_ms) * 2, "not_json"),
    ClickCase("1 MB of 0xFF", _always(b"\xff" * 1_000_000), "too_large"),
    ClickCase(
        "40,000 numbers that are longer when written again",
        _raw("}", ',"context":{' + ",".join(f'"{n}":1e15' for n in range(40_000)) + "}}"),
        "too_large",
        in_schema=False,
    ),
    ClickCase("1 kB of 0xFF", _always(b"\xff" * 1_000), "not_json"),
    ClickCase("nested too deeply", _raw("}", ',"x":' + "[" * 100_000 + "}"), "not_json"),
    ClickCase("half a surrogate pair", _raw('"i1"', r'"\ud83d"'), "not_json"),
    ClickCase("empty value", _always(b""), "missing_value"),
    ClickCase("null value", _always(None), "missing_value"),
    ClickCase("user_id missing", _without("user_id"), "missing_field"),
    ClickCase("item_id missing", _without("item_id"), "missing_field"),
    ClickCase("event_id missing", _without("event_id"), "missing_field"),
    ClickCase("ts missing", _without("ts"), "missing_field"),
    ClickCase("action missing", _without("action"), "missing_field"),
    ClickCase("USER_ID in capitals", _renamed("user_id", "USER_ID"), "missing_field"),
    ClickCase("camelCase", _renamed("item_id", "itemId"), "missing_field"),
    ClickCase("user_id empty", _with(user_id=""), "invalid_id"),
    ClickCase("user_id of 300 bytes", _with(user_id="x" * 300), "invalid_id"),
    ClickCase("user_id of 65 emoji", _with(user_id="😀" * 65), "invalid_id", in_schema=False),
    ClickCase("user_id with a tab", _with(user_id="u\t1"), "invalid_id"),
    ClickCase("user_id with a newline at its end", _with(user_id="u1\n"), "invalid_id"),
    ClickCase("user_id with a NUL", _with(user_id="u\x00"), "invalid_id"),
    ClickCase("user_id a number", _with(user_id=17), "wrong_type"),
    ClickCase("user_id null", _with(user_id=None), "wrong_type"),
    ClickCase("ts as text", _ts(str), "wrong_type"),
    ClickCase("ts 1.7", _with(ts=1.7), "wrong_type"),
    ClickCase("ts as a float", _ts_text("1.7e12"), "wrong_type", in_schema=False),
    ClickCase("ts null", _with(ts=None), "wrong_type"),
    ClickCase("ts true", _with(ts=True), "wrong_type"),
    ClickCase("ts negative", _with(ts=-1), "out_of_range"),
    ClickCase("ts zero", _with(ts=0), "out_of_range"),
    ClickCase("ts 2^63", _with(ts=2**63), "out_of_range"),
    ClickCase("ts of 400 digits", _ts_text("9" * 400), "out_of_range"),
    ClickCase("ts in microseconds", _ts(lambda now_ms: now_ms * 1_000), "out_of_range"),
    ClickCase("ts in seconds", _ts(lambda now_ms: now_ms // 1_000), "timestamp_in_seconds"),
    ClickCase(
        "ts in seconds, then again as text",
        lambda now_ms: _with(ts=now_ms // 1_000)(now_ms)[:-1] + b',"ts":"x"}',
        "out_of_range",
    ),
    ClickCase("ts two hours ahead", _ts(lambda now_ms: now_ms + 2 * HOUR_MS), "timestamp_in_future", in_schema=False),
    ClickCase("unknown action", _with(action="like"), "unknown_value"),
    ClickCase("action in capitals", _with(action="VIEW"), "unknown_value"),
    ClickCase("action a number", _with(action=1), "wrong_type"),
    ClickCase("value NaN", _raw("}", ',"value":NaN}'), "not_json"),
    ClickCase("value 1e999", _raw("}", ',"value":1e999}'), "out_of_range", in_schema=False),
    ClickCase("value as text", _with(value="4"), "wrong_type"),
    ClickCase("position negative", _with(position=-1), "out_of_range"),
    ClickCase("position 2^31", _with(position=2**31), "out_of_range"),
    ClickCase("context a list", _with(context=[1]), "wrong_type"),
    ClickCase("context nested", _with(context={"a": {"b": 1}}), "wrong_type"),
    ClickCase(
        "a number of 2,000 digits in the context",
        _raw("}", ',"context":{"a":' + "9" * 2_000 + "}}"),
        "out_of_range",
        in_schema=False,
    ),
    ClickCase("a name of 60,000 characters in the context", _with(context={"a" * 60_000: 1}), "out_of_range"),
)

ACCEPTED_CLICKS = (
    ClickCase("a plain click", _with(), None),
    ClickCase("every field", _with(value=4.5, request_id="r", position=0, session_id="s", context={"a": None}), None),
    ClickCase("null key", _with(), None, key=None),
    ClickCase("a key that is another user's", _with(), None, key=b"u2"),
    ClickCase("a key that is no text", _with(), None, key=b"\xff\x00"),
    ClickCase("unknown extra fields", _with(colour="red", nested={"a": [1, {"b": None}]}), None),
    ClickCase("emoji in ids", _with(user_id="👩‍🚀", item_id="🎬 1"), None, key="👩‍🚀".encode(), user_id="👩‍🚀"),
    ClickCase("user_id of 64 emoji", _with(user_id="😀" * 64), None, user_id="😀" * 64),
    ClickCase("separators in ids", _with(user_id="a|b,c;d:e", item_id='"\\/{}'), None, user_id="a|b,c;d:e"),
    ClickCase("a field twice, the last one counts", _raw("}", ',"user_id":"u2"}'), None, user_id="u2"),
    ClickCase("white space around", lambda now_ms: b"\n " + _with()(now_ms) + b"\r\n", None),
    ClickCase("ts long ago", _with(ts=946_684_800_000), None),
    ClickCase("optional fields null", _with(value=None, session_id=None), None),
)

BAD_CLICKS = REJECTED_CLICKS + ACCEPTED_CLICKS
"""All of them, in one order."""
