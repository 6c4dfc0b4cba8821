"""Fills the configuration templates of ops/ and writes the result into the state folder."""

from pathlib import Path
from string import Template

from runtime.files import write_atomically
from stack.layout import OPS


def render(template: str, target: Path, **values: object) -> Path:
    """Write ops/`template` with every ${name} replaced to `target`; raise KeyError for a name without a value."""
    text = Template((OPS / template).read_text(encoding="utf-8")).substitute(values)
    write_atomically(target, text.encode())
    return target
