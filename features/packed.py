"""What the packed values of our topics have in common: tab-separated text that begins with its format's version.

Where a position in `clicks.accepted` orders an entity's values, its partition and offset come next.
"""


def foreign_format(what: str, found: str, readable: str) -> str:
    """Return what to say of a value of format `found`, of a kind of which this program reads `readable`."""
    return f"{what} of format {found[:20]!r}; this program reads {readable!r}"


def position_in(packed: bytes, what: str, readable: str) -> tuple[int, int]:
    """Return only the (partition, offset) of a packed value; raise `ValueError` if it is not of format `readable`."""
    version, partition, offset, _ = packed.split(b"\t", 3)
    if version != readable.encode():
        raise ValueError(foreign_format(what, version.decode(errors="replace"), readable))
    return int(partition), int(offset)
