"""`perdure events`: what happened to a run, one line an event, to its end if one likes."""

from __future__ import annotations

from typing import Final

import click
import msgspec

from perdure.cli.options import at_store, of_tenant, opened
from perdure.cli.paper import Style, Word, clean, put
from perdure.core.events import Failure, Recorded
from perdure.core.record import moment

_WORKER_CHARACTERS: Final = 26
_TYPE_CHARACTERS: Final = 20

# what an event's line says beside its type, in this order, where the event has it
_TOLD: Final = ("step", "workflow", "kind", "name", "key", "reason", "error")

_STYLES: Final[dict[str, Style]] = {
    "run.created": "strong",
    "run.waiting": "waits",
    "run.interrupted": "bad",
    "run.cancel_requested": "waits",
    "run.succeeded": "good",
    "run.failed": "bad",
    "run.canceled": "bad",
    "run.timed_out": "bad",
    "step.waiting": "waits",
    "step.reclaimed": "bad",
    "step.failed": "bad",
    "step.retry_scheduled": "waits",
}


@click.command()
@click.argument("run_id", metavar="ID")
@click.option("--follow", "-f", is_flag=True, help="Go on until the run is over.")
@click.option(
    "--after",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Only events after this number.",
)
@of_tenant
@at_store
def events(
    run_id: str, after: int, store: str, tenant: str, *, follow: bool, as_json: bool
) -> None:
    """Print what happened to a run, event by event; with --json one JSON object a line."""
    with opened(store, tenant) as app:
        for event in app.events(run_id, after, follow=follow):
            if as_json:
                click.echo(msgspec.json.encode(event))
            else:
                put([line(event)])


def line(event: Recorded) -> list[Word]:
    """Return an event as a line whose columns stand where those of all others do."""
    return [
        Word(f"{event.seq:>5}  ", "dim"),
        Word(f"{moment(event.at)}  ", "dim"),
        Word(f"{event.type:<{_TYPE_CHARACTERS}}  ", event_style(event.type)),
        Word(f"{clean(event.actor):<{_WORKER_CHARACTERS}}  ", "dim"),
        Word(clean(what(event))),
    ]


def event_style(kind: str) -> Style:
    """Return the style of a type of event."""
    return _STYLES.get(kind, "")


def what(event: Recorded) -> str:
    """Return what an event is about: its step first, its reason last."""
    told = []
    for name in _TOLD:
        value = getattr(event.event, name, None)
        if isinstance(value, Failure):
            value = f"{value.code}: {value.message}"
        if value and value not in told:
            told.append(str(value))
    return ", ".join(told)
