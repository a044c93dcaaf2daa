"""What each event leaves on the run, once the law has let it pass.

Called by `evolve` alone. `target` is the state the law's table names for the event.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from perdure.core import events as e
from perdure.core.run import Asked, Entered, OpenStep, Run, Untaken
from perdure.core.states import STEP_PENDING, STEP_RUNNING, STEP_WAITING, TERMINAL, State

Absorb = Callable[[Run, Any, Any], Run]


def _enter(run: Run, event: e.AnyEvent, target: State, **changed: Any) -> Run:
    """Enter a state. Whoever held the run lets go unless the event names a holder."""
    seq = run.version + 1
    ends = target in TERMINAL or run.profile.ends_in(target)
    return replace(
        run,
        state=target,
        version=seq,
        updated_at=event.at,
        entered=Entered(seq, e.TYPE[type(event)], event.at),
        worker=changed.pop("worker", None),
        wants_at=changed.pop("wants_at", None),
        finished_at=event.at if ends else None,
        **changed,
    )


def _created(run: Run, event: e.RunCreated, target: State) -> Run:
    return _enter(
        run,
        event,
        target,
        workflow=event.workflow,
        queue=event.queue,
        priority=event.priority,
        attempt=event.attempt,
        trace_id=event.trace_id,
        created_at=event.at,
        deadline=event.deadline,
        wants_at=event.claim_at,
    )


def _leased(run: Run, event: e.RunLeased, target: State) -> Run:
    return _enter(run, event, target, worker=event.worker, token=event.token)


def _started(run: Run, event: e.RunStarted | e.RunClaimed, target: State) -> Run:
    started_at = event.at if run.started_at is None else run.started_at
    return _enter(run, event, target, worker=event.worker, token=event.token, started_at=started_at)


def _released(run: Run, event: e.RunReleased, target: State) -> Run:
    losses = run.losses + 1 if event.lost else run.losses
    return _enter(run, event, target, wants_at=event.claim_at, losses=losses)


def _waiting(run: Run, event: e.RunWaiting, target: State) -> Run:
    return _enter(run, event, target)


def _wait_completed(run: Run, event: e.RunWaitCompleted, target: State) -> Run:
    return _enter(run, event, target, wants_at=event.claim_at)


def _retry_scheduled(run: Run, event: e.RunRetryScheduled, target: State) -> Run:
    return _enter(run, event, target, wants_at=event.next_retry_at)


def _interrupted(run: Run, event: e.RunInterrupted, target: State) -> Run:
    wants_at = None if run.profile.ends_in(target) else event.at
    return _enter(run, event, target, wants_at=wants_at, losses=run.losses + 1)


def _cancel_requested(run: Run, event: e.RunCancelRequested, target: State) -> Run:
    asked = run.asked or Asked(event.at, event.grace_until, event.reason)
    return _enter(run, event, target, worker=run.worker, asked=asked)


def _over(run: Run, event: e.AnyEvent, target: State) -> Run:
    return _enter(run, event, target)


def _put(run: Run, event: e.AnyEvent, step: OpenStep, before: OpenStep | None) -> Run:
    """Keep the open steps in the order in which they were first opened."""
    if before is None:
        steps = (*run.open, step)
    else:
        steps = tuple(step if s is before else s for s in run.open)
    return replace(run, open=steps, version=run.version + 1, updated_at=event.at)


def _step_started(run: Run, event: e.StepStarted, _target: object) -> Run:
    before = run.step(event.step)
    failures = 0 if before is None else before.failures
    step = OpenStep(
        event.step,
        STEP_RUNNING,
        event.attempts,
        failures,
        run.token,
        event.began_at,
        None,
        event.max_attempts,
        event.timeout,
        event.digest,
    )
    return _put(run, event, step, before)


def _step_reclaimed(run: Run, event: e.StepReclaimed, _target: object) -> Run:
    before = _open(run, event.step)
    step = replace(
        before,
        attempts=event.attempts,
        token=run.token,
        started_at=event.began_at,
        digest=event.digest or before.digest,
    )
    return _put(run, event, step, before)


def _step_retry_scheduled(run: Run, event: e.StepRetryScheduled, _target: object) -> Run:
    before = _open(run, event.step)
    step = replace(
        before, state=STEP_PENDING, failures=event.failures, next_run_at=event.next_run_at
    )
    return _put(run, event, step, before)


def _step_released(run: Run, event: e.StepReleased, _target: object) -> Run:
    before = _open(run, event.step)
    step = replace(
        before, state=STEP_PENDING, attempts=before.attempts - 1, started_at=None, kind=None
    )
    return _put(run, event, step, before)


def _step_waiting(run: Run, event: e.StepWaiting, _target: object) -> Run:
    step = OpenStep(
        event.step,
        STEP_WAITING,
        started_at=event.at,
        kind=event.kind,
        name=event.name,
        expires_at=event.expires_at,
    )
    return _put(run, event, step, run.step(event.step))


def _step_over(run: Run, event: e.StepFailed | e.StepCanceled, _target: object) -> Run:
    steps = tuple([s for s in run.open if s.id != event.step])
    return replace(run, open=steps, version=run.version + 1, updated_at=event.at)


def _step_succeeded(run: Run, event: e.StepSucceeded, _target: object) -> Run:
    steps = tuple([s for s in run.open if s.id != event.step])
    signals = run.signals
    if event.signal is not None:
        signals = tuple(s for s in signals if s.seq != event.signal)
    return replace(
        run,
        open=steps,
        signals=signals,
        losses=0,
        version=run.version + 1,
        updated_at=event.at,
    )


def _signal_received(run: Run, event: e.SignalReceived, _target: object) -> Run:
    seq = run.version + 1
    signals = (*run.signals, Untaken(event.name, seq))
    return replace(run, signals=signals, version=seq, updated_at=event.at)


def _open(run: Run, step_id: str) -> OpenStep:
    step = run.step(step_id)
    assert step is not None, "the law has let the event pass, so its step is open"
    return step


ABSORB: Final[dict[str, Absorb]] = {
    "run.created": _created,
    "run.leased": _leased,
    "run.started": _started,
    "run.claimed": _started,
    "run.released": _released,
    "run.waiting": _waiting,
    "run.wait_completed": _wait_completed,
    "run.retry_scheduled": _retry_scheduled,
    "run.interrupted": _interrupted,
    "run.cancel_requested": _cancel_requested,
    "run.succeeded": _over,
    "run.failed": _over,
    "run.canceled": _over,
    "run.timed_out": _over,
    "step.started": _step_started,
    "step.reclaimed": _step_reclaimed,
    "step.succeeded": _step_succeeded,
    "step.failed": _step_over,
    "step.retry_scheduled": _step_retry_scheduled,
    "step.released": _step_released,
    "step.waiting": _step_waiting,
    "step.canceled": _step_over,
    "signal.received": _signal_received,
}
