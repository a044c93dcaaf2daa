"""perdure makes runs of Python code last: through crashes, deploys, and waits for people."""

from perdure.app import Answer, App, RunHandle
from perdure.context import approval, gather, sleep, wait_for
from perdure.core.errors import (
    Expired,
    Gone,
    PerdureError,
    Refused,
    Rejected,
    RunFailed,
    StepFailed,
)
from perdure.core.explain import Explanation
from perdure.workflow import retry, step, workflow

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "App",
    "Expired",
    "Explanation",
    "Gone",
    "PerdureError",
    "Refused",
    "Rejected",
    "RunFailed",
    "RunHandle",
    "StepFailed",
    "approval",
    "gather",
    "retry",
    "sleep",
    "step",
    "wait_for",
    "workflow",
]
