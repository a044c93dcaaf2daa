"""How things look: styled words, columns, JSON. The same lines with and without colours.

Styles are words for what is meant, so that a terminal, a pipe and a picture can each have their
own idea of them.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import click
import msgspec

from perdure.core.states import (
    CANCEL_REQUESTED,
    CANCELED,
    FAILED,
    INTERRUPTED,
    LEASED,
    QUEUED,
    READY,
    RETRY_SCHEDULED,
    RUNNING,
    STEP_PENDING,
    SUCCEEDED,
    TIMED_OUT,
    WAITING,
)

Style: TypeAlias = Literal["", "good", "bad", "busy", "waits", "dim", "strong"]

_STYLES: Final[dict[Style, dict[str, Any]]] = {
    "": {},
    "good": {"fg": "green"},
    "bad": {"fg": "red"},
    "busy": {"fg": "cyan"},
    "waits": {"fg": "yellow"},
    "dim": {"dim": True},
    "strong": {"bold": True},
}

# the states of runs and of steps; they share most of their words
_STATES: Final[dict[str, Style]] = {
    QUEUED: "dim",
    READY: "dim",
    LEASED: "busy",
    RUNNING: "busy",
    WAITING: "waits",
    RETRY_SCHEDULED: "waits",
    STEP_PENDING: "waits",
    INTERRUPTED: "bad",
    CANCEL_REQUESTED: "waits",
    SUCCEEDED: "good",
    FAILED: "bad",
    CANCELED: "bad",
    TIMED_OUT: "bad",
}


class Word(NamedTuple):
    """A piece of a line, and what it means to the eye."""

    text: str
    style: Style = ""


Line: TypeAlias = Sequence[Word]


def clean(text: str) -> str:
    r"""Return a text that stays on its line and steers no terminal.

    >>> clean("a\nb\x1b[2J")
    'a b\\x1b[2J'
    """
    flat = " ".join(text.splitlines())
    if flat.isprintable():
        return flat
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in flat)


def state_style(state: str) -> Style:
    """Return the style of a run's or a step's state."""
    return _STATES.get(state, "")


def columns(rows: Sequence[Sequence[Word]], gap: int = 2) -> list[list[Word]]:
    """Return rows whose columns are as wide as their widest cell; the last stays as it is."""
    widths = [
        max(map(len, cells)) for cells in zip(*([w.text for w in r] for r in rows), strict=True)
    ]
    return [
        [
            *(
                Word(w.text.ljust(width + gap), w.style)
                for w, width in zip(row[:-1], widths, strict=False)
            ),
            row[-1],
        ]
        for row in rows
    ]


def cut(text: str, most: int) -> str:
    """Return a text that has at most so many characters.

    >>> cut("reserve, invoice, charge", 10)
    'reserve, …'
    """
    return text if len(text) <= most else text[: max(most - 1, 0)] + "…"


def fit(line: Line) -> list[Word]:
    """Return a line cut to the terminal's width; a pipe takes it whole."""
    left = width() if sys.stdout.isatty() else sys.maxsize
    words = []
    for word in line:
        words.append(Word(cut(word.text, left), word.style))
        left -= len(word.text)
        if left <= 0:
            break
    return words


def put(lines: Iterable[Line]) -> None:
    """Print lines, coloured where somebody looks."""
    for line in lines:
        if colourful():
            text = "".join(click.style(w.text, **_STYLES[w.style]) for w in fit(line))
            click.echo(text.rstrip(), color=True)
        else:
            click.echo("".join(w.text for w in fit(line)).rstrip())


def put_json(value: Any) -> None:
    """Print a value as JSON: indented for a terminal, on one line for a program."""
    data = msgspec.json.encode(value)
    click.echo(msgspec.json.format(data, indent=2) if sys.stdout.isatty() else data)


def hint(text: str) -> None:
    """Say on stderr what one could do next."""
    click.echo(text, err=True)


def colourful() -> bool:
    """Say whether stdout is a terminal that wants colours."""
    return drawable() and not os.environ.get("NO_COLOR")


def drawable() -> bool:
    """Say whether stdout is a terminal on which one can draw."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def width() -> int:
    """Return how many characters a line of the terminal has."""
    return shutil.get_terminal_size((100, 24)).columns
