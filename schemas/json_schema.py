"""Writes one JSON Schema file per wire type, for programs in other languages; `--check` only compares.

What a schema cannot say, and the codec refuses nevertheless: a value above `codec.MAX_MESSAGE_BYTES`, an id of at most
256 characters but more bytes, an integer written as 1.0, and a `ts` ahead of the clock.
"""

import sys
from pathlib import Path

import msgspec

from schemas.topics import TOPICS

FOLDER = Path(__file__).parent / "generated"
DIALECT = "https://json-schema.org/draft/2020-12/schema"

KINDS: tuple[type[msgspec.Struct], ...] = tuple(dict.fromkeys(topic.kind for topic in TOPICS if topic.kind))
"""The wire types, each once."""


def json_schema(kind: type[msgspec.Struct]) -> bytes:
    """Return the JSON Schema of one wire type as an indented text."""
    return msgspec.json.format(msgspec.json.encode({"$schema": DIALECT} | msgspec.json.schema(kind)), indent=2) + b"\n"


def wanted_files() -> dict[Path, bytes]:
    """Return every file under `generated/` with its content."""
    return {FOLDER / f"{kind.__name__}.json": json_schema(kind) for kind in KINDS}


def stale_files() -> list[Path]:
    """Return the files that are missing, differ from the wire types, or belong to none."""
    wanted = wanted_files()
    present = {file: file.read_bytes() for file in FOLDER.glob("*.json")}
    return sorted(file for file in wanted.keys() | present.keys() if wanted.get(file) != present.get(file))


def main(arguments: list[str]) -> int:
    """Write the files, or with --check report those that are stale; return the exit status."""
    stale = stale_files()
    if arguments == ["--check"]:
        for file in stale:
            print(f"stale: {file.name}; run `python -m schemas.json_schema`")  # noqa: T201
        return 1 if stale else 0
    wanted = wanted_files()
    FOLDER.mkdir(exist_ok=True)
    for file in stale:
        if file in wanted:
            file.write_bytes(wanted[file])
        else:
            file.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
