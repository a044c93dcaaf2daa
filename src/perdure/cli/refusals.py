"""What went wrong, in one line for people, what to do about it, and a code for scripts."""

from __future__ import annotations

import os
import sys
from typing import Final

import click

from perdure.cli.paper import clean
from perdure.core.errors import (
    BadName,
    BadPayload,
    Closed,
    NoSuchGate,
    NoSuchRun,
    NotAllowed,
    PerdureError,
    Refused,
    RunFailed,
    Unsound,
)

REFUSED: Final = 1
COULD_NOT_LOOK: Final = 2
INTERRUPTED: Final = 130
NOBODY_READS: Final = 141

# the first row that fits; what is asked in a way nobody could answer was not refused by a run
_CODES: Final[tuple[tuple[type[PerdureError], int], ...]] = (
    (NoSuchRun, COULD_NOT_LOOK),
    (BadName, COULD_NOT_LOOK),
    (BadPayload, COULD_NOT_LOOK),
    (Refused, REFUSED),
    (RunFailed, REFUSED),
    (PerdureError, COULD_NOT_LOOK),
)

# where the message itself does not say it already
_ADVICE: Final[dict[type[PerdureError], str]] = {
    NoSuchRun: "'perdure list' shows the runs there are; --tenant names another tenant",
    NotAllowed: "'perdure explain {0.run_id}' says why it is where it is",
    NoSuchGate: "'perdure explain {0.run_id}' says what it waits for",
    RunFailed: "'perdure show {0.run_id}' has its steps and the whole error",
    Closed: "it was on its way out already; give the command again",
    Unsound: "this is a defect of perdure; 'perdure verify {0.run_id}' says more, please report it",
}


def told(error: Exception) -> int:
    """Say an error on stderr, and what to do about it; return the code to exit with."""
    match error:
        case click.Abort():
            return INTERRUPTED
        case BrokenPipeError():
            _close_stdout()
            return NOBODY_READS
        case click.ClickException():
            return _told_usage(error)
        case PerdureError():
            code = next(code for kind, code in _CODES if isinstance(error, kind))
            advice = next((a for kind, a in _ADVICE.items() if isinstance(error, kind)), "")
            say_error(str(error), advice.format(error))
            return code
        case OSError() if error.filename is not None:
            say_error(f"{error.filename}: {error.strerror}")
            return COULD_NOT_LOOK
        case _:
            say_error(
                f"{type(error).__name__}: {error}",
                "nobody foresaw this: PERDURE_DEBUG=1 shows where it happened; please report it",
            )
            return COULD_NOT_LOOK


def say_error(message: str, advice: str = "") -> None:
    """Print one line that says what is wrong, and perhaps one that says what to do."""
    click.echo(f"error: {clean(message)}", err=True)
    if advice:
        click.echo(f"  {clean(advice)}", err=True)


def _told_usage(error: click.ClickException) -> int:
    say_error(error.format_message())
    context = getattr(error, "ctx", None)
    if context is not None:
        click.echo(f"  try: {context.command_path} --help", err=True)
    return COULD_NOT_LOOK


def _close_stdout() -> None:
    """Whoever read our output has gone; nothing may complain when the interpreter ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
