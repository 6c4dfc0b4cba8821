from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from features.activity import last_items
from features.embedding import IDS_FILE, ITEM_VECTORS, MAX_STEPS, SETTINGS_FILE, TENSOR, Encoder
from features.record_batch import parse_record
from features.user_record import Event, UserRecord, pack_record
from features.user_vector import parse_vector
from runtime import artifact
from runtime.artifact import Manifest
from runtime.errors import ArtifactError
from schemas.click import ACTIONS, Action
from tests.builders import NOW_MS

IDS = ("a", "b", "c", "ü")
AXES = np.eye(4, dtype=np.float32)
ENCODER = Encoder("v1", IDS, AXES, 0.5)


def record(*events: tuple[Action, str] | tuple[Action, str, float], position: tuple[int, int] = (2, 7)) -> bytes:
    kept = tuple(Event(NOW_MS + place, *event) for place, event in enumerate(events))
    return pack_record(UserRecord(position, NOW_MS, (1,) * len(ACTIONS), kept))


def vector_of(packed: bytes) -> list[float]:
    (text,) = ENCODER.encode([packed]).vectors
    assert text is not None
    found: list[float] = parse_vector(text.encode()).vector.tolist()
    return found


def test_a_step_back_weighs_step_decay_of_the_one_after_it_and_the_length_is_one() -> None:
    # Weights 1, 1/2, 1/4 of c, b, a; their squares sum to 21/16.
    assert vector_of(record(("view", "a"), ("click", "b"), ("cart", "c"))) == pytest.approx(
        [0.25 / 1.3125**0.5, 0.5 / 1.3125**0.5, 1 / 1.3125**0.5, 0.0]
    )


def test_what_was_not_deliberate_does_not_count_not_even_as_a_step() -> None:
    shown = record(("view", "a"), ("impression", "c"), ("hide", "c"), ("rating", "b", 4.0), ("impression", "c"))
    assert vector_of(shown) == vector_of(record(("view", "a"), ("view", "b")))


def test_an_item_counts_once_at_its_most_recent() -> None:
    again = record(("view", "a"), ("view", "b"), ("purchase", "a", 9.99))
    assert vector_of(again) == vector_of(record(("view", "b"), ("view", "a")))


def test_an_unknown_item_is_passed_over_as_if_it_had_not_been_there() -> None:
    strange = record(("view", "a"), ("view", "nobody-knows"), ("view", "c"))
    assert vector_of(strange) == vector_of(record(("view", "a"), ("view", "c")))


def test_a_vector_says_which_record_and_which_encoder_it_is_of() -> None:
    (text,) = ENCODER.encode([record(("view", "ü"), position=(3, 2**40))]).vectors
    assert text is not None
    found = parse_vector(text.encode())
    assert (found.position, found.encoder_version, found.vector.tolist()) == ((3, 2**40), "v1", [0, 0, 0, 1])


@pytest.mark.parametrize("without", [None, record(("view", "unknown")), record(("impression", "a"))])
def test_a_user_without_known_items_has_no_vector(without: bytes | None) -> None:
    assert ENCODER.encode([without]).vectors == [None]


def test_items_that_cancel_each_other_out_leave_no_vector() -> None:
    encoder = Encoder("v1", ("a", "b"), np.array([[0.5], [-1.0]], np.float32), 0.5)
    assert encoder.encode([record(("view", "a"), ("view", "b"))]).vectors[0] is not None
    assert encoder.encode([record(("view", "b"), ("view", "a"))]).vectors == [None]


def test_a_record_may_be_longer_than_any_of_ours() -> None:
    (text,) = WIDE.encode([record(*(("view", f"i{n}") for n in range(2 * MAX_STEPS)))]).vectors
    assert text is not None


def test_an_empty_batch_has_no_vectors() -> None:
    assert ENCODER.encode([]).vectors == []


@pytest.mark.parametrize(
    ("damaged", "complaint"),
    [
        (b"", "format ''"),
        (b"1" + record(("view", "a"))[1:], "format '1'"),
        (b"\xff\xfe", "format"),
        (b"2\t0\t1", "3 fields"),
        (record(("view", "a")) + b"\t17", "unreadable event"),
        (b"2\tx" + record(("view", "a"))[3:], "unreadable head"),
        (record(("view", "a")) + b"\xff", "not UTF-8"),
    ],
)
def test_a_damaged_record_is_refused_by_itself(damaged: bytes, complaint: str) -> None:
    good = record(("view", "a"))
    encoded = ENCODER.encode([good, damaged, good])
    assert encoded.vectors[0] == encoded.vectors[2] is not None
    assert encoded.vectors[1] is None
    assert list(encoded.refused) == [1]
    assert complaint in encoded.refused[1]


_EVENTS = st.lists(
    st.builds(
        lambda action, item, value: Event(NOW_MS, action, f"i{item}", value),
        st.sampled_from(ACTIONS),
        st.integers(0, 60),
        st.one_of(st.none(), st.floats(1, 5)),
    ),
    max_size=40,
)
_RECORDS = st.builds(
    lambda offset, events: pack_record(UserRecord((0, offset), NOW_MS, (0,) * len(ACTIONS), events)),
    st.integers(0, 2**40),
    _EVENTS.filter(len),
)


def wide_encoder(size: int = 19) -> Encoder:
    values = np.random.default_rng(5).normal(size=(50, size)).astype(np.float32)
    return Encoder("v2", [f"i{n}" for n in range(50)], values, 0.9)


WIDE = wide_encoder()


@given(st.lists(st.one_of(st.none(), _RECORDS, st.just(b"damaged")), max_size=20))
def test_a_record_gives_the_same_bytes_in_whatever_batch_it_comes(records: list[bytes | None]) -> None:
    assert WIDE.encode(records).vectors == [WIDE.encode([each]).vectors[0] for each in records]


@given(_RECORDS)
def test_a_vector_is_the_decayed_mean_over_the_last_items(packed: bytes) -> None:
    table = {f"i{n}": row for n, row in enumerate(np.random.default_rng(5).normal(size=(50, 19)).astype(np.float32))}
    known = [table[item].astype(float) for item in last_items(parse_record(packed), MAX_STEPS) if item in table]
    wanted = sum((0.9**step * vector for step, vector in enumerate(known)), np.zeros(19))
    (text,) = WIDE.encode([packed]).vectors
    if not wanted.any():
        assert text is None
    else:
        assert text is not None
        np.testing.assert_allclose(
            parse_vector(text.encode()).vector, wanted / np.linalg.norm(wanted), rtol=1e-4, atol=1e-5
        )


def saved(folder: Path, **changed: Any) -> Path:
    parts: dict[str, Any] = {"ids": IDS, "vectors": AXES, "settings": {"step_decay": 0.5}, "version": "v1"} | changed
    manifest = Manifest(
        model=ITEM_VECTORS, version=parts["version"], parent=None, created_ms=0, seed=0, events=1, data_ts=None
    )
    artifact.write(
        folder,
        manifest,
        tensors={TENSOR: parts["vectors"]},
        documents={IDS_FILE: parts["ids"], SETTINGS_FILE: parts["settings"]},
    )
    return folder


def test_a_loaded_encoder_encodes_as_the_one_that_was_saved(tmp_path: Path) -> None:
    packed = record(("view", "a"), ("view", "b"))
    loaded = Encoder.load(saved(tmp_path / "1"))
    assert loaded.version == "v1"
    assert loaded.encode([packed]) == ENCODER.encode([packed])


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"ids": ("a", "b")}, "2 ids, 2 of them distinct, for 4 vectors"),
        ({"ids": ("a", "b", "c", "a")}, "4 ids, 3 of them distinct, for 4 vectors"),
        ({"ids": ("a", "b", "c", "d", "a")}, "5 ids, 4 of them distinct, for 4 vectors"),
        ({"vectors": AXES.astype(np.float64)}, "float64"),
        ({"vectors": AXES[0]}, r"shape \(4,\)"),
        ({"settings": {"step_decay": 0.0}}, "step_decay is 0.0"),
        ({"settings": {}}, "step_decay"),
        ({"version": "a\tb"}, "control characters"),
    ],
)
def test_an_inconsistent_artifact_is_refused(tmp_path: Path, changed: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ArtifactError, match=complaint):
        Encoder.load(saved(tmp_path / "1", **changed))
