"""The bytes of user records, taken apart: one pass over all of a micro-batch, by numpy, instead of one per event.

The format is in `features/user_record.py`; `features/record_batch.py` makes a batch of what is found here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from features.packed import foreign_format
from features.user_record import (
    ACTION_CODES,
    FORMAT_VERSION,
    HEAD_FIELDS,
    KIND,
    TS_DIGITS,
    VALUE_SEPARATOR,
)
from schemas.click import ACTIONS

_TAB, _SEPARATOR, _ZERO = ord("\t"), ord(VALUE_SEPARATOR), ord("0")
HEAD_NUMBERS = HEAD_FIELDS - 1
"""Fields of the head behind the version: all of them whole numbers."""
_MAX_DIGITS = 15
"""Whole numbers of this length are exact in a double, whose matrix product is the quick one; no offset gets there."""
_FIRST = np.ones(1, np.int64)
"""The first record's fields begin behind the first tab."""
_PREFIX = TS_DIGITS + 1
"""What stands before the item_id in an entry."""
_LAST = np.array([[0] * (_MAX_DIGITS - width) + [1] * width for width in range(_MAX_DIGITS + 1)], np.uint8)
"""Row w has ones at the last w of so many places."""
_POWERS = 10.0 ** np.arange(_MAX_DIGITS - 1, -1, -1)
_NO_ACTION = len(ACTIONS)
_ACTION_INDEX = np.full(256, _NO_ACTION, np.uint8)
_ACTION_INDEX[[ord(code) for code in ACTION_CODES.values()]] = range(len(ACTIONS))

Places = NDArray[np.int64]

Chosen = NDArray[np.bool_] | slice
"""Some of the events of a batch."""


@dataclass(frozen=True, slots=True)
class Columns:
    """What B records hold: the numbers of their heads (B, 10), how many events each has (B,), and their events (E,)."""

    heads: NDArray[np.int64]
    sizes: NDArray[np.int64]
    ts: NDArray[np.int64]
    actions: NDArray[np.uint8]
    values: NDArray[np.float64]
    joined: bytes
    item_starts: Places
    """Where each event's item_id begins in `joined`."""
    item_ends: Places

    def item_ids(self, chosen: Chosen) -> list[str]:
        """Return the item ids of the chosen events."""
        places = zip(self.item_starts[chosen].tolist(), self.item_ends[chosen].tolist(), strict=True)
        if self.joined.isascii():  # then a place in the bytes is one in the text, and slices of that are the ids
            text = self.joined.decode()
            return [text[start:end] for start, end in places]
        return [self.joined[start:end].decode() for start, end in places]


def read_columns(packed: Sequence[bytes]) -> Columns | dict[int, str]:
    """Return what the records hold, or by their places what is wrong with some that have to be left out."""
    return _foreign(packed) or _decode(packed)


def _foreign(packed: Sequence[bytes]) -> dict[int, str]:
    """Return what is wrong with those values that are of another format or no text."""
    prefix = f"{FORMAT_VERSION}\t".encode()
    problems = {place: _refusal(value) for place, value in enumerate(packed) if not value.startswith(prefix)}
    if not problems and not all(map(bytes.isascii, packed)):
        problems = {place: refusal for place, value in enumerate(packed) if (refusal := _no_text(value))}
    return problems


def _refusal(value: bytes) -> str:
    return foreign_format(KIND, value.split(b"\t", 1)[0].decode(errors="replace"), FORMAT_VERSION)


def _no_text(value: bytes) -> str | None:
    try:
        value.decode()
    except UnicodeDecodeError as error:
        return f"user record that is not UTF-8: {error}"
    return None


def _decode(packed: Sequence[bytes]) -> Columns | dict[int, str]:
    """Return the columns of `packed`, or what is wrong with some of it."""
    # What stands in front lets the first number be read as a window of full width, and begins it with a tab like all.
    joined = b"\t".join([b"0" * _MAX_DIGITS, *packed, b""])
    data = np.frombuffer(joined, np.uint8)
    tabs = np.flatnonzero(data == _TAB)
    lengths = np.fromiter(map(len, packed), np.int64, len(packed))
    last = np.searchsorted(tabs, np.cumsum(lengths + 1) + (_MAX_DIGITS + 1))
    first = np.concatenate((_FIRST, last))[:-1]
    sizes = last - first - HEAD_FIELDS
    if (bad := sizes < 1).any():
        return _problems(bad, lambda row: f"user record with {sizes[row] + HEAD_FIELDS} fields is truncated")

    places = (first[:, None] + np.arange(HEAD_NUMBERS)).ravel()
    heads, readable = _integers(joined, tabs[places] + 1, tabs[places + 1])
    if not readable.all():
        bad = ~readable.reshape(-1, HEAD_NUMBERS).all(axis=1)
        return _problems(bad, lambda row: f"user record with an unreadable head {packed[row][:80]!r}")

    row_ends = np.cumsum(sizes)
    places = np.arange(row_ends[-1] if packed else 0) + np.repeat(first + (HEAD_FIELDS - 1) - row_ends + sizes, sizes)
    starts, ends = tabs[places] + 1, tabs[places + 1]
    item_ends = ends.copy()
    bad = ends - starts <= _PREFIX
    if not bad.any():
        digits = _digits(joined, starts, TS_DIGITS)
        actions = _ACTION_INDEX[data[starts + TS_DIGITS]]
        values = np.full(len(starts), np.nan)
        bad = (actions == _NO_ACTION) | (data[starts + _PREFIX] == _SEPARATOR)
        if (digits > 9).any():
            bad |= (digits > 9).any(axis=1)
        if VALUE_SEPARATOR.encode() in joined:
            separators = np.flatnonzero(data == _SEPARATOR)
            bad |= ~_read_values(joined, separators, ends, values)
            item_ends[np.searchsorted(ends, separators)] = separators
    if bad.any():
        damaged = np.zeros(len(packed), np.bool_)
        damaged[np.repeat(np.arange(len(packed)), sizes)[bad]] = True
        return _problems(damaged, lambda row: f"user record with an unreadable event, {packed[row][:80]!r}")
    numbers = heads.reshape(-1, HEAD_NUMBERS)
    return Columns(numbers, sizes, _numbers(digits), actions, values, joined, starts + _PREFIX, item_ends)


def _problems(bad: NDArray[np.bool_], reason: Callable[[int], str]) -> dict[int, str]:
    return {row: reason(row) for row in np.flatnonzero(bad).tolist()}


def _digits(joined: bytes, starts: Places, width: int) -> NDArray[np.uint8]:
    """Return the `width` digits from each of `starts` on, shape (n, width); above 9 where a byte is no digit."""
    windows: NDArray[np.void] = np.ndarray((len(joined) - width + 1,), f"V{width}", joined, strides=(1,))
    return windows[starts].view(np.uint8).reshape(-1, width) - np.uint8(_ZERO)


def _numbers(digits: NDArray[np.uint8]) -> NDArray[np.int64]:
    return (digits.astype(np.float64) @ _POWERS[-digits.shape[1] :]).astype(np.int64)


def _integers(joined: bytes, starts: Places, ends: Places) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the whole number in each joined[start:end], and where there is one; all of shape (n,)."""
    widths = ends - starts
    readable: NDArray[np.bool_] = (widths > 0) & (widths <= _MAX_DIGITS)
    width = min(int(widths.max(initial=1)), _MAX_DIGITS)
    digits = _digits(joined, ends - width, width)
    digits *= _LAST[:, -width:].take(widths, axis=0, mode="clip")
    if (digits > 9).any():
        readable &= ~(digits > 9).any(axis=1)
    return _numbers(digits), readable


def _read_values(joined: bytes, separators: Places, ends: Places, values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Read the values of the entries that end at `ends` into `values`; return where none or a number was."""
    readable = np.ones(len(ends), np.bool_)
    at = np.searchsorted(ends, separators)
    for entry, separator, end in zip(at.tolist(), separators.tolist(), ends[at].tolist(), strict=True):
        try:
            values[entry] = float(joined[separator + 1 : end])
        except ValueError:
            readable[entry] = False
    return readable
