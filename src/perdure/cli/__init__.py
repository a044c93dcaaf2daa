"""THE COMMAND: what a person at a terminal types, and a script too.

Nothing here decides anything: a command opens an app, asks it one thing, and prints the answer
for people or as JSON. A command's file is imported when it is asked for and not before, because
shells that complete words start this program again and again.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, Final, NoReturn, cast

import click

# a command: the file it stands in, its name there, and its line in the list of commands
_COMMANDS: Final[dict[str, dict[str, tuple[str, str, str]]]] = {
    "Begin": {
        "demo": ("perdure.cli.demo", "demo", "See a run survive its worker, in ten seconds."),
        "run": ("perdure.cli.run", "run", "Start a run; with --wait work on it here."),
        "work": ("perdure.cli.work", "work", "Work on runs until told to stop."),
    },
    "Look": {
        "list": ("perdure.cli.look", "list_", "List runs, the newest first."),
        "show": ("perdure.cli.look", "show", "Show one run: its steps, input, result, error."),
        "explain": (
            "perdure.cli.look",
            "explain",
            "Say why a run is where it is, and what is next.",
        ),
        "events": ("perdure.cli.events", "events", "Print what happened to a run, event by event."),
        "verify": ("perdure.cli.verify", "verify", "Prove that what is stored is what happened."),
    },
    "Speak": {
        "approve": ("perdure.cli.speak", "approve", "Answer an approval a run waits for."),
        "signal": ("perdure.cli.speak", "signal", "Tell a run something by name."),
        "cancel": ("perdure.cli.speak", "cancel", "Ask a run to stop."),
    },
}
_BY_NAME: Final = {name: entry for part in _COMMANDS.values() for name, entry in part.items()}
_PROGRAM: Final = __name__.partition(".")[0]
_NAME_WIDTH: Final = max(map(len, _BY_NAME))


class _Commands(click.Group):
    """The commands of the table, imported one at a time."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:  # click would make a refusal of it
            from perdure.cli.refusals import told

            raise click.exceptions.Exit(told(error)) from error

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_BY_NAME)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _BY_NAME:
            return None
        module, name, _ = _BY_NAME[cmd_name]
        return cast("click.Command", getattr(importlib.import_module(module), name))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for part, commands in _COMMANDS.items():
            with formatter.section(part):
                formatter.write_dl(
                    [(name.ljust(_NAME_WIDTH), line) for name, (_, _, line) in commands.items()]
                )


@click.command(
    cls=_Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="New here? perdure demo",
)
@click.version_option(vars(sys.modules[_PROGRAM])["__version__"], message="%(prog)s %(version)s")
@click.pass_context
def commands(ctx: click.Context) -> None:
    """Runs of Python code that last: through crashes, deploys, and waits for people.

    The store is named with --store, or once for all with PERDURE_STORE:
    sqlite:///runs.db lies in this folder, sqlite:////var/lib/runs.db anywhere.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main() -> NoReturn:
    """Do what the command line says; end with 0 done, 1 refused, 2 could not look."""
    sys.exit(answer(sys.argv[1:]))


def answer(arguments: Sequence[str]) -> int:
    """Do what the arguments say and return the exit code; say in a line what went wrong."""
    for stream in (sys.stdout, sys.stderr):
        _never_fail_on_a_sign(stream)
    try:
        code = commands.main(list(arguments), prog_name=_PROGRAM, standalone_mode=False)
        sys.stdout.flush()
    except Exception as error:
        if os.environ.get("PERDURE_DEBUG"):
            raise
        from perdure.cli.refusals import told

        return told(error)
    return code if isinstance(code, int) else 0


def _never_fail_on_a_sign(stream: Any) -> None:
    """Let a terminal that cannot show a sign show a question mark in its place."""
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="replace")
