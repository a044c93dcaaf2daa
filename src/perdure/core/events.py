"""Events: what happened, in the past tense, stored for years.

Each class is one event of the law; its tag is the event's type, and its fields are its own
data. What all events of one command share (run, sequence, actor, command id) stands once in
the log's row, see `Entry`. A field left at its default is not written, so a field may be added
later with a default and no stored event changes its meaning. A type, once released, stays.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from perdure.core.states import State

Kind: TypeAlias = Literal["sleep", "signal", "approval"]

# No payload. Always this very object: a default is left out of the JSON by identity.
EMPTY: Final = msgspec.Raw()


class Failure(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Why a step or a run failed: a code for programs, a message for people."""

    code: str
    message: str = ""


class Event(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="type"):
    """Something that happened to a run at a moment (microseconds since 1970, UTC).

    `gc=False`, here and on the other small values: they hold no cycles, and a collector that
    need not look at them costs a busy door some percent less.
    """

    at: int


class RunCreated(Event, frozen=True, gc=False, tag="run.created"):
    """A run exists. Holds all that is fixed for its life; payloads stand in `run_data`."""

    workflow: str
    queue: str
    priority: int
    attempt: int = 1
    claim_at: int = 0
    deadline: int | None = None
    trace_id: str = ""
    key: str | None = None
    input_digest: str = ""
    profile: str = "standard"


class RunLeased(Event, frozen=True, gc=False, tag="run.leased"):
    """A worker took the run and has not started it."""

    worker: str
    token: int


class RunStarted(Event, frozen=True, gc=False, tag="run.started"):
    """A worker took the run (or had leased it) and runs it: for the first time or after a loss."""

    worker: str
    token: int


class RunClaimed(Event, frozen=True, gc=False, tag="run.claimed"):
    """A worker took a run that had been released or woken, and runs it."""

    worker: str
    token: int


class RunReleased(Event, frozen=True, gc=False, tag="run.released"):
    """The run is free again; any worker may take it from `claim_at` on."""

    claim_at: int
    reason: str = ""
    lost: bool = False


class RunWaiting(Event, frozen=True, gc=False, tag="run.waiting"):
    """Every branch is blocked, at least one by a wait; nobody holds the run."""


class RunWaitCompleted(Event, frozen=True, gc=False, tag="run.wait_completed"):
    """What the run waited for is here; any worker may take it."""

    claim_at: int


class RunRetryScheduled(Event, frozen=True, gc=False, tag="run.retry_scheduled"):
    """The whole run, or the step that blocks it, is tried again at `next_retry_at`."""

    next_retry_at: int
    error: Failure | None = None


class RunInterrupted(Event, frozen=True, gc=False, tag="run.interrupted"):
    """The worker that held the run is gone."""

    worker: str
    reason: str = ""


class RunCancelRequested(Event, frozen=True, gc=False, tag="run.cancel_requested"):
    """Somebody wants the run to stop; its holder has until `grace_until` to answer."""

    grace_until: int
    reason: str = ""


class RunSucceeded(Event, frozen=True, gc=False, tag="run.succeeded"):
    """The run ended well. Its result stands in `run_data`."""

    output_digest: str = ""


class RunFailed(Event, frozen=True, gc=False, tag="run.failed"):
    """The run ended badly. The whole error stands in `run_data`."""

    error: Failure


class RunCanceled(Event, frozen=True, gc=False, tag="run.canceled"):
    """The run was stopped."""

    reason: str = ""


class RunTimedOut(Event, frozen=True, gc=False, tag="run.timed_out"):
    """The run's deadline passed."""


class StepStarted(Event, frozen=True, gc=False, tag="step.started"):
    """A step's body began at `began_at`, by its holder's clock."""

    step: str
    began_at: int
    attempts: int = 1
    digest: str = ""
    max_attempts: int = 1
    timeout: int | None = None


class StepReclaimed(Event, frozen=True, gc=False, tag="step.reclaimed"):
    """A step whose owner was lost began again under the next owner."""

    step: str
    began_at: int
    attempts: int
    digest: str = ""


class StepSucceeded(Event, frozen=True, gc=False, tag="step.succeeded"):
    """A step's result, or the answer to a wait.

    The answer of a signal that came before anyone waited stands in the event `signal`.
    """

    step: str
    output: msgspec.Raw = EMPTY
    signal: int | None = None


class StepFailed(Event, frozen=True, gc=False, tag="step.failed"):
    """A step is out of retries or failed for good; a wait was rejected or expired."""

    step: str
    error: Failure


class StepRetryScheduled(Event, frozen=True, gc=False, tag="step.retry_scheduled"):
    """A step failed and is tried again at `next_run_at`."""

    step: str
    error: Failure
    failures: int
    next_run_at: int


class StepReleased(Event, frozen=True, gc=False, tag="step.released"):
    """A step was let go in good order: the start that is taken back does not count."""

    step: str


class StepWaiting(Event, frozen=True, gc=False, tag="step.waiting"):
    """A wait is open: for a moment, a signal by name, or a person's answer."""

    step: str
    kind: Kind
    name: str
    expires_at: int | None = None
    shows: msgspec.Raw = EMPTY
    schema: msgspec.Raw = EMPTY


class StepCanceled(Event, frozen=True, gc=False, tag="step.canceled"):
    """A step ended because its run or its branch did."""

    step: str


class SignalReceived(Event, frozen=True, gc=False, tag="signal.received"):
    """A signal came that no open wait took; it is kept until one asks for it."""

    name: str
    payload: msgspec.Raw


RunEvent: TypeAlias = (
    RunCreated
    | RunLeased
    | RunStarted
    | RunClaimed
    | RunReleased
    | RunWaiting
    | RunWaitCompleted
    | RunRetryScheduled
    | RunInterrupted
    | RunCancelRequested
    | RunSucceeded
    | RunFailed
    | RunCanceled
    | RunTimedOut
)
StepEvent: TypeAlias = (
    StepStarted
    | StepReclaimed
    | StepSucceeded
    | StepFailed
    | StepRetryScheduled
    | StepReleased
    | StepWaiting
    | StepCanceled
)
AnyEvent: TypeAlias = RunEvent | StepEvent | SignalReceived

# The type of each event, looked up by its class on the hot path.
TYPE: dict[type[Event], str] = {cls: str(cls.__struct_config__.tag) for cls in AnyEvent.__args__}


class Entry(msgspec.Struct, frozen=True):
    """One row of the log: the events of one command, committed together.

    `was` is the run's state before the first of them, so that a reader needs no replay.
    """

    tenant: str
    run_id: str
    seq: int
    last_seq: int
    at: int
    was: State
    actor: str
    command_id: str
    events: tuple[AnyEvent, ...]


class Recorded(msgspec.Struct, frozen=True):
    """One event as it is shown: with everything that its row of the log holds for it."""

    run_id: str
    seq: int
    type: str
    at: int
    before: State
    after: State
    actor: str
    command_id: str
    event: AnyEvent
