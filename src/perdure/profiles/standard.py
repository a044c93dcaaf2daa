"""The words of perdure itself: workflows in code that wait, retry, survive, and stop when asked.

Whoever has no vocabulary of their own gets this one. Each state has a word of its own, but for
`ready`, which shows as queued: both want a worker.
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
    READY: "queued",
    RUNNING: "running",
    WAITING: "waiting",
    RETRY_SCHEDULED: "retry_scheduled",
    INTERRUPTED: "interrupted",
    CANCEL_REQUESTED: "cancel_requested",
    SUCCEEDED: "succeeded",
    FAILED: "failed",
    CANCELED: "canceled",
    TIMED_OUT: "timed_out",
}

TRANSITIONS: Final[dict[str, frozenset[str]]] = {
    "queued": frozenset({"running", "canceled", "timed_out"}),
    "running": frozenset(
        {
            "queued",
            "waiting",
            "retry_scheduled",
            "interrupted",
            "cancel_requested",
            "succeeded",
            "failed",
            "timed_out",
        }
    ),
    "waiting": frozenset({"queued", "succeeded", "failed", "canceled", "timed_out"}),
    "retry_scheduled": frozenset({"running", "canceled", "timed_out"}),
    "interrupted": frozenset({"running", "failed", "canceled", "timed_out"}),
    "cancel_requested": frozenset({"canceled", "succeeded", "failed"}),
    "succeeded": frozenset(),
    "failed": frozenset(),
    "canceled": frozenset(),
    "timed_out": frozenset(),
}

PROFILE: Final = Profile(
    name="standard",
    words=WORDS,
    transitions=TRANSITIONS,
    policies=Policies(
        cancel=("request",),
        owner_lost="interrupt",
        losses_exhausted="hold",
        deadline="timed_out",
        retry=("step", "run"),
        backoff="free",
        waits="shown",
        waiting=("run",),
        leases_first=False,
        key="optional",
        key_scope=("tenant", "workflow"),
        key_conflict="refuse",
        same_status="error",
        event_words="canonical",
        read=("projection",),
    ),
)
