"""Every SQL statement there is, by dialect: `queries.sql` asks by name, numbered files migrate."""

from __future__ import annotations

import re
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)


def queries(dialect: str) -> dict[str, str]:
    """Return a dialect's statements by name."""
    text = files(__name__).joinpath(dialect, "queries.sql").read_text(encoding="utf-8")
    pieces = _NAME.split(text)
    return {name: _bare(body) for name, body in zip(pieces[1::2], pieces[2::2], strict=True)}


def migrations(dialect: str) -> list[tuple[int, list[str]]]:
    """Return a dialect's migrations in order: their numbers and their statements."""
    folder = files(__name__).joinpath(dialect)
    names = sorted(f.name for f in folder.iterdir() if f.name[:4].isdigit())
    return [
        (int(name[:4]), _statements(folder.joinpath(name).read_text(encoding="utf-8")))
        for name in names
    ]


def _bare(text: str) -> str:
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("--"))
    return "\n".join(lines).strip().rstrip(";")


def _statements(text: str) -> list[str]:
    """Split a file at the semicolons that end a line, as our files write them."""
    return [s.strip() for s in re.split(r";[ \t]*$", _bare(text), flags=re.MULTILINE) if s.strip()]
