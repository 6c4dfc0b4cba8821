"""A model on disk: a folder with a manifest and the hash of every file; reading it runs no code of it."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

from runtime.errors import ArtifactError
from schemas.state import ModelPointer

FORMAT = "headrace-model"
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
TENSORS = "tensors.safetensors"

T = TypeVar("T")

_NOT_READABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What reading JSON raises for bytes that are none, or not of the type, or nested without end."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an artifact is and where it comes from.

    `data_ts` is the event time (epoch milliseconds) of the first and last of the `events` it was fitted on, None
    where there were none; `features` are the inputs by name, with their dtype; `metrics` is the result, `curve` the
    same per epoch; `files` maps each file's name to its sha256.
    """

    format: str = FORMAT
    format_version: int = FORMAT_VERSION
    model: str
    version: str
    parent: str | None
    created_ms: int
    seed: int
    events: int
    data_ts: tuple[int, int] | None
    features: dict[str, str] = {}
    metrics: dict[str, float] = {}
    curve: tuple[dict[str, float], ...] = ()
    files: dict[str, str] = {}


class _Format(msgspec.Struct):
    format: str
    format_version: int


@dataclass(frozen=True, slots=True)
class Artifact:
    """A manifest with the bytes of its files, all of them checked."""

    folder: Path
    manifest: Manifest
    files: Mapping[str, bytes]

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of the file `TENSORS`, by name."""
        try:
            arrays: dict[str, NDArray[Any]] = safetensors.numpy.load(self._bytes(TENSORS))
        except (SafetensorError, ValueError, KeyError) as error:
            raise self.unusable(TENSORS, str(error)) from error
        for name, array in arrays.items():
            if not np.isfinite(array).all():
                raise self.unusable(TENSORS, f"{name} holds values that are not finite")
        return arrays

    def document(self, name: str, kind: type[T]) -> T:
        """Return the JSON file `name` as `kind`."""
        try:
            return msgspec.json.decode(self._bytes(name), type=kind)
        except _NOT_READABLE as error:
            raise self.unusable(name, str(error)) from error

    def content(self, name: str) -> bytes:
        """Return the bytes of the file `name`, of a format of its own."""
        return self._bytes(name)

    def unusable(self, name: str, why: str) -> ArtifactError:
        """Return the error that says why the file `name` cannot be used."""
        return ArtifactError(f"{self.folder / name} cannot be used: {why}; train the model again")

    def _bytes(self, name: str) -> bytes:
        if name not in self.files:
            raise self.unusable(MANIFEST, f"it lists no file {name}")
        return self.files[name]


def write(
    folder: Path,
    manifest: Manifest,
    *,
    tensors: Mapping[str, NDArray[Any]] | None = None,
    documents: Mapping[str, Any] | None = None,
    contents: Mapping[str, bytes] | None = None,
) -> None:
    """Write an artifact into the new `folder`, whole or not at all; raise `ArtifactError` if that exists."""
    files = dict(contents or {}) | {name: msgspec.json.encode(each) for name, each in (documents or {}).items()}
    if tensors is not None:
        contiguous = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
        files[TENSORS] = safetensors.numpy.save(contiguous)
    hashes = {name: _sha256(content) for name, content in files.items()}
    files[MANIFEST] = msgspec.json.format(msgspec.json.encode(msgspec.structs.replace(manifest, files=hashes)))
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=".unfinished-", dir=folder.parent))
    try:
        unfinished.chmod(0o755)
        for name, content in files.items():
            _write_through(unfinished / name, content)
        if folder.exists():
            raise ArtifactError(f"{folder} exists; an artifact is never overwritten, choose another version")
        unfinished.rename(folder)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def read(folder: Path, model: str) -> Artifact:
    """Return the artifact in `folder`, which must be one of `model`.

    Raises `ArtifactError`, naming the file and what is wrong with it, if any part is missing, altered, of another
    model or of a newer program.
    """
    manifest = read_manifest(folder)
    if manifest.model != model:
        raise ArtifactError(f"{folder / MANIFEST} describes model {manifest.model!r}, not {model!r}")
    files = {}
    for name, expected in manifest.files.items():
        path = _inside(folder, name)
        content = _read(path)
        found = _sha256(content)
        if found != expected:
            raise ArtifactError(
                f"{path} is damaged: its {len(content)} bytes have sha256 {found}, the manifest says {expected}; "
                "copy it again or train the model again"
            )
        files[name] = content
    return Artifact(folder, manifest, files)


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest in `folder`; raise `ArtifactError` if it is missing, damaged, foreign or newer."""
    path = folder / MANIFEST
    content = _read(path)
    try:
        # Read on its own and first: a newer manifest may have any other fields.
        form = msgspec.json.decode(content, type=_Format)
        if form.format == FORMAT and form.format_version > FORMAT_VERSION:
            raise ArtifactError(
                f"{path} has format version {form.format_version}, this program reads up to {FORMAT_VERSION}; "
                "update the program"
            )
        manifest = msgspec.json.decode(content, type=Manifest)
    except _NOT_READABLE as error:
        raise ArtifactError(f"{path} is no manifest: {error}; copy it again or train the model again") from error
    if manifest.format != FORMAT:
        raise ArtifactError(f"{path} has format {manifest.format!r}, not {FORMAT!r}; it was written by another program")
    return manifest


def point_to(folder: Path, ts: int) -> ModelPointer:
    """Return the pointer, as of `ts` (epoch milliseconds), to the artifact in `folder`."""
    manifest = read_manifest(folder)
    return ModelPointer(
        model=manifest.model,
        version=manifest.version,
        ts=ts,
        path=str(folder.resolve()),
        sha256=_sha256(_read(folder / MANIFEST)),
        parent=manifest.parent,
    )


def follow(pointer: ModelPointer) -> Path:
    """Return the folder that `pointer` means; raise `ArtifactError` if what lies there is something else."""
    folder = Path(pointer.path)
    found = _sha256(_read(folder / MANIFEST))
    if found != pointer.sha256:
        raise ArtifactError(
            f"{folder / MANIFEST} has sha256 {found}, {pointer.model} {pointer.version} was published with "
            f"{pointer.sha256}; restore it, or publish what lies there"
        )
    return folder


def _inside(folder: Path, name: str) -> Path:
    """Return the path of the file `name`, which must lie directly in `folder`, links followed."""
    path = folder / name
    if Path(name).name != name or name in ("", ".", "..") or path.resolve().parent != folder.resolve():
        raise ArtifactError(f"{folder / MANIFEST} lists {name!r}, which lies outside its folder; do not trust it")
    return path


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ArtifactError(f"{path} cannot be read: {error.strerror}; train the model or correct the path") from error


def _write_through(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
