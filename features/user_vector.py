"""A user's vector as `embeddings.user` and the store hold it.

Format (tab-separated, one line of ASCII but for the encoder's version):

    version  partition  offset  encoder_version  base64 of little-endian float32

`partition` and `offset` are those of the user record that the vector was made of: they order a user's vectors.
"""

import binascii
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from features.packed import foreign_format, position_in

KIND = "user vector"
FORMAT_VERSION = "1"

_DTYPE = np.dtype("<f4")


@dataclass(frozen=True, slots=True)
class UserVector:
    """One user's `vector`, float32 of shape (size,) and unit length, and what it was made of and by."""

    position: tuple[int, int]
    encoder_version: str
    vector: NDArray[np.float32]


def pack_vector(partition: int, offset: int, encoder_version: str, vector: NDArray[np.float32]) -> str:
    """Return the packed text of a float32 `vector` of shape (size,)."""
    packed = binascii.b2a_base64(vector.astype(_DTYPE, copy=False).tobytes(), newline=False).decode()
    return f"{FORMAT_VERSION}\t{partition}\t{offset}\t{encoder_version}\t{packed}"


def parse_vector(packed: bytes) -> UserVector:
    """Return the vector that `packed` holds; raise `ValueError` if it is none of this format."""
    fields = packed.decode().split("\t")
    if fields[0] != FORMAT_VERSION:
        raise ValueError(foreign_format(KIND, fields[0], FORMAT_VERSION))
    if len(fields) != 5:
        raise ValueError(f"user vector with {len(fields)} fields instead of 5 is damaged")
    _, partition, offset, encoder_version, text = fields
    values = binascii.a2b_base64(text, strict_mode=True)
    if not values or len(values) % _DTYPE.itemsize:
        raise ValueError(f"user vector with {len(values)} bytes of numbers is truncated")
    vector = np.frombuffer(values, _DTYPE).astype(np.float32, copy=False)
    if not np.isfinite(vector).all():
        raise ValueError("user vector holds numbers that are not finite")
    return UserVector((int(partition), int(offset)), encoder_version, vector)


def vector_position(packed: bytes) -> tuple[int, int]:
    """Return only the (partition, offset) of a packed vector; raise `ValueError` if it is none of this format."""
    return position_in(packed, KIND, FORMAT_VERSION)
