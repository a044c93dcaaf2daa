"""The words of a task platform: a run is one attempt at a task, and outlives its process.

After a restart it is marked interrupted and then resumed or given up; an error that may pass
makes it wait for its next try. Beside each transition stands the trigger the document names.
"""

from __future__ import annotations

from typing import Final

from perdure.core.profile import Policies, Profile
from perdure.core.states import (
    CANCEL_REQUESTED,
    CANCELED,
    FAILED,
    INTERRUPTED,
    QUEUED,
    READY,
    RETRY_SCHEDULED,
    RUNNING,
    SUCCEEDED,
    TIMED_OUT,
    WAITING,
    State,
)

WORDS: Final[dict[State, str]] = {
    QUEUED: "queued",
    READY: "running",
    RUNNING: "running",
    WAITING: "running",
    RETRY_SCHEDULED: "retry_scheduled",
    INTERRUPTED: "interrupted",
    CANCEL_REQUESTED: "running",
    SUCCEEDED: "succeeded",
    FAILED: "failed",
    CANCELED: "cancelled",
    TIMED_OUT: "failed",
}

TRANSITIONS: Final[dict[str, frozenset[str]]] = {
    "queued": frozenset(
        {
            "running",  # worker_claim
            "cancelled",  # cancel_command
        }
    ),
    "running": frozenset(
        {
            "succeeded",  # completed
            "failed",  # non_retryable_error
            "retry_scheduled",  # retryable_error
            "interrupted",  # process_restart
            "cancelled",  # cancel_command
        }
    ),
    "retry_scheduled": frozenset(
        {
            "running",  # retry_due
            "cancelled",  # cancel_command
        }
    ),
    "interrupted": frozenset(
        {
            "running",  # recovery_resume
            "failed",  # recovery_abort
            "cancelled",  # cancel_command
        }
    ),
    "succeeded": frozenset(),
    "failed": frozenset(),
    "cancelled": frozenset(),
}

PROFILE: Final = Profile(
    name="task",
    words=WORDS,
    transitions=TRANSITIONS,
    policies=Policies(
        cancel=("direct", "request"),
        owner_lost="interrupt",
        losses_exhausted="fail",
        deadline="retry",
        retry=("step", "run"),
        backoff="free",
        waits="hidden",
        waiting=("run",),
        leases_first=False,
        key="required",
        key_scope=("tenant",),
        key_conflict="attach",
        same_status="error",
        event_words="status_changed",
        read=("projection",),
    ),
)
