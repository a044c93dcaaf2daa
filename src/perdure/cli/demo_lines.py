"""The demo as lines: steps, timeline, proof; the same for a pipe, a screen and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from perdure.cli.demo_proof import Claim
from perdure.cli.demo_scene import GATE, PLAN, VICTIM, Scene
from perdure.cli.events import event_style
from perdure.cli.look import explained
from perdure.cli.paper import Line, Style, Word
from perdure.cli.steps import Step
from perdure.core.events import Recorded, StepReclaimed, StepStarted, StepSucceeded
from perdure.core.states import STEP_RUNNING, STEP_WAITING

# wide enough for all that the demo shows, so that nothing moves when something comes
_STEP_WIDTH: Final = 17
_WHO_WIDTH: Final = 16
_TYPE_WIDTH: Final = 19


def title(scene: Scene) -> list[Word]:
    """Return the first line."""
    return [
        Word("perdure demo", "strong"),
        Word(f"   a purchase outlives its worker {scene.elapsed:>10.1f}s", "dim"),
    ]


# the steps ------------------------------------------------------------------------------------


def steps(scene: Scene) -> list[Line]:
    """Return a line a step: those of the plan, and what came instead."""
    names = [*PLAN, *(name for name in scene.steps if name not in PLAN)]
    return [_row(*_step(scene, name)) for name in names]


def _row(mark: Word, name: str, took_us: int | None, who: str, note: Word) -> list[Word]:
    took = "" if took_us is None else _seconds(took_us)
    quiet = mark.style not in {"good", ""}
    return [
        Word("  "),
        mark,
        Word(f"  {name:<{_STEP_WIDTH}}", mark.style if quiet else ""),
        Word(f"{took:>6}  ", "dim"),
        Word(f"{who:<{_WHO_WIDTH}}"),
        note,
    ]


_Row: TypeAlias = tuple[Word, str, int | None, str, Word]


def _step(scene: Scene, name: str) -> _Row:
    step, pid = scene.steps.get(name), scene.running(name)
    if step is not None and step.ended_at is not None:
        return _ended(scene, step)
    if step is not None and step.state == STEP_WAITING:
        waited = scene.explanation.now - (step.began_at or 0)
        return Word("?", "waits"), name, waited, "nobody", Word("a person decides", "waits")
    if pid is not None:
        return _running(scene, name, pid)
    if step is not None and step.state == STEP_RUNNING:
        return Word("✗", "bad"), name, None, scene.who(step.by), Word("killed", "bad")
    return Word("·", "dim"), name, None, "", Word("")


def _ended(scene: Scene, step: Step) -> _Row:
    took = (step.ended_at or 0) - (step.began_at or 0)
    mark = Word("✓", "good") if step.error is None else Word("✗", "bad")
    if step.kind is not None:
        said = "yes" if step.output is not None and bytes(step.output) == b"true" else "no"
        return mark, step.id, took, scene.who(step.ended_by), Word(f"said {said}", "dim")
    note = ", ".join(f"again, after {scene.who(worker)}" for worker in step.lost_by)
    return mark, step.id, took, scene.who(step.by), Word(note, "busy")


def _running(scene: Scene, name: str, pid: int) -> _Row:
    """A body that runs: its own mark says so before the store does."""
    note = ""
    if scene.killed is not None and scene.has("step.started", name):
        note = f"again, after process {scene.killed}"
    elif scene.has("step.started", name):
        note = "its start is on record"
    took = round((scene.elapsed - scene.begun[name, pid]) * 1_000_000)
    return Word("●", "busy"), name, took, f"process {pid}", Word(note, "busy")


# the rest -------------------------------------------------------------------------------------


def story(scene: Scene) -> list[Line]:
    """Return what the narrator says."""
    return [[Word("  » ", "dim"), Word(scene.told)]]


def present(scene: Scene) -> list[Line]:
    """Return the run's own explanation of itself."""
    return [[Word("  "), *words] for words in explained(scene.explanation)]


def timeline(scene: Scene, most: int | None = None) -> list[Line]:
    """Return a line an event, or the last ones if there is no room for all."""
    rows: list[tuple[int, Line]]
    rows = [(event.at, _event(scene, event)) for event in scene.events]
    if scene.killed is not None:  # no event of the run: nobody could have written it
        rows.append((scene.killed_at, _kill(scene)))
    shown = [row for _, row in sorted(rows, key=lambda row: row[0])]
    return shown if most is None else shown[-most:] if most > 0 else []


def _event(scene: Scene, event: Recorded) -> list[Word]:
    who = scene.who(event.actor)
    return [
        _since_start(scene, event.at),
        Word(f"{event.type:<{_TYPE_WIDTH}}", event_style(event.type)),
        Word(f"{getattr(event.event, 'step', ''):<{_STEP_WIDTH}}"),
        Word(f"{who:<{_WHO_WIDTH}}", "dim" if who == f"process {scene.killed}" else ""),
        Word(_note(scene, event), "dim"),
    ]


def _kill(scene: Scene) -> list[Word]:
    what = f"{'kill -9':<{_TYPE_WIDTH}}{VICTIM:<{_STEP_WIDTH}}process {scene.killed}"
    return [_since_start(scene, scene.killed_at), Word(what, "bad")]


def _since_start(scene: Scene, at: int) -> Word:
    return Word(f" {(at - scene.events[0].at) / 1_000_000:6.2f}s  ", "dim")


def _note(scene: Scene, event: Recorded) -> str:
    """What an event's type and step do not say."""
    match event.event:
        case StepStarted(began_at=began_at) | StepReclaimed(began_at=began_at):
            alone = [e for e in scene.events if e.command_id == event.command_id] == [event]
            return f"began {_seconds(event.at - began_at)} before" if alone else ""
        case StepSucceeded(step=step) if scene.steps[step].kind is None:
            return f"took {_seconds(event.at - (scene.steps[step].began_at or 0))}"
    return getattr(event.event, "reason", "")


def _seconds(duration_us: int) -> str:
    return f"{duration_us / 1_000_000:.1f}s"


def question(scene: Scene, left_s: float, *, person: bool) -> list[Line]:
    """Return the approval as a person sees it."""
    gate = scene.steps.get(GATE)
    shows = "" if gate is None or gate.shows is None else bytes(gate.shows).decode()
    keys = "y releases it, n gives the money back" if person else "nobody is here to press y or n"
    return [
        [Word("  ? ", "waits"), Word(f"{GATE}: ", "waits"), Word(shows)],
        [Word(f"    {keys}; in {left_s:.0f} s the demo says yes itself", "dim")],
    ]


def proven(claims: Sequence[Claim]) -> list[Line]:
    """Return a line a claim."""
    marks: dict[bool, tuple[str, Style]] = {True: ("✓", "good"), False: ("✗", "bad")}
    return [[Word("  "), Word(*marks[claim.true]), Word(f" {claim.text}")] for claim in claims]
