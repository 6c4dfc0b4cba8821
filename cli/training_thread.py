"""Trains the demo's models beside the start of the stack, which mostly waits."""

import threading
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from models.datasets.movielens import MovieLens
    from runtime.config import Config
    from schemas.click import Click
    from schemas.state import ModelPointer


class TrainingThread(threading.Thread):
    """Fits every model on the history, and the item vectors. A daemon: Ctrl-C during the start does not wait for it."""

    def __init__(
        self, config: "Config", clicks: "Sequence[Click]", data: "MovieLens", seed: int, progress: "Progress"
    ) -> None:
        super().__init__(daemon=True)
        self._config = config
        self._clicks = clicks
        self._data = data
        self._seed = seed
        self._progress = progress
        self._pointers: list[ModelPointer] = []
        self._failure: Exception | None = None

    def run(self) -> None:
        """Train one model after the other."""
        from models.contract import History
        from models.registry import TRAINABLE
        from models.training import train
        from runtime.clock import SystemClock

        history = History(
            self._clicks,
            {item.item_id: item for item in self._data.items},
            {user.user_id: user for user in self._data.users},
        )
        try:
            for name in TRAINABLE:
                task = self._progress.add_task(f"training {name}", total=None)
                show = partial(self._show, task, name)
                self._pointers.append(train(name, history, self._config, self._seed, SystemClock(), show))
        except Exception as error:
            self._failure = error

    def _show(self, task: "TaskID", name: str, done: int, total: int, what: str) -> None:
        self._progress.update(task, completed=done, total=total, description=f"training {name}: {what}")

    def result(self) -> "list[ModelPointer]":
        """Wait for the end and return where the models lie; raise what the training raised."""
        self.join()
        if self._failure is not None:
            raise self._failure
        return self._pointers
