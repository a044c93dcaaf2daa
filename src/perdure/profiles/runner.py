"""The words of an embedded workflow runner: an engine of its own, whose runs are followed here.

The host system brings the store, and a restart ends what was running: `interrupted` is terminal
and keeps its reason. Nothing is resumed, so the states of a run that is free again do not exist
here, and a queued run can only start.
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
    RUNNING,
    SUCCEEDED,
    TIMED_OUT,
    State,
)

WORDS: Final[dict[State, str]] = {
    QUEUED: "queued",
    RUNNING: "running",
    INTERRUPTED: "interrupted",
    CANCEL_REQUESTED: "running",
    SUCCEEDED: "success",
    FAILED: "failed",
    CANCELED: "canceled",
    TIMED_OUT: "failed",
}

TRANSITIONS: Final[dict[str, frozenset[str]]] = {
    "queued": frozenset({"running"}),
    "running": frozenset({"success", "failed", "canceled", "interrupted"}),
    "success": frozenset(),
    "failed": frozenset(),
    "canceled": frozenset(),
    "interrupted": frozenset(),
}

PROFILE: Final = Profile(
    name="runner",
    words=WORDS,
    transitions=TRANSITIONS,
    policies=Policies(
        cancel=("direct", "request"),
        owner_lost="interrupt",
        losses_exhausted="none",
        deadline="timed_out",
        retry=(),
        backoff="none",
        waits="none",
        waiting=("run",),
        leases_first=False,
        key="none",
        key_scope=(),
        key_conflict="none",
        same_status="error",
        event_words="callback",
        read=("projection",),
    ),
)
