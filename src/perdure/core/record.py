"""A run as it is shown: `status` in its profile's word, `state` in the canonical one."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from perdure.core.events import Entry, Recorded
from perdure.core.law import RUN_LAW
from perdure.core.run import Run
from perdure.core.states import State


class StepRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A step that is not over, as it is shown."""

    id: str
    state: str
    attempts: int = 0
    failures: int = 0
    started_at: int | None = None
    next_run_at: int | None = None
    kind: str | None = None
    name: str = ""
    expires_at: int | None = None


class Record(msgspec.Struct, frozen=True):
    """A run as it is shown. Moments are microseconds since 1970, UTC."""

    id: str
    tenant: str
    profile: str
    workflow: str
    queue: str
    priority: int
    attempt: int
    tries: int
    status: str
    state: State
    version: int
    worker: str | None
    token: int
    losses: int
    created_at: int
    started_at: int | None
    finished_at: int | None
    updated_at: int
    claim_at: int | None
    due_at: int | None
    deadline: int | None
    next_retry_at: int | None
    cancel_requested: bool
    cancel_reason: str | None
    trace_id: str
    steps: tuple[StepRecord, ...]
    untaken_signals: tuple[str, ...]


def record(run: Run) -> Record:
    """Return a run as it is shown."""
    return Record(
        id=run.id,
        tenant=run.tenant,
        profile=run.profile.name,
        workflow=run.workflow,
        queue=run.queue,
        priority=run.priority,
        attempt=run.attempt,
        tries=run.tries,
        status=run.status,
        state=run.state,
        version=run.version,
        worker=run.worker,
        token=run.token,
        losses=run.losses,
        created_at=run.created_at,
        started_at=run.started_at,
        finished_at=run.finished_at,
        updated_at=run.updated_at,
        claim_at=run.claim_at,
        due_at=run.due_at,
        deadline=run.deadline,
        next_retry_at=run.next_retry_at,
        cancel_requested=run.asked is not None,
        cancel_reason=None if run.asked is None else run.asked.reason,
        trace_id=run.trace_id,
        steps=tuple(
            StepRecord(
                s.id,
                s.state,
                s.attempts,
                s.failures,
                s.started_at,
                s.next_run_at,
                s.kind,
                s.name,
                s.expires_at,
            )
            for s in run.open
        ),
        untaken_signals=tuple(s.name for s in run.signals),
    )


def recorded(entry: Entry) -> list[Recorded]:
    """Return the events of one row of the log, each with all that the row holds for it."""
    shown = []
    state = entry.was
    for seq, event in enumerate(entry.events, entry.seq):
        kind = str(event.__struct_config__.tag)
        after = RUN_LAW[kind][0] if kind in RUN_LAW else state
        who = (entry.actor, entry.command_id)
        shown.append(Recorded(entry.run_id, seq, kind, event.at, state, after, *who, event))
        state = after
    return shown


def moment(at: int) -> str:
    """Return a moment as ISO 8601 in UTC, to the millisecond.

    >>> moment(1_000_000)
    '1970-01-01T00:00:01.000Z'
    """
    when = datetime.fromtimestamp(at / 1_000_000, UTC)
    return when.strftime("%Y-%m-%dT%H:%M:%S.") + f"{when.microsecond // 1000:03d}Z"
