"""The law: which event may happen in which state, and where it leads.

Two tables, meant to be laid beside the design document. The first is about the run: each event
that bears a status has one target and a set of states it may come from. The second is about a
step. A third, short one names the events that change no status.

`evolve` is the only way a run changes. It refuses an event that the law does not know from the
run's present state, and one whose change of word the profile's own document does not have.
Nothing else in perdure compares a status to decide whether something may be stored.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from perdure.core.absorb import ABSORB
from perdure.core.errors import Unlawful, Unsound
from perdure.core.events import TYPE, AnyEvent
from perdure.core.run import Run
from perdure.core.states import (
    ABSENT,
    CANCEL_REQUESTED,
    CANCELED,
    CLAIMABLE,
    FAILED,
    HELD,
    INTERRUPTED,
    LEASED,
    LIVE,
    QUEUED,
    READY,
    RETRY_SCHEDULED,
    RUNNING,
    STEP_CANCELED,
    STEP_FAILED,
    STEP_OPEN,
    STEP_PENDING,
    STEP_RUNNING,
    STEP_SUCCEEDED,
    STEP_WAITING,
    SUCCEEDED,
    TIMED_OUT,
    UNBORN,
    WAITING,
    State,
    StepState,
)

# event -> where it leads, and from where it may come
RUN_LAW: Final[dict[str, tuple[State, frozenset[State]]]] = {
    "run.created": (QUEUED, frozenset({UNBORN})),
    "run.leased": (LEASED, frozenset({QUEUED, READY, RETRY_SCHEDULED})),
    "run.started": (RUNNING, frozenset({QUEUED, LEASED, RETRY_SCHEDULED, INTERRUPTED})),
    "run.claimed": (RUNNING, frozenset({READY})),
    "run.released": (READY, frozenset({RUNNING, LEASED})),
    "run.waiting": (WAITING, frozenset({RUNNING})),
    "run.wait_completed": (READY, frozenset({WAITING})),
    "run.retry_scheduled": (RETRY_SCHEDULED, frozenset({RUNNING, READY, WAITING})),
    "run.interrupted": (INTERRUPTED, frozenset({RUNNING})),
    "run.cancel_requested": (CANCEL_REQUESTED, frozenset({RUNNING, READY, WAITING})),
    "run.succeeded": (SUCCEEDED, frozenset({RUNNING, CANCEL_REQUESTED, WAITING})),
    "run.failed": (FAILED, frozenset({RUNNING, CANCEL_REQUESTED, WAITING, INTERRUPTED})),
    "run.canceled": (CANCELED, LIVE),
    "run.timed_out": (
        TIMED_OUT,
        frozenset({QUEUED, READY, RUNNING, WAITING, RETRY_SCHEDULED, INTERRUPTED}),
    ),
}

STEP_LAW: Final[dict[str, tuple[StepState, frozenset[StepState]]]] = {
    "step.started": (STEP_RUNNING, frozenset({ABSENT, STEP_PENDING})),
    "step.reclaimed": (STEP_RUNNING, frozenset({STEP_RUNNING})),
    "step.succeeded": (STEP_SUCCEEDED, frozenset({STEP_RUNNING, STEP_WAITING})),
    "step.failed": (STEP_FAILED, frozenset({STEP_RUNNING, STEP_WAITING})),
    "step.retry_scheduled": (STEP_PENDING, frozenset({STEP_RUNNING})),
    "step.released": (STEP_PENDING, frozenset({STEP_RUNNING, STEP_WAITING})),
    "step.waiting": (STEP_WAITING, frozenset({ABSENT, STEP_PENDING, STEP_RUNNING})),
    "step.canceled": (STEP_CANCELED, frozenset({STEP_PENDING, STEP_RUNNING, STEP_WAITING})),
}

# Events that bear no status, and the states of the run in which each is lawful.
SILENT: Final[dict[str, frozenset[State]]] = {
    "signal.received": LIVE,
}

# Where a step may come to run or to wait: under an owner (or, a gate, behind another gate).
# It may end, or be let go, wherever the run lives.
STEP_MOVES_IN: Final[dict[str, frozenset[State]]] = {
    "step.started": frozenset({RUNNING, CANCEL_REQUESTED}),
    "step.reclaimed": frozenset({RUNNING, CANCEL_REQUESTED}),
    "step.succeeded": LIVE,
    "step.failed": LIVE,
    "step.retry_scheduled": frozenset({RUNNING, CANCEL_REQUESTED}),
    "step.released": LIVE,
    "step.waiting": frozenset({RUNNING, WAITING}),
    "step.canceled": LIVE,
}


def evolve(run: Run, event: AnyEvent) -> Run:
    """Fold one event into a run, or refuse it (`Unlawful`)."""
    kind = TYPE[type(event)]
    status = RUN_LAW.get(kind)
    if status is not None:
        _guard_run(run, kind, *status)
        return ABSORB[kind](run, event, status[0])
    step = STEP_LAW.get(kind)
    if step is not None:
        _guard_step(run, kind, event.step, step[1])  # type: ignore[union-attr]
        return ABSORB[kind](run, event, step[0])
    if run.state not in SILENT[kind] or run.finished_at is not None:
        raise Unlawful.of_run(run, kind, "the law has it only in " + _names(SILENT[kind]))
    return ABSORB[kind](run, event, run.state)


def fold(run: Run, events: Iterable[AnyEvent]) -> Run:
    """Fold the events of one command, then assert what must be true of the run they lead to.

    Soundness is asserted here and not after each event, because a command may pass through a
    state (a queued run of 001 is canceled by way of running, in one transaction).
    """
    for event in events:
        run = evolve(run, event)
    assert_sound(run)
    return run


def _guard_run(run: Run, kind: str, target: State, sources: frozenset[State]) -> None:
    if run.state not in sources:
        raise Unlawful.of_run(run, kind, "the law has it only from " + _names(sources))
    if run.state == UNBORN:
        lawful = target in run.profile.words
    else:
        lawful = run.profile.allows(run.state, target)
    if not lawful:
        words = run.profile.words
        row = run.profile.transitions.get(words.get(run.state, ""), frozenset())
        raise Unlawful.of_run(
            run, kind, f"the table of '{run.profile.name}' allows only {_names(row)} from here"
        )


def _guard_step(run: Run, kind: str, step_id: str, sources: frozenset[StepState]) -> None:
    step = run.step(step_id)
    state = ABSENT if step is None else step.state
    if state not in sources:
        why = "the law has it only from " + _names(sources)
        raise Unlawful.of_step(run, kind, step_id, state, why)
    if run.state not in STEP_MOVES_IN[kind] or run.finished_at is not None:
        why = "the run must be " + _names(STEP_MOVES_IN[kind])
        raise Unlawful.of_step(run, kind, step_id, state, why)


def _names(states: Iterable[str]) -> str:
    return ", ".join(sorted(states)) or "nothing"


def assert_sound(run: Run) -> None:
    """Assert, after a whole command, what the state says is true of the run (`Unsound`)."""
    state = run.state
    if (run.worker is not None) != (state in HELD):
        raise Unsound(run.id, state, "a run has a worker exactly while it is held")
    over = run.over
    if (run.finished_at is not None) != over:
        raise Unsound(run.id, state, "finished_at is set exactly when the run is over")
    if (run.wants_at is not None) != (state in CLAIMABLE and not over):
        raise Unsound(run.id, state, "a run has a claim_at exactly while it wants a worker")
    for step in run.open:
        _assert_sound_step(run, step.id, step.state, step.kind)
    if state == WAITING and not run.open:
        raise Unsound(run.id, state, "a waiting run has an open step it waits for")


def _assert_sound_step(run: Run, step_id: str, state: StepState, kind: str | None) -> None:
    if state not in STEP_OPEN:
        raise Unsound(run.id, run.state, f"step {step_id} is over and still open")
    if (state == STEP_WAITING) != (kind is not None):
        raise Unsound(run.id, run.state, f"step {step_id} has a kind of wait exactly while waiting")
    if run.over and (state != STEP_PENDING or run.state == CANCELED):
        raise Unsound(run.id, run.state, f"step {step_id} is {state} in a run that is over")
