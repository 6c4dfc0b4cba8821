"""Starting, watching and stopping a whole stack from outside: what `up`, `status` and `down` do."""

import fcntl
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from runtime.config import CONFIG_VARIABLE, Config, write_config
from runtime.errors import StackError
from stack.jars import Progress, ensure_jars, needed_groups
from stack.layout import Layout
from stack.ports import embedded_addresses, require_free
from stack.process import damaged_records, end, every_recorded, forget, launch, recorded, tail
from stack.service import inherited_environment
from stack.state import StackState, clear_state, read_state
from stack.supervisor import GRACE_S

SUPERVISOR = "supervisor"
PARTS_ONLY = (sys.executable, "-m", "stack")
"""The supervisor that runs Kafka, Redis and Flink and no process of ours."""
POLL_S = 0.1
STOP_TIMEOUT_S = 120.0
"""For the supervisor to end all its services, each of which may take its grace."""

OnState = Callable[[StackState], None]


def up(
    config: Config,
    command: Sequence[str],
    on_state: OnState = lambda _state: None,
    on_jars: Progress = lambda _ready, _total: None,
) -> StackState:
    """Start `command`, the supervisor of this configuration, and return when everything is ready.

    Harmless if it runs already. Raises `StackError` if the state folder is not ours or a port is taken (before anything
    is started), a jar cannot be had, or a part does not start; then, as after Ctrl-C, everything that was started is
    stopped again.
    """
    layout = Layout.of(config)
    layout.folder("run")
    with _alone(layout):
        starting = recorded(layout, SUPERVISOR) is None
        if starting:
            _end_everything(layout)
            require_free(embedded_addresses(config))
            ensure_jars(config.cache_dir, needed_groups(config), on_jars)
            clear_state(layout)
            write_config(config, layout.config_file)
            env = inherited_environment() | {CONFIG_VARIABLE: str(layout.config_file)}
            launch(layout, SUPERVISOR, command, env)
        else:
            _require_same(config, layout)
        try:
            return _wait_until_ready(layout, on_state)
        except BaseException:
            if starting:
                _end_everything(layout)
            raise


def down(config: Config, *, wipe: bool = False) -> list[str]:
    """End everything that `up` started, also what a dead supervisor left behind; return the names of what ran.

    `wipe` also removes the data, but neither the cache nor anything outside the state folder. Harmless if nothing
    runs. Raises `StackError` for what cannot be ended for certain, and before wiping a folder that is not ours.
    """
    layout = Layout.of(config)
    if wipe:
        layout.require_ours()
    if not layout.present():
        return []
    with _alone(layout):
        ended = _end_everything(layout)
        clear_state(layout)
        if wipe:
            _wipe(layout, config.cache_dir.resolve())
    return ended


def read_status(config: Config) -> StackState:
    """Return what runs now; services whose supervisor is gone count as stopped unless they still run."""
    layout = Layout.of(config)
    state = read_state(layout)
    if recorded(layout, SUPERVISOR) is not None:
        return state
    alive = every_recorded(layout)
    services = tuple(
        msgspec.structs.replace(service, condition="unsupervised" if service.name in alive else "stopped")
        for service in state.services
    )
    return StackState(services, complete=False, error=state.error)


def _wait_until_ready(layout: Layout, on_state: OnState) -> StackState:
    seen: StackState | None = None
    while True:
        alive = recorded(layout, SUPERVISOR) is not None
        state = read_state(layout)
        if state != seen:
            on_state(state)
            seen = state
        if state.error is not None:
            raise StackError(state.error)
        if state.ready:
            return state
        if not alive:
            log = layout.log_of(SUPERVISOR)
            raise StackError(f"the supervisor ended; the end of {log}:\n{tail(log)}")
        time.sleep(POLL_S)


def _end_everything(layout: Layout) -> list[str]:
    _require_readable(layout, [file for file in damaged_records(layout) if file.stem == SUPERVISOR])
    ended = []
    supervisor = recorded(layout, SUPERVISOR)
    if supervisor is not None:
        ended = [service.name for service in read_state(layout).services]
        end(supervisor, STOP_TIMEOUT_S, with_children=False)
    for name, process in every_recorded(layout).items():
        end(process, GRACE_S)
        ended.append(name)
    damaged = damaged_records(layout)
    for file in set(layout.run.glob("*.pid")) - set(damaged):
        forget(layout, file.stem)
    _require_readable(layout, damaged)
    return ended


def _require_readable(layout: Layout, damaged: Sequence[Path]) -> None:
    if damaged:
        names = ", ".join(file.name for file in damaged)
        raise StackError(
            f"{names} in {layout.run} cannot be read, so whether that process still runs is unknown; end it by hand if "
            "it does, then remove the file and try again"
        )


def _require_same(config: Config, layout: Layout) -> None:
    wanted = layout.run / "wanted.toml"
    write_config(config, wanted)
    same = wanted.read_bytes() == layout.config_file.read_bytes()
    wanted.unlink()
    if not same:
        raise StackError(
            f"a stack with another configuration ({layout.config_file}) runs in {layout.root}; end it with "
            "`headrace down`, or choose another folder with --set state_dir=FOLDER"
        )


def _wipe(layout: Layout, cache: Path) -> None:
    for folder in layout.present():
        if cache.is_relative_to(folder):
            raise StackError(
                f"the cache {cache} lies inside {folder}, which is data; move it with --set cache_dir=FOLDER"
            )
        if folder.is_symlink():
            raise StackError(f"{folder} is a link to elsewhere; remove what it points to by hand")
        shutil.rmtree(folder)


@contextmanager
def _alone(layout: Layout) -> Iterator[None]:
    """Hold the state folder's lock, so that two commands do not start or stop the same stack at once."""
    with (layout.root / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StackError(
                f"another `up` or `down` is at work in {layout.root}; try again when it is done"
            ) from error
        yield
