"""`perdure verify`: folds the log again and compares it with what the store keeps beside it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from perdure.cli.options import at_store, of_tenant, opened
from perdure.cli.paper import Line, Word, clean, put, put_json
from perdure.cli.refusals import REFUSED
from perdure.verify import Report, verify_run, verify_store


@click.command()
@click.argument("run_id", metavar="[ID]", required=False)
@of_tenant
@at_store
def verify(run_id: str | None, store: str, tenant: str, *, as_json: bool) -> int:
    """Prove that what is stored is what happened: of one run, or of all.

    Nothing is changed. The exit code is 0 when all is sound, 1 when something was found, 2 when
    one could not look.
    """
    with opened(store, tenant) as app:
        if run_id is not None:
            report = verify_run(app.store, tenant, run_id)
        else:
            with _progress() as progress:
                report = verify_store(app.store, tenant, progress=progress)
    if as_json:
        put_json(report)
    else:
        put(reported(report))
    return 0 if report.sound else REFUSED


def reported(report: Report) -> list[Line]:
    """Return a report as lines: its sum, then each finding."""
    first, *others = str(report).splitlines()
    head = Word(first, "good" if report.sound else "bad")
    return [[head], *([Word("  " + clean(line.strip()))] for line in others)]


@contextmanager
def _progress() -> Iterator[Callable[[int], None] | None]:
    """Show how far it has come, where somebody looks."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    seen = TextColumn("{task.completed:,.0f} runs")
    bar = Progress(
        TextColumn("verifying"),
        BarColumn(bar_width=32),
        seen,
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        # a store does not know how many runs it has before it has listed them
        task = bar.add_task("", total=None)
        yield lambda done: bar.update(task, completed=done)
