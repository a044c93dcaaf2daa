"""The law's two tables, written a second time by hand, and what lays two tables side by side.

No entry here is taken from perdure: a table built from the code could not contradict it.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from perdure.core import law

# event -> (where it leads, where it may come from); "unborn" is a run that is not there yet
RUN_LAW = {
    "run.created": ("queued", {"unborn"}),
    "run.leased": ("leased", {"queued", "ready", "retry_scheduled"}),
    "run.started": ("running", {"queued", "leased", "retry_scheduled", "interrupted"}),
    "run.claimed": ("running", {"ready"}),
    "run.released": ("ready", {"running", "leased"}),
    "run.waiting": ("waiting", {"running"}),
    "run.wait_completed": ("ready", {"waiting"}),
    "run.retry_scheduled": ("retry_scheduled", {"running", "ready", "waiting"}),
    "run.interrupted": ("interrupted", {"running"}),
    "run.cancel_requested": ("cancel_requested", {"running", "ready", "waiting"}),
    "run.succeeded": ("succeeded", {"running", "cancel_requested", "waiting"}),
    "run.failed": ("failed", {"running", "cancel_requested", "waiting", "interrupted"}),
    "run.canceled": (
        "canceled",
        {
            "queued",
            "ready",
            "leased",
            "running",
            "cancel_requested",
            "waiting",
            "retry_scheduled",
            "interrupted",
        },
    ),
    "run.timed_out": (
        "timed_out",
        {"queued", "ready", "running", "waiting", "retry_scheduled", "interrupted"},
    ),
}

# The same of a step; "absent" is a step no event has named yet.
STEP_LAW = {
    "step.started": ("running", {"absent", "pending"}),
    "step.reclaimed": ("running", {"running"}),
    "step.succeeded": ("succeeded", {"running", "waiting"}),
    "step.failed": ("failed", {"running", "waiting"}),
    "step.retry_scheduled": ("pending", {"running"}),
    "step.released": ("pending", {"running", "waiting"}),
    "step.waiting": ("waiting", {"absent", "pending", "running"}),
    "step.canceled": ("canceled", {"pending", "running", "waiting"}),
}

# A template's positions are implied by `run.created`; this event is never written.
IMPLIED = "step.created"

# state -> who holds the run in it, and whether it wants a worker
STATES = {
    "queued": ("nobody", "wants a worker"),
    "ready": ("nobody", "wants a worker"),
    "leased": ("a worker", ""),
    "running": ("a worker", ""),
    "cancel_requested": ("a worker", ""),
    "waiting": ("nobody", ""),
    "retry_scheduled": ("nobody", "wants a worker"),
    "interrupted": ("nobody", "wants a worker"),
    "succeeded": ("nobody", "is over"),
    "failed": ("nobody", "is over"),
    "canceled": ("nobody", "is over"),
    "timed_out": ("nobody", "is over"),
}

OVER = {"succeeded", "failed", "canceled", "timed_out"}
STEP_OVER = {"succeeded", "failed", "canceled"}


def differences(by_hand: Any, found: Any, where: str = "") -> list[str]:
    """Name every entry in which two tables differ; none means that they are equal."""
    if isinstance(by_hand, Mapping) and isinstance(found, Mapping):
        lost = [f"{where}/{key}: missing" for key in sorted(by_hand.keys() - found.keys())]
        new = [f"{where}/{key}: too much" for key in sorted(found.keys() - by_hand.keys())]
        other = [
            difference
            for key in sorted(by_hand.keys() & found.keys())
            for difference in differences(by_hand[key], found[key], f"{where}/{key}")
        ]
        return lost + new + other
    if isinstance(by_hand, AbstractSet) and isinstance(found, AbstractSet):
        lost = [f"{where}/{item}: missing" for item in sorted(by_hand - found)]
        new = [f"{where}/{item}: too much" for item in sorted(found - by_hand)]
        return lost + new
    if type(by_hand) is not type(found) or by_hand != found:
        return [f"{where}: {by_hand!r} by hand, {found!r} found"]
    return []


def run_law_differences() -> list[str]:
    """Lay the run law that perdure uses at this moment beside the one above."""
    return differences(_as_mappings(RUN_LAW), _as_mappings(law.RUN_LAW), "run_law")


def step_law_differences() -> list[str]:
    """Lay the step law that perdure uses at this moment beside the one above."""
    return differences(_as_mappings(STEP_LAW), _as_mappings(law.STEP_LAW), "step_law")


def _as_mappings(table: Mapping[str, tuple[str, AbstractSet[str]]]) -> dict[str, dict[str, Any]]:
    return {event: {"to": to, "from": sources} for event, (to, sources) in table.items()}
