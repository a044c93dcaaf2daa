"""Every profile's words, table and policies, written a second time by hand.

They are laid out the other way round, a state or a policy a row and a profile a column, so that
a slip of the pen here and one in a profile's file are unlikely to be the same.
"""

from __future__ import annotations

from typing import Any

import msgspec

from perdure import profiles
from tests.core.tables_by_hand import differences

# A dash: the profile has no word for the state.
WORDS = (
    """
    state             standard          plugin            runner       task
    queued            queued            queued            queued       queued
    ready             queued            running           -            running
    leased            -                 -                 -            -
    running           running           running           running      running
    waiting           waiting           running           -            running
    retry_scheduled   retry_scheduled   -                 -            retry_scheduled
    interrupted       interrupted       -                 interrupted  interrupted
    cancel_requested  cancel_requested  cancel_requested  running      running
    succeeded         succeeded         succeeded         success      succeeded
    failed            failed            failed            failed       failed
    canceled          canceled          canceled          canceled     cancelled
    timed_out         timed_out         timeout           failed       failed
    """,
    """
    state             approval          job        job-explicit
    queued            PENDING           Queued     Queued
    ready             RUNNING           Queued     Queued
    leased            -                 -          Leased
    running           RUNNING           Running    Running
    waiting           WAITING_APPROVAL  Waiting    Waiting
    retry_scheduled   -                 Queued     Retrying
    interrupted       -                 -          -
    cancel_requested  RUNNING           Running    Running
    succeeded         SUCCEEDED         Completed  Completed
    failed            FAILED            Failed     Failed
    canceled          CANCELED          Cancelled  Cancelled
    timed_out         FAILED            Failed     Failed
    """,
)

PAIRS = {
    "standard": """
        queued -> running, queued -> canceled, queued -> timed_out,
        running -> queued, running -> waiting, running -> retry_scheduled,
        running -> interrupted, running -> cancel_requested,
        running -> succeeded, running -> failed, running -> timed_out,
        waiting -> queued, waiting -> succeeded, waiting -> failed,
        waiting -> canceled, waiting -> timed_out,
        retry_scheduled -> running, retry_scheduled -> canceled, retry_scheduled -> timed_out,
        interrupted -> running, interrupted -> failed,
        interrupted -> canceled, interrupted -> timed_out,
        cancel_requested -> canceled, cancel_requested -> succeeded, cancel_requested -> failed
        """,
    "plugin": """
        queued -> running, queued -> canceled,
        running -> succeeded, running -> failed, running -> timeout, running -> cancel_requested,
        cancel_requested -> canceled, cancel_requested -> succeeded, cancel_requested -> failed
        """,
    "runner": """
        queued -> running,
        running -> success, running -> failed, running -> canceled, running -> interrupted
        """,
    "task": """
        queued -> running, queued -> cancelled,
        running -> succeeded, running -> failed, running -> retry_scheduled,
        running -> interrupted, running -> cancelled,
        retry_scheduled -> running, retry_scheduled -> cancelled,
        interrupted -> running, interrupted -> failed, interrupted -> cancelled
        """,
    "approval": """
        PENDING -> RUNNING,
        RUNNING -> WAITING_APPROVAL, WAITING_APPROVAL -> RUNNING,
        RUNNING -> SUCCEEDED, WAITING_APPROVAL -> SUCCEEDED,
        RUNNING -> FAILED, WAITING_APPROVAL -> FAILED,
        PENDING -> CANCELED, RUNNING -> CANCELED, WAITING_APPROVAL -> CANCELED
        """,
    "job": """
        Queued -> Running, Queued -> Cancelled,
        Running -> Waiting, Running -> Queued, Running -> Completed,
        Running -> Failed, Running -> Cancelled,
        Waiting -> Queued, Waiting -> Cancelled
        """,
    "job-explicit": """
        Queued -> Leased, Queued -> Cancelled,
        Leased -> Running, Leased -> Queued, Leased -> Cancelled,
        Running -> Waiting, Running -> Queued, Running -> Retrying, Running -> Completed,
        Running -> Failed, Running -> Cancelled,
        Waiting -> Queued, Waiting -> Cancelled,
        Retrying -> Leased, Retrying -> Cancelled
        """,
}

# The words from which nothing leads anywhere.
TERMINAL = {
    "standard": {"succeeded", "failed", "canceled", "timed_out"},
    "plugin": {"succeeded", "failed", "canceled", "timeout"},
    "runner": {"success", "failed", "canceled", "interrupted"},
    "task": {"succeeded", "failed", "cancelled"},
    "approval": {"SUCCEEDED", "FAILED", "CANCELED"},
    "job": {"Completed", "Failed", "Cancelled"},
    "job-explicit": {"Completed", "Failed", "Cancelled"},
}

# The word of a run that was just created.
INITIAL = {
    "standard": "queued",
    "plugin": "queued",
    "runner": "queued",
    "task": "queued",
    "approval": "PENDING",
    "job": "Queued",
    "job-explicit": "Queued",
}

NAMES = ("standard", "plugin", "runner", "task", "approval", "job", "job-explicit")

ASK, EITHER = ("request",), ("direct", "request")
STEP, BOTH = ("step",), ("step", "run")
RUN, RUN_OR_STEP = ("run",), ("run", "step")
STORED, STORED_OR_DERIVED = ("projection",), ("projection", "derive")
WORKFLOW, ENTRY = ("tenant", "workflow"), ("tenant", "plugin", "entry")
TENANT, API_KEY = ("tenant",), ("api_key",)

# The values stand in the order of the names above.
POLICIES = {
    "cancel": (ASK, ASK, EITHER, EITHER, EITHER, EITHER, EITHER),
    "owner_lost": ("interrupt", "fail", "interrupt", "interrupt", "release", "release", "release"),
    "losses_exhausted": ("hold", "none", "none", "fail", "fail", "fail", "fail"),
    "deadline": (*["timed_out"] * 3, "retry", *["timed_out"] * 3),
    "retry": (BOTH, STEP, (), BOTH, STEP, BOTH, BOTH),
    "backoff": ("free", "free", "none", "free", "exact", "free", "free"),
    "waits": ("shown", "hidden", "none", "hidden", "approvals", "shown", "shown"),
    "waiting": (RUN, RUN, RUN, RUN, RUN_OR_STEP, RUN, RUN),
    "leases_first": (False, False, False, False, False, False, True),
    "key": ("optional", "optional", "none", "required", "optional", "optional", "optional"),
    "key_scope": (WORKFLOW, ENTRY, (), TENANT, API_KEY, WORKFLOW, WORKFLOW),
    "key_conflict": ("refuse", "refuse", "none", "attach", "refuse", "refuse", "refuse"),
    "same_status": ("error", "error", "error", "error", "noop", "refuse", "refuse"),
    "event_words": ("canonical", "runs", "callback", "status_changed", "none", "job", "job"),
    "read": (*[STORED] * 5, STORED_OR_DERIVED, STORED_OR_DERIVED),
}

# In how many ways a profile's runs can cancel and show a wait.
VARIANTS = {
    "standard": 1,
    "plugin": 1,
    "runner": 2,
    "task": 2,
    "approval": 4,
    "job": 2,
    "job-explicit": 2,
}


def words_by_hand(name: str) -> dict[str, str]:
    """Read a profile's column of the words: state -> word."""
    for table in WORDS:
        head, *rows = (line.split() for line in table.strip().splitlines())
        if name in head:
            column = head.index(name)
            return {row[0]: row[column] for row in rows if row[column] != "-"}
    raise LookupError(name)


def pairs_by_hand(name: str) -> set[tuple[str, str]]:
    """Read a profile's pairs: (from, to)."""
    return {(a, b) for a, _, b in (pair.split() for pair in PAIRS[name].split(","))}


def table_by_hand(name: str) -> dict[str, set[str]]:
    """Read a profile's table: every word it shows -> the words that may follow."""
    pairs = pairs_by_hand(name)
    return {word: {b for a, b in pairs if a == word} for word in words_by_hand(name).values()}


def profile_by_hand(name: str) -> dict[str, Any]:
    """Gather all that is written above of one profile."""
    column = NAMES.index(name)
    return {
        "name": name,
        "words": words_by_hand(name),
        "transitions": table_by_hand(name),
        "policies": {policy: values[column] for policy, values in POLICIES.items()},
    }


def profile_differences(name: str) -> list[str]:
    """Lay the profile that perdure uses at this moment beside the one above."""
    profile = profiles.get(name)
    found = msgspec.structs.asdict(profile) | {"policies": msgspec.structs.asdict(profile.policies)}
    return differences(profile_by_hand(name), found, name)
