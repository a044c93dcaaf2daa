"""The nouns: a run and its open steps, as frozen values.

A run is the fold of its events. It carries all that recovery needs without the user's code, and
not its history: a step that is over lives on in the log alone.
"""

from __future__ import annotations

from typing import Final

import msgspec

from perdure.core.events import Kind
from perdure.core.profile import Profile
from perdure.core.states import (
    CANCEL_REQUESTED,
    RETRY_SCHEDULED,
    STEP_PENDING,
    STEP_WAITING,
    TERMINAL,
    UNBORN,
    WAITING,
    State,
    StepState,
)

# Where more than a deadline makes a run due: the end of a grace; timers, backoffs, expiries.
_TIMED: Final = frozenset({CANCEL_REQUESTED, WAITING})


class OpenStep(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A step that is not over.

    `id` is its identity: the path of its scope, its name and its occurrence there.
    `token` is that of the owner who started it, so a start by a former owner can be told apart.
    """

    id: str
    state: StepState
    attempts: int = 0
    failures: int = 0
    token: int = 0
    started_at: int | None = None
    next_run_at: int | None = None
    max_attempts: int = 1
    timeout: int | None = None
    digest: str = ""
    kind: Kind | None = None
    name: str = ""
    expires_at: int | None = None


class Untaken(msgspec.Struct, frozen=True, gc=False):
    """A signal nobody has waited for yet: its name, and the event that holds its payload."""

    name: str
    seq: int


class Asked(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """That somebody asked the run to stop: when, why, and until when its holder may answer."""

    at: int
    grace_until: int
    reason: str = ""


class Entered(msgspec.Struct, frozen=True, gc=False):
    """The event that put the run into its present state."""

    seq: int
    type: str
    at: int


class Run(msgspec.Struct, frozen=True, gc=False):
    """The present of a run. Moments are microseconds since 1970, UTC."""

    # fixed at its creation
    tenant: str
    id: str
    profile: Profile
    workflow: str = ""
    queue: str = ""
    priority: int = 0
    attempt: int = 1
    trace_id: str = ""
    created_at: int = 0
    deadline: int | None = None
    # the head: what anybody asks a row for
    state: State = UNBORN
    token: int = 0
    worker: str | None = None
    wants_at: int | None = None
    asked: Asked | None = None
    # the body
    version: int = 0
    open: tuple[OpenStep, ...] = ()
    signals: tuple[Untaken, ...] = ()
    tries: int = 1
    losses: int = 0
    entered: Entered | None = None
    started_at: int | None = None
    finished_at: int | None = None
    updated_at: int = 0

    def step(self, step_id: str) -> OpenStep | None:
        """Return the open step of this identity, if there is one."""
        for step in self.open:
            if step.id == step_id:
                return step
        return None

    @property
    def status(self) -> str:
        """The profile's word for the state."""
        return self.profile.words.get(self.state, self.state)

    @property
    def over(self) -> bool:
        """Whether nothing can happen to the run any more: its profile's word leads nowhere."""
        return self.state in TERMINAL or self.profile.ends_in(self.state)

    @property
    def claim_at(self) -> int | None:
        """The moment from which a worker may take the run; None while nobody may."""
        return self.wants_at

    @property
    def claim_rank(self) -> int:
        """The order of claims: a run that has begun comes before new ones of its priority."""
        return 2 * self.priority + (1 if self.started_at is None else 0)

    @property
    def next_retry_at(self) -> int | None:
        """The moment of the whole run's retry; set in RETRY_SCHEDULED and only there."""
        return self.wants_at if self.state == RETRY_SCHEDULED else None

    @property
    def due_at(self) -> int | None:
        """The earliest moment at which time alone changes the run."""
        if self.finished_at is not None or (self.deadline is None and self.state not in _TIMED):
            return None
        moments = [] if self.deadline is None else [self.deadline]
        if self.state == CANCEL_REQUESTED and self.asked is not None:
            moments.append(self.asked.grace_until)
        elif self.state == WAITING:
            moments.extend(at for step in self.open if (at := step_due_at(step)) is not None)
        return min(moments, default=None)

    @property
    def head(self) -> tuple[object, ...]:
        """All that anybody asks a row for. While it is unchanged, the row may lag behind."""
        return (
            self.state,
            self.token,
            self.worker,
            self.wants_at,
            self.asked,
            self.deadline,
            self.priority,
        )


def step_due_at(step: OpenStep) -> int | None:
    """Return the moment at which time ends a step's wait or its backoff."""
    if step.state == STEP_WAITING:
        return step.expires_at
    if step.state == STEP_PENDING:
        return step.next_run_at
    return None


def unborn(tenant: str, run_id: str, profile: Profile) -> Run:
    """Return the run that is not there yet: what `run.created` is folded into."""
    return Run(tenant, run_id, profile)
