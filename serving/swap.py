"""Takes up new model artifacts while the old ones serve: load beside, then flip a reference."""

import logging
import threading
from collections.abc import Callable
from pathlib import Path

from features.embedding import ITEM_VECTORS
from models.contract import Ranker
from runtime.errors import ArtifactError
from schemas.state import ModelPointer

_LOG = logging.getLogger("headrace.serving")


class ModelSwap:
    """The rankers in use, by name. Loading runs in threads of its own; `rankers` only ever changes by assignment.

    `on_flip` is called after each. An artifact that is refused leaves the old model in place. Of two pointers to one
    model the later wins, even if its artifact is loaded first.
    """

    def __init__(
        self,
        rankers: dict[str, Ranker],
        load: Callable[[ModelPointer], Ranker],
        on_flip: Callable[[], None] = lambda: None,
    ) -> None:
        self.rankers = rankers
        self._load = load
        self._on_flip = on_flip
        self._wanted: dict[str, ModelPointer] = {}
        self._flip = threading.Lock()
        self._threads: list[threading.Thread] = []

    def take(self, pointer: ModelPointer) -> None:
        """Start to load what `pointer` names, unless that is no ranker: item vectors are for the job user-embedding."""
        if pointer.model == ITEM_VECTORS:
            return
        with self._flip:
            self._wanted[pointer.model] = pointer
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        thread = threading.Thread(target=self._load_and_flip, args=(pointer,), daemon=True)
        self._threads.append(thread)
        thread.start()

    def wait(self) -> None:
        """Wait for what is being loaded."""
        for thread in self._threads:
            thread.join()

    def _load_and_flip(self, pointer: ModelPointer) -> None:
        try:
            ranker = self._load(pointer)
        except ArtifactError as error:
            _LOG.error("%s %s refused, the old one goes on: %s", pointer.model, pointer.version, error)
            return
        with self._flip:
            if self._wanted[pointer.model] is not pointer:
                return
            self.rankers[pointer.model] = ranker
        self._on_flip()
        _LOG.info("%s %s serves now (%s)", pointer.model, pointer.version, Path(pointer.path).name)
