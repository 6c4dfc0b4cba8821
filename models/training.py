"""From a history to an artifact on disk: what the command line, the demo and a scheduled trainer share."""

import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from models.contract import History, Lineage, Progress, no_progress
from models.registry import trainable_class
from runtime import artifact
from runtime.clock import Clock
from runtime.config import Config, KafkaConfig
from runtime.errors import DataError
from runtime.kafka.sending import send_all
from schemas.codec import encode
from schemas.state import ModelPointer
from schemas.topics import MODELS
from stack.layout import Layout


def train(
    name: str,
    history: History,
    config: Config,
    seed: int,
    clock: Clock,
    progress: Progress = no_progress,
) -> ModelPointer:
    """Fit the model `name` on `history`, save it under the state folder and return the pointer to publish.

    Raises `DataError` for a history that the model cannot learn from, `ArtifactError` for an unknown name and
    `StackError` for a state folder that is not ours.
    """
    kind = trainable_class(name)
    if not history.clicks:
        raise DataError(f"there are no clicks to train {name} on; send some first (headrace produce clicks FILE)")
    Layout.of(config).claim()
    folder = config.state_dir / "models" / name
    created_ms = clock.now_ms()
    lineage = Lineage(_version(created_ms, history, seed), created_ms, _latest_version(folder))
    kind.fit(history, config, seed, lineage, progress).save(folder / lineage.version)
    return artifact.point_to(folder / lineage.version, clock.now_ms())


def publish_models(config: KafkaConfig, pointers: Iterable[ModelPointer]) -> None:
    """Hand the models that `pointers` name to the workers; return once Kafka has all of them."""
    send_all(config, ((MODELS.name, pointer.model, encode(pointer)) for pointer in pointers))


def _version(created_ms: int, history: History, seed: int) -> str:
    """Return a name that sorts by time and tells apart what was fitted on other events or with another seed."""
    digest = hashlib.sha256(str(seed).encode())
    for click in history.clicks:
        digest.update(b"\n" + click.event_id.encode())
    created = datetime.fromtimestamp(created_ms / 1000, UTC)
    return f"{created:%Y%m%dT%H%M%S}{created_ms % 1000:03d}Z-{digest.hexdigest()[:8]}"


def _latest_version(folder: Path) -> str | None:
    return max((each.parent.name for each in folder.glob(f"[!.]*/{artifact.MANIFEST}")), default=None)
