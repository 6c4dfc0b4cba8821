import json
from pathlib import Path

import numpy as np
import pytest

from runtime import artifact
from runtime.artifact import MANIFEST, TENSORS, Manifest
from runtime.errors import ArtifactError
from tests.builders import NOW_MS


def manifest_of(**fields: object) -> Manifest:
    values: dict[str, object] = {
        "model": "cf",
        "version": "v2",
        "parent": "v1",
        "created_ms": NOW_MS,
        "seed": 0,
        "events": 3,
        "data_ts": (NOW_MS, NOW_MS + 2),
    }
    return Manifest(**(values | fields))  # type: ignore[arg-type]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "models" / "v2"
    tensors = {"weights": np.arange(6, dtype=np.float32).reshape(2, 3).T}
    artifact.write(folder, manifest_of(), tensors=tensors, documents={"names.json": ("a", "b")})
    return folder


def change_manifest(folder: Path, **fields: object) -> None:
    content = json.loads((folder / MANIFEST).read_bytes())
    (folder / MANIFEST).write_text(json.dumps(content | fields))


def test_what_was_written_is_read(folder: Path) -> None:
    found = artifact.read(folder, "cf")
    assert found.tensors()["weights"].tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
    assert found.document("names.json", tuple[str, ...]) == ("a", "b")
    assert found.manifest.parent == "v1"
    assert set(found.manifest.files) == {TENSORS, "names.json"}


def test_a_folder_that_exists_is_never_overwritten(folder: Path) -> None:
    before = (folder / MANIFEST).read_bytes()
    with pytest.raises(ArtifactError, match="never overwritten"):
        artifact.write(folder, manifest_of(seed=1))
    assert (folder / MANIFEST).read_bytes() == before
    assert [each.name for each in folder.parent.iterdir()] == ["v2"]


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        artifact.write(tmp_path / "v1", manifest_of(), documents={".": 1})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["../secret.json", "/etc/hostname", "sub/names.json", "..", ".", ""])
def test_a_file_outside_the_folder_is_refused(folder: Path, name: str) -> None:
    (folder.parent / "secret.json").write_text("1")
    change_manifest(folder, files={name: "0" * 64})
    with pytest.raises(ArtifactError, match="lies outside"):
        artifact.read(folder, "cf")


def test_a_link_out_of_the_folder_is_refused(folder: Path) -> None:
    (folder.parent / "secret.json").write_bytes((folder / "names.json").read_bytes())
    (folder / "names.json").unlink()
    (folder / "names.json").symlink_to(folder.parent / "secret.json")
    with pytest.raises(ArtifactError, match="lies outside"):
        artifact.read(folder, "cf")


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b"\xff\xff", b'{"format": "headrace-model", "format_version": 1}', b'{"a":' * 5000]
)
def test_what_is_no_manifest_is_refused(folder: Path, content: bytes) -> None:
    (folder / MANIFEST).write_bytes(content)
    with pytest.raises(ArtifactError, match=MANIFEST):
        artifact.read(folder, "cf")


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="cannot be read"):
        artifact.read(tmp_path / "nothing", "cf")


def test_a_file_that_the_manifest_does_not_list_is_refused_when_asked_for(folder: Path) -> None:
    with pytest.raises(ArtifactError, match=r"lists no file other\.json"):
        artifact.read(folder, "cf").document("other.json", int)


def test_a_document_of_another_type_is_refused(folder: Path) -> None:
    with pytest.raises(ArtifactError, match=r"names\.json cannot be used"):
        artifact.read(folder, "cf").document("names.json", dict[str, int])


def test_tensors_that_are_none_are_refused_though_their_hash_is_right(tmp_path: Path) -> None:
    folder = tmp_path / "v1"
    artifact.write(folder, manifest_of(), documents={TENSORS: "text"})
    with pytest.raises(ArtifactError, match=TENSORS):
        artifact.read(folder, "cf").tensors()


def test_a_pointer_leads_to_its_artifact_and_to_no_other(folder: Path) -> None:
    pointer = artifact.point_to(folder, NOW_MS + 5)
    assert (pointer.model, pointer.version, pointer.parent, pointer.ts) == ("cf", "v2", "v1", NOW_MS + 5)
    assert artifact.follow(pointer) == folder
    change_manifest(folder, seed=1)
    with pytest.raises(ArtifactError, match="published with"):
        artifact.follow(pointer)
