"""An entry of a compacted topic: its key is its id, null deletes it. Every reader of such a topic follows this rule."""

from typing import TypeVar

import msgspec

from schemas.codec import decode
from schemas.errors import WrongKey

Entry = TypeVar("Entry", bound=msgspec.Struct)


def entry_id(key: bytes | None) -> str:
    """Return the id that the key of a message stands for; raise `WrongKey` if it is not UTF-8."""
    try:
        return (key or b"").decode()
    except UnicodeDecodeError as error:
        raise WrongKey(f"the key is not UTF-8: {error}") from error


def read_entry(kind: type[Entry], id_field: str, key: bytes | None, value: bytes | None) -> tuple[str, Entry | None]:
    """Return the id and the entry of a message, None for a deletion.

    Raises the `MessageError` that says what is wrong with the value, or `WrongKey` where the key is not the entry's
    `id_field`: compaction goes by the key, so that such an entry would stand in the place of another.
    """
    wanted = entry_id(key)
    if value is None:
        return wanted, None
    entry = decode(value, kind)
    if (found := getattr(entry, id_field)) != wanted:
        raise WrongKey(f"the key is {wanted!r}, {id_field} is {found!r}; send {id_field} as the key")
    return wanted, entry


def apply_entry(
    table: dict[str, Entry], kind: type[Entry], id_field: str, key: bytes | None, value: bytes | None
) -> None:
    """Put the entry of a message into `table`, or take it out; raises as `read_entry` does and then changes nothing."""
    id_, entry = read_entry(kind, id_field, key, value)
    if entry is None:
        table.pop(id_, None)
    else:
        table[id_] = entry
