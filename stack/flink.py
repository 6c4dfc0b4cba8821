"""The embedded Flink: a standalone JobManager and TaskManager from the pip package, and what a client of it needs."""

import http.client
import json
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from runtime.addresses import without_credentials
from runtime.config import Config, FlinkConfig
from runtime.errors import ConfigError, StackError
from stack.jars import cached_jars
from stack.java import JAVA_ENVIRONMENT, SERIAL_COLLECTOR, SHORT_PAUSES, java_command, java_home
from stack.layout import Layout
from stack.ports import free_port
from stack.service import Probe, Service, inherited_environment
from stack.templates import render

PROBE_TIMEOUT_S = 2.0

LEAST_SLOTS = 8
JOBS = 4
"""How many jobs run at once; each takes as many slots as its parallelism."""

# How a process's memory is divided, in MB. Metaspace holds classes (each job brings its own copies), overhead the
# threads' stacks and the virtual machine itself, direct is Flink's own 64 and the network buffers, managed
# what the operators of a slot share: each of item-statistics' five windows wants at least one.
METASPACE_MB = 192
OVERHEAD_MB = 128
FRAMEWORK_DIRECT_MB = 64
LEAST_NETWORK_MB = 64
MANAGED_MB_PER_SLOT = 8
FRAMEWORK_HEAP_MB = 64
LEAST_TASK_HEAP_MB = 96

_OPENED = (
    "lang", "net", "io", "nio", "lang.reflect", "text", "time",
    "util", "util.concurrent", "util.concurrent.atomic", "util.concurrent.locks",
)  # fmt: skip
JAVA_OPTIONS = (
    "--add-exports=java.rmi/sun.rmi.registry=ALL-UNNAMED",
    "--add-exports=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    *(f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in _OPENED),
)
"""What Flink and the libraries it ships reach for inside Java; as in its own configuration file, less the
compiler's packages."""


def flink_services(config: Config, layout: Layout) -> list[Service]:
    """Write configuration and class path, and return how JobManager and TaskManager are run.

    Raises `ConfigError` if the TaskManager's memory is too little for the parallelism.
    """
    _require_memory(config)
    prepare_flink(config, layout)
    for name in ("web", "tmp", "blobs"):
        # Of use to nobody once its processes are gone. The checkpoints are: a new cluster gets its jobs with them.
        shutil.rmtree(layout.root / "flink" / name, ignore_errors=True)
        layout.folder("flink", name)
    # By default a tenth of it is the mark at which the whole heap is collected for the first time.
    metaspace = (f"-XX:MetaspaceSize={METASPACE_MB}m", f"-XX:MaxMetaspaceSize={METASPACE_MB}m")
    jobmanager_direct = FRAMEWORK_DIRECT_MB + LEAST_NETWORK_MB
    taskmanager_direct = FRAMEWORK_DIRECT_MB + _network_mb(config)
    jobmanager_heap = config.stack.jobmanager_memory_mb - METASPACE_MB - OVERHEAD_MB - jobmanager_direct
    taskmanager_heap = FRAMEWORK_HEAP_MB + _task_heap_mb(config)
    return [
        _service(
            layout,
            "jobmanager",
            "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint",
            # Nothing in the JobManager is hot enough to be worth the optimising compiler's memory.
            (f"-Xmx{jobmanager_heap}m", "-Xms64m", "-XX:TieredStopAtLevel=1", _direct(jobmanager_direct), *metaspace),
            SERIAL_COLLECTOR,
            lambda _started_ms: flink_overview(config.flink) is not None,
            without_credentials(config.flink.rest_url),
        ),
        _service(
            layout,
            "taskmanager",
            "org.apache.flink.runtime.taskexecutor.TaskManagerRunner",
            (f"-Xmx{taskmanager_heap}m", f"-Xms{taskmanager_heap}m", _direct(taskmanager_direct), *metaspace),
            SHORT_PAUSES,
            lambda started_ms: taskmanager_registered(config.flink, started_ms),
            f"{slots(config)} slots",
        ),
    ]


def slots(config: Config) -> int:
    """Return how many slots the embedded TaskManager offers: enough for every job at the configured parallelism."""
    return max(LEAST_SLOTS, JOBS * config.flink.parallelism)


def prepare_flink(config: Config, layout: Layout) -> None:
    """Write config.yaml and the folder of links that is the class path, for the cluster and for its clients."""
    folder = layout.folder("flink")
    rest = urlsplit(config.flink.rest_url)
    render(
        "flink.yaml",
        _conf(layout) / "config.yaml",
        rpc_port=free_port(),
        rest_host=rest.hostname,
        rest_port=rest.port or 8081,
        folder=folder,
        slots=slots(config),
        task_heap_mb=_task_heap_mb(config),
        framework_heap_mb=FRAMEWORK_HEAP_MB,
        framework_direct_mb=FRAMEWORK_DIRECT_MB,
        network_mb=_network_mb(config),
        managed_mb=_managed_mb(config),
        metaspace_mb=METASPACE_MB,
        overhead_mb=OVERHEAD_MB,
        python=sys.executable,
        java_options=" ".join(JAVA_OPTIONS),
    )
    for name in ("log4j-console.properties", "log4j-cli.properties"):
        render("flink-log4j.properties", _conf(layout) / name)
    links = layout.folder("flink", "lib")
    wanted = [
        *(_home() / "lib").glob("*.jar"),
        *(_home() / "opt").glob("flink-python-*.jar"),
        *cached_jars(config.cache_dir, "flink"),
    ]
    for stale in links.iterdir():
        stale.unlink()
    for jar in wanted:
        (links / jar.name).symlink_to(jar)


def flink_environment(layout: Layout) -> dict[str, str]:
    """Return the environment variables that make PyFlink, imported afterwards, a client of this cluster."""
    return JAVA_ENVIRONMENT | {
        "JAVA_HOME": str(java_home()),
        "FLINK_HOME": str(_home()),
        "FLINK_CONF_DIR": str(_conf(layout)),
        "FLINK_LIB_DIR": str(layout.root / "flink" / "lib"),
        "FLINK_PLUGINS_DIR": str(_home() / "plugins"),
        "FLINK_LOG_DIR": str(layout.log),
        # Python functions run beside the TaskManager; otherwise in the client, and fail once that has ended.
        "_python_worker_execution_mode": "process",
    }


def flink_answer(
    config: FlinkConfig, method: str, path: str, body: Any = None, timeout_s: float = PROBE_TIMEOUT_S
) -> tuple[int, Any]:
    """Return the HTTP status and the decoded JSON of the JobManager's answer to `method` `path`.

    Raises `StackError` if it gives none within `timeout_s`.
    """
    address = urlsplit(config.rest_url)
    kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
    connection = None
    try:
        connection = kind(address.hostname or "", address.port, timeout=timeout_s)
        content = None if body is None else json.dumps(body)
        connection.request(method, address.path.rstrip("/") + path, content, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, json.load(response)
    except (OSError, http.client.HTTPException, ValueError) as error:
        shown = without_credentials(config.rest_url)
        raise StackError(
            f"no answer from Flink at {shown}: {error}; start it with `headrace up`, or set flink.rest_url"
        ) from error
    finally:
        if connection is not None:
            connection.close()


def flink_overview(config: FlinkConfig, path: str = "/overview") -> Any:
    """Return the JobManager's answer to GET `path`, or None if it gives none."""
    try:
        status, answer = flink_answer(config, "GET", path)
    except StackError:
        return None
    return answer if status == http.HTTPStatus.OK else None


def taskmanager_registered(config: FlinkConfig, since_ms: int) -> bool:
    """Return whether a TaskManager has been heard of since `since_ms`; a dead one stays listed for a while."""
    answer = flink_overview(config, "/taskmanagers") or {"taskmanagers": []}
    return any(each["timeSinceLastHeartbeat"] >= since_ms for each in answer["taskmanagers"])


def _service(
    layout: Layout,
    name: str,
    main_class: str,
    options: tuple[str, ...],
    collector: tuple[str, ...],
    probe: Probe,
    address: str,
) -> Service:
    logging = _conf(layout) / "log4j-console.properties"
    settings = (f"-Dlog4j2.configurationFile={logging}", f"-Dlog.file={layout.log_of(name)}")
    jars = sorted((layout.root / "flink" / "lib").glob("*.jar"))
    arguments = ("--configDir", str(_conf(layout)))
    return Service(
        name=name,
        argv=java_command(main_class, jars, (*options, *JAVA_OPTIONS, *settings), arguments, collector),
        env=inherited_environment() | flink_environment(layout) | {"MALLOC_ARENA_MAX": "2"},
        probe=probe,
        address=address,
    )


def _require_memory(config: Config) -> None:
    if (needed := _fixed_mb(config) + LEAST_TASK_HEAP_MB) > config.stack.taskmanager_memory_mb:
        raise ConfigError(
            f"stack.taskmanager_memory_mb = {config.stack.taskmanager_memory_mb} is too little for flink.parallelism = "
            f"{config.flink.parallelism}; set it to {needed} or more"
        )


def _task_heap_mb(config: Config) -> int:
    # The client of a cluster elsewhere reads this too, with a parallelism that is no concern of the memory here.
    return max(LEAST_TASK_HEAP_MB, config.stack.taskmanager_memory_mb - _fixed_mb(config))


def _fixed_mb(config: Config) -> int:
    direct = FRAMEWORK_DIRECT_MB + _network_mb(config)
    return METASPACE_MB + OVERHEAD_MB + direct + _managed_mb(config) + FRAMEWORK_HEAP_MB


def _network_mb(config: Config) -> int:
    # Every subtask before an exchange has buffers for every one behind it; 64 MB are enough for four of each.
    return max(LEAST_NETWORK_MB, 4 * config.flink.parallelism**2)


def _direct(size_mb: int) -> str:
    return f"-XX:MaxDirectMemorySize={size_mb}m"


def _managed_mb(config: Config) -> int:
    return MANAGED_MB_PER_SLOT * slots(config)


def _conf(layout: Layout) -> Path:
    return layout.root / "flink" / "conf"


def _home() -> Path:
    # Found without importing the package: only the jobs need that, and it takes seconds.
    spec = find_spec("pyflink")
    if spec is None or spec.origin is None:
        raise StackError("the apache-flink package is not installed; run `make setup`")
    return Path(spec.origin).parent
