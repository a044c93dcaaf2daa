"""The words of a plugin host: a run is one call of a plugin's entry point.

The plugin is asked to stop and answers, so a running run is never canceled at once, and work
that ends well before it saw the request keeps its success. The document knows no waiting: a run
that waits, or that is free again, still shows as running.
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
    QUEUED: "queued",
    READY: "running",
    RUNNING: "running",
    WAITING: "running",
    CANCEL_REQUESTED: "cancel_requested",
    SUCCEEDED: "succeeded",
    FAILED: "failed",
    CANCELED: "canceled",
    TIMED_OUT: "timeout",
}

TRANSITIONS: Final[dict[str, frozenset[str]]] = {
    "queued": frozenset({"running", "canceled"}),
    "running": frozenset({"succeeded", "failed", "timeout", "cancel_requested"}),
    "cancel_requested": frozenset({"canceled", "succeeded", "failed"}),
    "succeeded": frozenset(),
    "failed": frozenset(),
    "canceled": frozenset(),
    "timeout": frozenset(),
}

PROFILE: Final = Profile(
    name="plugin",
    words=WORDS,
    transitions=TRANSITIONS,
    policies=Policies(
        cancel=("request",),
        owner_lost="fail",
        losses_exhausted="none",
        deadline="timed_out",
        retry=("step",),
        backoff="free",
        waits="hidden",
        waiting=("run",),
        leases_first=False,
        key="optional",
        key_scope=("tenant", "plugin", "entry"),
        key_conflict="refuse",
        same_status="error",
        event_words="runs",
        read=("projection",),
    ),
)
