"""The words of a service of step lists with approvals: one step after the other, some by a person.

A run waits at a gate until someone approves it through the API. What a waiting run shows is a
choice the document leaves open: WAITING_APPROVAL, as in the words below (`waiting` is "run"), or
RUNNING while only its step waits ("step").
"""

from __future__ import annotations

from typing import Final

from perdure.core.profile import Policies, Profile
from perdure.core.states import (
    CANCEL_REQUESTED,
    CANCELED,
    FAILED,
    QUEUED,
    READY,
    RUNNING,
    SUCCEEDED,
    TIMED_OUT,
    WAITING,
    State,
)

WORDS: Final[dict[State, str]] = {
    QUEUED: "PENDING",
    READY: "RUNNING",
    RUNNING: "RUNNING",
    WAITING: "WAITING_APPROVAL",
    CANCEL_REQUESTED: "RUNNING",
    SUCCEEDED: "SUCCEEDED",
    FAILED: "FAILED",
    CANCELED: "CANCELED",
    TIMED_OUT: "FAILED",
}

TRANSITIONS: Final[dict[str, frozenset[str]]] = {
    "PENDING": frozenset({"RUNNING", "CANCELED"}),
    "RUNNING": frozenset({"WAITING_APPROVAL", "SUCCEEDED", "FAILED", "CANCELED"}),
    "WAITING_APPROVAL": frozenset({"RUNNING", "SUCCEEDED", "FAILED", "CANCELED"}),
    "SUCCEEDED": frozenset(),
    "FAILED": frozenset(),
    "CANCELED": frozenset(),
}

PROFILE: Final = Profile(
    name="approval",
    words=WORDS,
    transitions=TRANSITIONS,
    policies=Policies(
        cancel=("direct", "request"),
        owner_lost="release",
        losses_exhausted="fail",
        deadline="timed_out",
        retry=("step",),
        backoff="exact",
        waits="approvals",
        waiting=("run", "step"),
        leases_first=False,
        key="optional",
        key_scope=("api_key",),
        key_conflict="refuse",
        same_status="noop",
        event_words="none",
        read=("projection",),
    ),
)
