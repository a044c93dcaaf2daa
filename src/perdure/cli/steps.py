"""A run's steps as a person thinks of them: one row a step, the finished ones too.

A run keeps its open steps alone; what became of the others stands in its events.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from perdure.core import events as e
from perdure.core.events import Failure, Recorded
from perdure.core.law import STEP_LAW


class Step(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step: where it stands, how often it began, and what came of it."""

    id: str
    state: str
    attempts: int = 0
    kind: str | None = None
    name: str = ""
    began_at: int | None = None
    ended_at: int | None = None
    next_run_at: int | None = None
    expires_at: int | None = None
    # who began it last, who lost it before that, and who ended it
    by: str = ""
    lost_by: tuple[str, ...] = ()
    ended_by: str = ""
    shows: msgspec.Raw | None = None
    schema: msgspec.Raw | None = None
    output: msgspec.Raw | None = None
    error: Failure | None = None


def steps_of(events: Iterable[Recorded]) -> list[Step]:
    """Return the steps that a run's events speak of, in the order in which they began."""
    steps: dict[str, Step] = {}
    payloads: dict[int, msgspec.Raw] = {}
    for it in events:
        if isinstance(it.event, e.SignalReceived):
            payloads[it.seq] = it.event.payload
        if it.type in STEP_LAW:
            step_id: str = it.event.step  # type: ignore[union-attr]
            before = steps.get(step_id, Step(step_id, "absent"))
            after = replace(before, state=STEP_LAW[it.type][0])
            steps[step_id] = _taken_in(after, it, payloads)
    return list(steps.values())


def _taken_in(step: Step, it: Recorded, payloads: dict[int, msgspec.Raw]) -> Step:
    match it.event:
        case e.StepStarted(began_at=began_at, attempts=attempts):
            return replace(step, began_at=began_at, attempts=attempts, by=it.actor)
        case e.StepReclaimed(began_at=began_at, attempts=attempts):
            lost_by = (*step.lost_by, step.by)
            return replace(step, began_at=began_at, attempts=attempts, by=it.actor, lost_by=lost_by)
        case e.StepSucceeded(output=output, signal=signal):
            kept = output if signal is None else payloads.get(signal)
            return replace(
                step, ended_at=it.at, ended_by=it.actor, output=kept or None, next_run_at=None
            )
        case e.StepFailed(error=error):
            return replace(step, ended_at=it.at, ended_by=it.actor, error=error, next_run_at=None)
        case e.StepRetryScheduled(error=error, next_run_at=next_run_at):
            return replace(step, error=error, next_run_at=next_run_at)
        case e.StepWaiting(kind=kind, name=name, expires_at=expires_at, shows=shows, schema=schema):
            return replace(
                step,
                kind=kind,
                name=name,
                began_at=it.at,
                expires_at=expires_at,
                shows=shows or None,
                schema=schema or None,
            )
        case e.StepCanceled():
            return replace(step, ended_at=it.at, ended_by=it.actor)
    return step
