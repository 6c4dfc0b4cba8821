import binascii

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from features.user_vector import UserVector, pack_vector, parse_vector


def test_the_format_is_what_it_is_said_to_be() -> None:
    packed = pack_vector(3, 17, "v1", np.array([1.0, -2.0], np.float32))
    assert packed == f"1\t3\t17\tv1\t{binascii.b2a_base64(bytes.fromhex('0000803f000000c0'), newline=False).decode()}"


@given(
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**63 - 1),
    st.text(st.characters(exclude_categories=["C"]), max_size=20),
    arrays.arrays(np.float32, st.integers(1, 70), elements=st.floats(-1, 1, width=32)),
)
def test_parsing_undoes_packing(partition: int, offset: int, version: str, vector: NDArray[np.float32]) -> None:
    found = parse_vector(pack_vector(partition, offset, version, vector).encode())
    assert (found.position, found.encoder_version) == ((partition, offset), version)
    assert found.vector.dtype == np.float32
    assert found.vector.tobytes() == vector.tobytes()


@pytest.mark.parametrize(
    ("packed", "complaint"),
    [
        (b"", "format ''"),
        (b"2\t0\t0\tv\tAACAPw==", "format '2'"),
        (b"1\t0\t0\tv", "4 fields"),
        (b"1\t0\t0\tv\tAACAPw==\t", "6 fields"),
        (b"1\tx\t0\tv\tAACAPw==", "'x'"),
        (b"1\t0\t0\tv\tAACAPw=", "padding"),
        (b"1\t0\t0\tv\tAACA!w==", "base64"),
        (b"1\t0\t0\tv\t", "0 bytes"),
        (b"1\t0\t0\tv\tAACA", "3 bytes"),
        (b"1\t0\t0\tv\tAADAfw==", "not finite"),
        (b"1\t0\t0\t\xff\tAACAPw==", "utf-8"),
    ],
)
def test_what_is_damaged_is_refused_with_what_is_wrong(packed: bytes, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_vector(packed)


def test_a_vector_can_be_compared_with_what_was_stored() -> None:
    vector = np.array([0.6, 0.8], np.float32)
    found = parse_vector(pack_vector(0, 1, "v1", vector).encode())
    assert isinstance(found, UserVector)
    assert float(found.vector @ vector) == pytest.approx(1.0)
