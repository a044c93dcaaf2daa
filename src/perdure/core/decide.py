"""What a command does to a run: `decide(run, command, now) -> events`.

The table `WHERE` says in which states a command makes sense at all; one small function per
command says which events it means. Policies come from the run's profile. Whether those events
may happen is not decided here: `evolve` looks each of them up in the law.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from perdure.core import commands as c
from perdure.core import events as e
from perdure.core.errors import LimitExceeded, LostLease, NotAllowed, Unlawful
from perdure.core.law import evolve, fold
from perdure.core.limits import EVENTS_OF_A_RUN, OPEN_STEPS, SIGNAL_BACKLOG
from perdure.core.run import OpenStep, Run, step_due_at
from perdure.core.states import (
    ALL,
    CANCEL_REQUESTED,
    CLAIMABLE,
    HELD,
    INTERRUPTED,
    LEASED,
    LIVE,
    READY,
    RUNNING,
    STEP_PENDING,
    STEP_RUNNING,
    STEP_WAITING,
    UNBORN,
    WAITING,
    State,
)

Events = list[e.AnyEvent]

_STEPS_RUN_IN: Final[frozenset[State]] = frozenset({RUNNING, CANCEL_REQUESTED})
_RUNNING: Final[frozenset[State]] = frozenset({RUNNING})

# command -> the states in which it makes sense; elsewhere it is refused with what would
WHERE: Final[dict[type[c.Command], frozenset[State]]] = {
    c.Create: frozenset({UNBORN}),
    c.Claim: CLAIMABLE,
    c.StartStep: _STEPS_RUN_IN,
    c.SucceedStep: _STEPS_RUN_IN,
    c.RetryStep: _STEPS_RUN_IN,
    c.FailStep: _STEPS_RUN_IN,
    c.DropStep: _STEPS_RUN_IN,
    c.OpenWait: _RUNNING,
    c.Elapse: _RUNNING,
    c.Suspend: _RUNNING,
    c.Release: frozenset({RUNNING, LEASED}),
    c.Finish: _STEPS_RUN_IN,
    c.Fail: _STEPS_RUN_IN,
    c.ConfirmCancel: frozenset({CANCEL_REQUESTED}),
    c.Cancel: LIVE,
    c.Signal: LIVE,
    c.Approve: frozenset(ALL),  # a second answer to a gate changes nothing, whenever it comes
    c.Reject: frozenset(ALL),
    c.Tick: LIVE,
}


def decide(run: Run, command: c.Command, now: int) -> Events:
    """Say what a command does to a run, as events; no events: it changes nothing.

    Refuses a command that makes no sense in the run's state (`NotAllowed`) and an owner's
    command whose token is not the run's (`LostLease`). Time never runs backwards in a run.
    """
    kind = type(command)
    if isinstance(command, c.Owned) and (command.token != run.token or run.state not in HELD):
        raise LostLease(run, kind.__name__, command.token)
    if run.state not in WHERE[kind] or (run.finished_at is not None and run.state in LIVE):
        raise NotAllowed(run, kind.__name__, allowed_now(run))
    return _DECIDE[kind](run, command, max(now, run.updated_at))


def allowed_now(run: Run) -> list[str]:
    """Return the names of the commands that the run's state would take."""
    if run.over:
        return []
    return [kind.__name__ for kind, states in WHERE.items() if run.state in states]


def _create(run: Run, command: c.Create, now: int) -> Events:
    return [
        e.RunCreated(
            now,
            workflow=command.workflow,
            queue=command.queue,
            priority=command.priority,
            attempt=command.attempt,
            claim_at=now if command.claim_at is None else command.claim_at,
            deadline=command.deadline,
            trace_id=command.trace_id,
            key=command.key,
            input_digest=command.input_digest,
            profile=run.profile.name,
        )
    ]


def _claim(run: Run, command: c.Claim, now: int) -> Events:
    if run.claim_at is None or run.claim_at > now:
        raise NotAllowed(run, "Claim", allowed_now(run))
    token = run.token + 1
    if run.profile.policies.leases_first:
        return [e.RunLeased(now, command.worker, token)]
    if run.state == READY:
        return [e.RunClaimed(now, command.worker, token)]
    return [e.RunStarted(now, command.worker, token)]


# steps ----------------------------------------------------------------------------------------


def _begin(run: Run, call: c.Call, began_at: int, now: int) -> Events:
    """The start of a step, unless this owner has recorded it already."""
    step = run.step(call.id)
    if step is not None and step.state == STEP_RUNNING and step.token == run.token:
        return []
    if run.version >= EVENTS_OF_A_RUN:
        raise LimitExceeded("events of a run", EVENTS_OF_A_RUN, run.version + 1, call.id)
    if step is None:
        if len(run.open) >= OPEN_STEPS:
            raise LimitExceeded("open steps of a run", OPEN_STEPS, len(run.open) + 1, call.id)
        attempts = 1
    elif step.state != STEP_RUNNING:
        attempts = step.attempts + 1
    else:
        return [e.StepReclaimed(now, call.id, began_at, step.attempts + 1, call.digest)]
    return [
        e.StepStarted(
            now, call.id, began_at, attempts, call.digest, call.max_attempts, call.timeout
        )
    ]


def _start_step(run: Run, command: c.StartStep, now: int) -> Events:
    return _begin(run, command.call, command.began_at, now)


def _succeed_step(run: Run, command: c.SucceedStep, now: int) -> Events:
    events = _begin(run, command.call, command.began_at, now)
    events.append(e.StepSucceeded(now, command.call.id, command.output))
    return events


def _retry_step(run: Run, command: c.RetryStep, now: int) -> Events:
    step = run.step(command.call.id)
    failures = 1 if step is None else step.failures + 1
    events = _begin(run, command.call, command.began_at, now)
    events.append(
        e.StepRetryScheduled(now, command.call.id, command.error, failures, command.next_run_at)
    )
    return events


def _fail_step(run: Run, command: c.FailStep, now: int) -> Events:
    events = _begin(run, command.call, command.began_at, now)
    events.append(e.StepFailed(now, command.call.id, command.error))
    return events


def _drop_step(run: Run, command: c.DropStep, now: int) -> Events:
    if run.step(command.step) is None:
        return []
    return [e.StepCanceled(now, command.step)]


# waits ----------------------------------------------------------------------------------------


def _open_wait(run: Run, command: c.OpenWait, now: int) -> Events:
    return _open(run, command.wait, now)


def _open(run: Run, wait: c.Wait, now: int) -> Events:
    """A wait opens; a signal that came before it answers it at once."""
    if run.step(wait.id) is not None:
        return []
    if run.version >= EVENTS_OF_A_RUN:
        raise LimitExceeded("events of a run", EVENTS_OF_A_RUN, run.version + 1, wait.id)
    if len(run.open) >= OPEN_STEPS:
        raise LimitExceeded("open steps of a run", OPEN_STEPS, len(run.open) + 1, wait.id)
    events: Events = [
        e.StepWaiting(now, wait.id, wait.kind, wait.name, wait.expires_at, wait.shows, wait.schema)
    ]
    if wait.kind == "signal":
        here = next((s for s in run.signals if s.name == wait.name), None)
        if here is not None:
            events.append(e.StepSucceeded(now, wait.id, signal=here.seq))
    return events


def _elapse(run: Run, command: c.Elapse, now: int) -> Events:
    step = run.step(command.step)
    if step is None or step.state != STEP_WAITING or not _is_due(step, now):
        return []
    return [_outcome(step, now)]


def _suspend(run: Run, command: c.Suspend, now: int) -> Events:
    """Put the run aside, if all that its holder believes to be blocked still is.

    An answer may have come between the holder's look and this moment: then nothing is put
    aside, and the holder learns of the answer and goes on.
    """
    events: Events = []
    if command.opening is not None:
        events = _open(run, command.opening, now)
        for event in events:
            run = evolve(run, event)
    steps = [run.step(step_id) for step_id in command.blocked]
    blocked = [s for s in steps if s is not None and s.state != STEP_RUNNING]
    if len(blocked) < len(steps) or any(_is_due(s, now) for s in blocked):
        return events
    if any(s.state == STEP_WAITING for s in blocked):
        return [*events, e.RunWaiting(now)]
    earliest = min((s.next_run_at for s in blocked if s.next_run_at is not None), default=now)
    return [*events, e.RunReleased(now, earliest, reason="backoff")]


def _is_due(step: OpenStep, now: int) -> bool:
    at = step_due_at(step)
    return at is not None and at <= now


def _outcome(step: OpenStep, now: int) -> e.AnyEvent:
    """What the passing of time makes of a wait: a sleep is over, a question has expired."""
    if step.kind == "sleep":
        return e.StepSucceeded(now, step.id)
    failure = e.Failure("EXPIRED", f"nobody answered '{step.name}' in time")
    return e.StepFailed(now, step.id, failure)


def _wake(run: Run, now: int) -> Events:
    return [e.RunWaitCompleted(now, now)] if run.state == WAITING else []


def _signal(run: Run, command: c.Signal, now: int) -> Events:
    for step in run.open:
        if step.kind == "signal" and step.name == command.name:
            return [e.StepSucceeded(now, step.id, command.payload), *_wake(run, now)]
    if len(run.signals) >= SIGNAL_BACKLOG:
        raise LimitExceeded(
            "signals a run keeps untaken", SIGNAL_BACKLOG, len(run.signals) + 1, command.name
        )
    return [e.SignalReceived(now, command.name, command.payload)]


def _gate(run: Run, gate: str) -> OpenStep | None:
    step = run.step(gate)
    return step if step is not None and step.kind == "approval" else None


def _approve(run: Run, command: c.Approve, now: int) -> Events:
    if _gate(run, command.gate) is None:
        return []
    return [e.StepSucceeded(now, command.gate, command.answer), *_wake(run, now)]


def _reject(run: Run, command: c.Reject, now: int) -> Events:
    if _gate(run, command.gate) is None:
        return []
    failure = e.Failure("REJECTED", command.note)
    return [e.StepFailed(now, command.gate, failure), *_wake(run, now)]


# endings --------------------------------------------------------------------------------------


def _close(run: Run, now: int, *, pending: bool = False) -> Events:
    """End the steps that run or wait (and, of a canceled run, those that would)."""
    return [
        e.StepCanceled(now, step.id) for step in run.open if pending or step.state != STEP_PENDING
    ]


def _release(run: Run, command: c.Release, now: int) -> Events:
    events: Events = [
        e.StepReleased(now, step.id) for step in run.open if step.state == STEP_RUNNING
    ]
    return [*events, e.RunReleased(now, now, command.reason)]


def _finish(run: Run, command: c.Finish, now: int) -> Events:
    return [*_close(run, now), e.RunSucceeded(now, command.output_digest)]


def _fail(run: Run, command: c.Fail, now: int) -> Events:
    return [*_close(run, now), e.RunFailed(now, command.error)]


def _confirm_cancel(run: Run, command: c.ConfirmCancel, now: int) -> Events:
    return _canceled(run, "" if run.asked is None else run.asked.reason, now)


def _canceled(run: Run, reason: str, now: int) -> Events:
    return [*_close(run, now, pending=True), e.RunCanceled(now, reason)]


def _cancel(run: Run, command: c.Cancel, now: int) -> Events:
    if run.state == CANCEL_REQUESTED:
        return []
    asked = e.RunCancelRequested(now, now + int(command.grace_s * 1_000_000), command.reason)
    canceled = _canceled(run, command.reason, now)
    if run.state == RUNNING:
        return [asked] if run.profile.policies.cancel[0] == "request" else canceled
    started = e.RunStarted(now, "", run.token)
    ways: tuple[Events, ...] = (canceled, [asked, *canceled], [started, *canceled])
    return _first_lawful(run, ways)


def _first_lawful(run: Run, ways: tuple[Events, ...]) -> Events:
    """The shortest way that the law and the profile's document allow, in one transaction."""
    for way in ways[:-1]:
        try:
            fold(run, way)
        except Unlawful:
            continue
        return way
    return ways[-1]


# time -----------------------------------------------------------------------------------------


def _tick(run: Run, command: c.Tick, now: int) -> Events:
    if command.lost is not None:
        return _lost(run, command.lost, now)
    if run.state == CANCEL_REQUESTED:
        over = run.due_at is not None and run.due_at <= now
        return _canceled(run, "" if run.asked is None else run.asked.reason, now) if over else []
    if run.deadline is not None and run.deadline <= now:
        return [*_close(run, now), e.RunTimedOut(now)]
    if run.state != WAITING:
        return []
    due = [step for step in run.open if _is_due(step, now)]
    events: Events = [_outcome(step, now) for step in due if step.state == STEP_WAITING]
    return [*events, e.RunWaitCompleted(now, now)] if due else []


def _lost(run: Run, worker: str, now: int) -> Events:
    """The holder is gone. Steps it had begun stay as they are: the next owner reclaims them."""
    if run.worker != worker:
        return []
    if run.state == CANCEL_REQUESTED:
        return _canceled(run, "" if run.asked is None else run.asked.reason, now)
    reason = "its worker is gone"
    if run.state == LEASED:
        return [e.RunReleased(now, now, reason)]
    match run.profile.policies.owner_lost:
        case "interrupt":
            closed = _close(run, now) if run.profile.ends_in(INTERRUPTED) else []
            return [*closed, e.RunInterrupted(now, worker, reason)]
        case "release":
            return [e.RunReleased(now, now, reason, lost=True)]
        case "fail":
            return [*_close(run, now), e.RunFailed(now, e.Failure("OWNER_LOST", reason))]


_DECIDE: Final[dict[type[c.Command], Callable[[Run, Any, int], Events]]] = {
    c.Create: _create,
    c.Claim: _claim,
    c.StartStep: _start_step,
    c.SucceedStep: _succeed_step,
    c.RetryStep: _retry_step,
    c.FailStep: _fail_step,
    c.DropStep: _drop_step,
    c.OpenWait: _open_wait,
    c.Elapse: _elapse,
    c.Suspend: _suspend,
    c.Release: _release,
    c.Finish: _finish,
    c.Fail: _fail,
    c.ConfirmCancel: _confirm_cancel,
    c.Cancel: _cancel,
    c.Signal: _signal,
    c.Approve: _approve,
    c.Reject: _reject,
    c.Tick: _tick,
}
