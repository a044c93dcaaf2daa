"""Commands: what somebody wants of a run. Imperative, never stored.

An owner's command carries the token of its claim; anybody else's carries none. Values that the
law cannot know (the time of a retry, a payload) come with the command.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from perdure.core.events import EMPTY, Failure, Kind


class Create(msgspec.Struct, frozen=True, gc=False):
    """Bring a run into being."""

    workflow: str
    queue: str
    priority: int
    input_digest: str
    claim_at: int | None = None
    deadline: int | None = None
    attempt: int = 1
    trace_id: str = ""
    key: str | None = None


class Claim(msgspec.Struct, frozen=True, gc=False):
    """Take the run; the token grows by one."""

    worker: str


class Owned(msgspec.Struct, frozen=True, gc=False):
    """A command that only the run's holder may give."""

    token: int


class Call(msgspec.Struct, frozen=True, gc=False):
    """A step as its holder calls it: its identity, and what recovery must know of it."""

    id: str
    digest: str = ""
    max_attempts: int = 1
    timeout: int | None = None


class Wait(msgspec.Struct, frozen=True, gc=False):
    """A wait as its holder opens it."""

    id: str
    kind: Kind
    name: str
    expires_at: int | None = None
    shows: msgspec.Raw = EMPTY
    schema: msgspec.Raw = EMPTY


class StartStep(Owned, frozen=True, gc=False):
    """Record that a step's body has begun."""

    call: Call
    began_at: int


class SucceedStep(Owned, frozen=True, gc=False):
    """Record a step's result, and its start if that was not recorded."""

    call: Call
    began_at: int
    output: msgspec.Raw


class RetryStep(Owned, frozen=True, gc=False):
    """Record that a step failed and runs again at a moment its holder has computed."""

    call: Call
    began_at: int
    error: Failure
    next_run_at: int


class FailStep(Owned, frozen=True, gc=False):
    """Record that a step failed for good."""

    call: Call
    began_at: int
    error: Failure


class DropStep(Owned, frozen=True, gc=False):
    """End an open step whose branch was canceled."""

    step: str


class OpenWait(Owned, frozen=True, gc=False):
    """Open a wait while other branches go on."""

    wait: Wait


class Elapse(Owned, frozen=True, gc=False):
    """Settle, by its holder, a wait whose time has come while the run is held."""

    step: str


class Suspend(Owned, frozen=True, gc=False):
    """Let go of the run: every branch is blocked by one of `blocked`, `opening` opened just now."""

    blocked: tuple[str, ...]
    opening: Wait | None = None


class Release(Owned, frozen=True, gc=False):
    """Give the run back in good order, so that any worker may take it at once."""

    reason: str = ""


class Finish(Owned, frozen=True, gc=False):
    """The workflow returned."""

    output: msgspec.Raw
    output_digest: str = ""


class Fail(Owned, frozen=True, gc=False):
    """The workflow raised."""

    error: Failure


class ConfirmCancel(Owned, frozen=True, gc=False):
    """The workflow has stopped, as it was asked to."""


class Cancel(msgspec.Struct, frozen=True, gc=False):
    """Stop the run: at once, or by asking its holder, as the profile has it."""

    reason: str = ""
    grace_s: float = 10.0


class Signal(msgspec.Struct, frozen=True, gc=False):
    """Tell the run something by name."""

    name: str
    payload: msgspec.Raw


class Approve(msgspec.Struct, frozen=True, gc=False):
    """Answer an approval."""

    gate: str
    answer: msgspec.Raw


class Reject(msgspec.Struct, frozen=True, gc=False):
    """Say no to an approval."""

    gate: str
    note: str = ""


class Tick(msgspec.Struct, frozen=True, gc=False):
    """Do what time has done to the run; `lost` names a worker that is known to be gone."""

    lost: str | None = None


OwnedCommand: TypeAlias = (
    StartStep
    | SucceedStep
    | RetryStep
    | FailStep
    | DropStep
    | OpenWait
    | Elapse
    | Suspend
    | Release
    | Finish
    | Fail
    | ConfirmCancel
)
Command: TypeAlias = Create | Claim | OwnedCommand | Cancel | Signal | Approve | Reject | Tick
