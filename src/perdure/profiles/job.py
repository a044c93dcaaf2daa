"""The words of an agent platform whose jobs are event streams: the last event decides the status.

The document leaves two states optional, so there are two profiles. `job` merges them: a claim
starts the job at once, and a job that is to be retried is queued. `job-explicit` shows both:
Leased between claim and start, Retrying until the retry. The document gives each event's target
and no sources, so the rows of both tables are perdure's own.
"""

from __future__ import annotations

from typing import Final

from perdure.core.profile import Policies, Profile
from perdure.core.states import (
    CANCEL_REQUESTED,
    CANCELED,
    FAILED,
    LEASED,
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
    QUEUED: "Queued",
    READY: "Queued",
    RUNNING: "Running",
    WAITING: "Waiting",
    RETRY_SCHEDULED: "Queued",
    CANCEL_REQUESTED: "Running",
    SUCCEEDED: "Completed",
    FAILED: "Failed",
    CANCELED: "Cancelled",
    TIMED_OUT: "Failed",
}

TRANSITIONS: Final[dict[str, frozenset[str]]] = {
    "Queued": frozenset({"Running", "Cancelled"}),
    "Running": frozenset({"Waiting", "Queued", "Completed", "Failed", "Cancelled"}),
    "Waiting": frozenset({"Queued", "Cancelled"}),
    "Completed": frozenset(),
    "Failed": frozenset(),
    "Cancelled": frozenset(),
}

PROFILE: Final = Profile(
    name="job",
    words=WORDS,
    transitions=TRANSITIONS,
    policies=Policies(
        cancel=("direct", "request"),
        owner_lost="release",
        losses_exhausted="fail",
        deadline="timed_out",
        retry=("step", "run"),
        backoff="free",
        waits="shown",
        waiting=("run",),
        leases_first=False,
        key="optional",
        key_scope=("tenant", "workflow"),
        key_conflict="refuse",
        same_status="refuse",
        event_words="job",
        read=("projection", "derive"),
    ),
)

EXPLICIT_WORDS: Final[dict[State, str]] = {
    QUEUED: "Queued",
    READY: "Queued",
    LEASED: "Leased",
    RUNNING: "Running",
    WAITING: "Waiting",
    RETRY_SCHEDULED: "Retrying",
    CANCEL_REQUESTED: "Running",
    SUCCEEDED: "Completed",
    FAILED: "Failed",
    CANCELED: "Cancelled",
    TIMED_OUT: "Failed",
}

EXPLICIT_TRANSITIONS: Final[dict[str, frozenset[str]]] = {
    "Queued": frozenset({"Leased", "Cancelled"}),
    "Leased": frozenset({"Running", "Queued", "Cancelled"}),
    "Running": frozenset({"Waiting", "Queued", "Retrying", "Completed", "Failed", "Cancelled"}),
    "Waiting": frozenset({"Queued", "Cancelled"}),
    "Retrying": frozenset({"Leased", "Cancelled"}),
    "Completed": frozenset(),
    "Failed": frozenset(),
    "Cancelled": frozenset(),
}

EXPLICIT_PROFILE: Final = Profile(
    name="job-explicit",
    words=EXPLICIT_WORDS,
    transitions=EXPLICIT_TRANSITIONS,
    policies=Policies(
        cancel=("direct", "request"),
        owner_lost="release",
        losses_exhausted="fail",
        deadline="timed_out",
        retry=("step", "run"),
        backoff="free",
        waits="shown",
        waiting=("run",),
        leases_first=True,
        key="optional",
        key_scope=("tenant", "workflow"),
        key_conflict="refuse",
        same_status="refuse",
        event_words="job",
        read=("projection", "derive"),
    ),
)
