"""`perdure list`, `show`, `explain`: what is there, in people's words or as JSON."""

from __future__ import annotations

import shlex
import sys
import time
from typing import Final

import click
import msgspec

from perdure.app import App
from perdure.cli.events import what
from perdure.cli.options import again, at_store, of_tenant, opened
from perdure.cli.paper import Line, Style, Word, clean, columns, hint, put, put_json, state_style
from perdure.cli.steps import Step, steps_of
from perdure.core.durations import human
from perdure.core.errors import NoSuchRun
from perdure.core.events import Recorded
from perdure.core.explain import Explanation
from perdure.core.law import RUN_LAW
from perdure.core.limits import PAGE_RUNS
from perdure.core.record import Record, moment
from perdure.core.states import ALL, HELD, WAITING, State
from perdure.profiles.standard import WORDS

_SHOWN: Final = tuple(dict.fromkeys([*WORDS.values(), *ALL]))
_LIMIT: Final = 50


# list -----------------------------------------------------------------------------------------


@click.command("list")
@click.option(
    "--status",
    multiple=True,
    type=click.Choice(_SHOWN),
    metavar="STATUS",
    help="Only runs in this status; may be given again. One of: " + ", ".join(_SHOWN) + ".",
)
@click.option(
    "--limit",
    type=click.IntRange(1, PAGE_RUNS),
    default=_LIMIT,
    show_default=True,
    help="At most so many.",
)
@click.option("--before", metavar="ID", help="Only runs older than this one: the next page.")
@of_tenant
@at_store
def list_(
    status: tuple[str, ...],
    limit: int,
    before: str | None,
    store: str,
    tenant: str,
    *,
    as_json: bool,
) -> None:
    """List runs, the newest first."""
    with opened(store, tenant) as app:
        runs = app.runs(status=_states(status), limit=limit, before=before).wait()
    if as_json:
        put_json(runs)
        return
    if not runs:
        hint(_nothing_here(status, before))
        return
    now = _now()
    put(columns([_HEAD, *(_row(run, now) for run in runs)]))
    if len(runs) == limit and sys.stdout.isatty():
        hint(again(f"older ones: perdure list --before {runs[-1].id}"))


_HEAD: Final = tuple(
    Word(word, "dim") for word in ("id", "workflow", "status", "created", "changed", "")
)


def _row(run: Record, now: int) -> list[Word]:
    return [
        Word(run.id),
        Word(clean(run.workflow)),
        Word(run.status, state_style(run.state)),
        Word(moment(run.created_at), "dim"),
        # of a run that is held, a list knows the head alone: its last step may be younger
        Word("" if run.state in HELD else _ago(run.updated_at, now), "dim"),
        Word(clean(_waits_for(run))),
    ]


def _waits_for(run: Record) -> str:
    """What a waiting run waits for."""
    if run.state != WAITING:
        return ""
    kinds = (f"{s.kind} '{s.name}'" if s.kind != "sleep" else "sleep" for s in run.steps if s.kind)
    return ", ".join(kinds)


def _states(words: tuple[str, ...]) -> list[State] | None:
    """A word that people see may stand for several states: queued is also ready."""
    return [s for s in ALL if s in words or WORDS.get(s) in words] if words else None


def _nothing_here(status: tuple[str, ...], before: str | None) -> str:
    if before is not None:
        return "no older runs"
    if status:
        return f"no run is {' or '.join(status)}"
    return (
        "no runs yet. Start one: perdure run module:app WORKFLOW '{\"argument\": 1}'\n"
        "or see what a run is: perdure demo"
    )


# show -----------------------------------------------------------------------------------------


class _Shown(msgspec.Struct, frozen=True):
    run: Record
    because: Recorded | None
    steps: list[Step]
    input: msgspec.Raw
    result: msgspec.Raw | None
    error: msgspec.Raw | None


@click.command()
@click.argument("run_id", metavar="ID")
@of_tenant
@at_store
def show(run_id: str, store: str, tenant: str, *, as_json: bool) -> None:
    """Show one run: how it stands, its steps, its input, its result or its error."""
    with opened(store, tenant) as app:
        shown = _look(app, run_id)
    if as_json:
        put_json(shown)
        return
    now = _now()
    put(columns(_facts(shown, now)))
    if shown.steps:
        click.echo()
        rows = [_step_row(step, now) for step in shown.steps]
        head = [Word(word, "dim") for word in ("step", "state", "began", "at", "took", "")]
        put(columns([head, *rows]))


def _look(app: App, run_id: str) -> _Shown:
    run = app.get(run_id).wait().record().wait()
    payloads = app.store.payloads(app.tenant, run_id)
    if payloads is None:
        raise NoSuchRun(run_id)
    events = list(app.events(run_id))
    because = next((e for e in reversed(events) if e.type in RUN_LAW), None)
    return _Shown(run, because, steps_of(events), *payloads)


def _facts(shown: _Shown, now: int) -> list[Line]:
    run = shown.run
    facts: list[tuple[str, str]] = [("run", run.id), ("workflow", run.workflow)]
    facts.append(("status", run.status))
    for name in ("created_at", "started_at", "finished_at", "deadline", "claim_at", "due_at"):
        at: int | None = getattr(run, name)
        if at is not None:
            facts.append((name.removesuffix("_at"), f"{moment(at)}  {_ago(at, now)}"))
    facts.append(("worker", run.worker or "nobody holds it"))
    facts.append(("events", str(run.version)))
    if run.losses:
        facts.append(("lost", f"{run.losses} times since its last step"))
    if shown.because is not None:
        told = what(shown.because)
        facts.append(("because", f"{shown.because.type}: {told}" if told else shown.because.type))
    if run.untaken_signals:
        facts.append(("signals", ", ".join(run.untaken_signals)))
    for name in ("input", "result", "error"):
        payload: msgspec.Raw | None = getattr(shown, name)
        if payload is not None:
            facts.append((name, bytes(payload).decode()))
    styles: dict[str, Style] = {"status": state_style(run.state), "error": "bad"}
    return [[Word(name, "dim"), Word(clean(value), styles.get(name, ""))] for name, value in facts]


def _step_row(step: Step, now: int) -> list[Word]:
    took = ""
    if step.began_at is not None:
        took = human((now if step.ended_at is None else step.ended_at) - step.began_at)
    began = (
        "" if step.kind else {1: "once", 2: "twice"}.get(step.attempts, f"{step.attempts} times")
    )
    return [
        Word(clean(step.id)),
        Word(step.state, state_style(step.state)),
        Word(began, "bad" if step.lost_by else "dim"),
        Word("" if step.began_at is None else moment(step.began_at), "dim"),
        Word(took, "dim"),
        Word(clean(_outcome(step, now))),
    ]


def _outcome(step: Step, now: int) -> str:
    """The most telling thing about a step."""
    if step.error is not None:
        later = "" if step.next_run_at is None else f"; again {_ago(step.next_run_at, now)}"
        return f"{step.error.code}: {step.error.message}{later}"
    if step.output is not None:
        return bytes(step.output).decode()
    if step.shows is not None:
        return f"shows {bytes(step.shows).decode()}"
    return ""


# explain --------------------------------------------------------------------------------------


@click.command()
@click.argument("run_id", metavar="ID")
@of_tenant
@at_store
def explain(run_id: str, store: str, tenant: str, *, as_json: bool) -> None:
    """Say why a run is where it is, what happens next, and what one can do."""
    with opened(store, tenant) as app:
        explanation = app.explain(run_id).wait()
    if as_json:
        put_json(explanation)
        return
    put(explained(explanation))
    for command in _possible(explanation):
        put([[Word("You can: ", "dim"), Word(again(command))]])


def explained(explanation: Explanation) -> list[Line]:
    """Return an explanation as lines, its first one the one to read."""
    first, *others = str(explanation).splitlines()
    return [[Word(clean(first), "strong")], *([Word(clean(line))] for line in others)]


def _possible(it: Explanation) -> list[str]:
    gates = [a for a in it.awaits if a.kind == "approval"]
    name = "" if len(gates) == 1 else " GATE"
    commands = [f"perdure approve {it.run_id}{name}", f"perdure approve {it.run_id}{name} --no"]
    found = commands if gates else []
    found += [
        f"perdure signal {it.run_id} {shlex.quote(a.name)}" for a in it.awaits if a.kind == "signal"
    ]
    if "Cancel" in it.possible:
        found.append(f"perdure cancel {it.run_id}")
    return found


# time -----------------------------------------------------------------------------------------


def _now() -> int:
    return time.time_ns() // 1000


def _ago(at: int, now: int) -> str:
    return f"{human(now - at)} ago" if at <= now else f"in {human(at - now)}"
