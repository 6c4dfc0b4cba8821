"""Starting, recording, finding and ending processes.

A process is known by its pid *and* by when it was born: pids are used again, so a record that outlived its process must
never lead to a stranger. When, by the kernel's own count since it booted: a time of day is no longer the same once the
machine has slept or its clock was set, and a stack that is not recognised cannot be ended.
"""

import os
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import msgspec
import psutil

from runtime.files import write_atomically
from stack.layout import Layout

MAX_LOG_BYTES = 32 * 1024**2
"""A log longer than this is set aside (once) when its process starts."""


class ProcessRecord(msgspec.Struct, frozen=True):
    """Who a process is: `birth` is what no other process with this pid ever has (see `birth_of`)."""

    pid: Annotated[int, msgspec.Meta(ge=1, lt=2**31)]
    birth: str


def launch(layout: Layout, name: str, argv: Sequence[str], env: Mapping[str, str]) -> int:
    """Start `argv` in a session of its own, output appended to its log, and record it; return its pid.

    Raises `OSError`, and then nothing runs, if it cannot be started or recorded (a full disk).

    `posix_spawn` rather than `subprocess`: the process is meant to outlive the object that would stand for it.
    """
    log = layout.log_of(name)
    log.parent.mkdir(parents=True, exist_ok=True)
    if log.exists() and log.stat().st_size > MAX_LOG_BYTES:
        log.replace(log.with_suffix(".log.1"))
    pid = os.posix_spawn(
        argv[0],
        list(argv),
        dict(env),
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )
    record = ProcessRecord(pid, birth_of(pid))
    try:
        write_atomically(_record_file(layout, name), msgspec.json.encode(record))
    except OSError:
        # Nobody could find it again.
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise
    return pid


def recorded(layout: Layout, name: str) -> psutil.Process | None:
    """Return the process that was started under `name`, or None if it is gone, whoever has its pid now."""
    try:
        record = _read(_record_file(layout, name))
        process = psutil.Process(record.pid)
        same = birth_of(record.pid) == record.birth
        alive = process.status() != psutil.STATUS_ZOMBIE
    except (FileNotFoundError, msgspec.DecodeError, psutil.NoSuchProcess):
        return None
    return process if same and alive else None


def birth_of(pid: int) -> str:
    """Return which boot of the machine process `pid` belongs to and at which tick of it it was started.

    Where there is no /proc to say so, the time of its creation. Raises `psutil.NoSuchProcess`.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        # The name, in parentheses, may hold anything; the start is the 20th field behind it.
        return f"{boot} {Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[19]}"
    except (FileNotFoundError, ProcessLookupError):
        return str(psutil.Process(pid).create_time())


def damaged_records(layout: Layout) -> list[Path]:
    """Return the record files that cannot be read: whether their processes still run, nobody knows."""
    damaged = []
    for file in sorted(layout.run.glob("*.pid")):
        try:
            _read(file)
        except FileNotFoundError:
            continue
        except msgspec.DecodeError:
            damaged.append(file)
    return damaged


def every_recorded(layout: Layout) -> dict[str, psutil.Process]:
    """Return all processes that were started and still run, by name, the youngest first."""
    names = sorted(path.stem for path in layout.run.glob("*.pid"))
    found = {name: process for name in names if (process := recorded(layout, name)) is not None}
    return dict(sorted(found.items(), key=lambda item: item[1].create_time(), reverse=True))


def forget(layout: Layout, name: str) -> None:
    """Remove the record of a process that has ended."""
    _record_file(layout, name).unlink(missing_ok=True)


def end(process: psutil.Process, grace_s: float, *, with_children: bool = True) -> None:
    """End `process` and its descendants: ask, wait `grace_s`, then kill. Harmless if it is gone already."""
    try:
        family = [process, *(process.children(recursive=True) if with_children else ())]
        process.terminate()
    except psutil.NoSuchProcess:
        return
    _wait_for([process], grace_s)
    for member in family:
        try:
            if not _is_gone(member):
                member.kill()
        except psutil.NoSuchProcess:
            continue
    _wait_for(family, grace_s)


def end_orphans(pid: int) -> None:
    """Kill what is left of the session of a process that `launch` started as `pid` and that has just ended.

    Python workers of a TaskManager that was killed can hang for ever while they close their log.
    """
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def _wait_for(processes: Sequence[psutil.Process], timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline and not all(_is_gone(process) for process in processes):
        time.sleep(0.05)


def _is_gone(process: psutil.Process) -> bool:
    """Whether it has ended; collects its status if it is a child of ours, and does not wait for others to do so."""
    # It may vanish also between the two questions.
    with suppress(psutil.NoSuchProcess):
        try:
            process.wait(timeout=0)
        except psutil.TimeoutExpired:
            return bool(process.status() == psutil.STATUS_ZOMBIE)
    return True


def tail(log: Path, lines: int = 20) -> str:
    """Return the last lines of a log, or a word that there is none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 16_384))
            return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])
    except FileNotFoundError:
        return "(no log)"


def _read(file: Path) -> ProcessRecord:
    return msgspec.json.decode(file.read_bytes(), type=ProcessRecord)


def _record_file(layout: Layout, name: str) -> Path:
    return layout.run / f"{name}.pid"
