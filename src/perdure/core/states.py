"""The states a run and a step can be in, and what is true in each.

States are plain strings, not an enum: they are keys of every table on the hot path, and a
string's hash is computed once while an enum member's is computed in Python at each look-up.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, get_args

State: TypeAlias = Literal[
    "unborn",
    "queued",
    "ready",
    "leased",
    "running",
    "waiting",
    "retry_scheduled",
    "interrupted",
    "cancel_requested",
    "succeeded",
    "failed",
    "canceled",
    "timed_out",
]

# The dash of the law's table: what a run is before `run.created`. No word shows it.
UNBORN: Final = "unborn"

# Created, never started. Wants a worker from `claim_at` on. Held by nobody.
QUEUED: Final = "queued"
# Was held before and wants a worker again: released, woken, or its owner was lost. Held by nobody.
READY: Final = "ready"
# Claimed, not started; only where the profile leases first. Held by a worker.
LEASED: Final = "leased"
# Claimed and started. Held by a worker.
RUNNING: Final = "running"
# Every branch is blocked, at least one by a wait; `due_at` is the earliest timer, backoff or
# expiry. Held by nobody.
WAITING: Final = "waiting"
# A retry of the whole run is due at `next_retry_at`, set here and only here. Held by nobody.
RETRY_SCHEDULED: Final = "retry_scheduled"
# The owner was lost. `claim_at` is now, or none where the profile ends here. Held by nobody.
INTERRUPTED: Final = "interrupted"
# Asked to stop; `due_at` is the end of the grace. Held by a worker.
CANCEL_REQUESTED: Final = "cancel_requested"
# Over; `finished_at` is set, no step is open that runs or waits. Held by nobody.
SUCCEEDED: Final = "succeeded"
FAILED: Final = "failed"
CANCELED: Final = "canceled"
TIMED_OUT: Final = "timed_out"

ALL: Final[tuple[State, ...]] = tuple(s for s in get_args(State) if s != UNBORN)
TERMINAL: Final[frozenset[State]] = frozenset({SUCCEEDED, FAILED, CANCELED, TIMED_OUT})
LIVE: Final[frozenset[State]] = frozenset(ALL) - TERMINAL
HELD: Final[frozenset[State]] = frozenset({LEASED, RUNNING, CANCEL_REQUESTED})
CLAIMABLE: Final[frozenset[State]] = frozenset({QUEUED, READY, RETRY_SCHEDULED, INTERRUPTED})

StepState: TypeAlias = Literal[
    "absent", "pending", "running", "waiting", "succeeded", "failed", "canceled"
]

# The dash of the step law: no event has named this step yet (in this try of the run).
ABSENT: Final = "absent"
# Will start, or start again at `next_run_at`.
STEP_PENDING: Final = "pending"
# Its start is recorded, its outcome is not. After a loss it stays so until it is reclaimed.
STEP_RUNNING: Final = "running"
# A sleep, a signal or a person is awaited; `kind` says which.
STEP_WAITING: Final = "waiting"
# Over: such a step leaves the run's open steps and lives on in the log.
STEP_SUCCEEDED: Final = "succeeded"
STEP_FAILED: Final = "failed"
STEP_CANCELED: Final = "canceled"

STEP_OPEN: Final[frozenset[StepState]] = frozenset({STEP_PENDING, STEP_RUNNING, STEP_WAITING})
