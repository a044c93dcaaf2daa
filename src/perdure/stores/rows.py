"""Between a run and its row: what both SQL dialects share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from perdure import profiles
from perdure.core.codec import Body, decode_body, decode_events, encode_body
from perdure.core.errors import Damaged
from perdure.core.events import AnyEvent, Entry
from perdure.core.law import fold
from perdure.core.profile import Profile
from perdure.core.run import Run
from perdure.store import Loaded, RowChange


@lru_cache(maxsize=64)
def profile(name: str) -> Profile:
    """Return the profile a row names."""
    return profiles.get(name)


def read_run(row: Sequence[Any]) -> Run:
    """Return the run a row holds, as of the row's version. Columns as in the query `run`."""
    try:
        body, words = decode_body(row[18]), profile(row[2])
    except (msgspec.DecodeError, profiles.UnknownProfile) as error:
        raise Damaged(row[1], "the row", str(error)) from error
    return Run(
        row[0],
        row[1],
        words,
        row[3],
        row[4],
        row[5],
        row[6],
        row[7],
        row[8],
        row[9],
        row[10],
        row[11],
        row[12],
        row[13],
        body.asked,
        row[14],
        body.open,
        body.signals,
        body.tries,
        body.losses,
        body.entered,
        row[15],
        row[16],
        row[17],
    )


def write_run(change: RowChange) -> tuple[Any, ...]:
    """Return what changes in a run's row, in the order of `update_run`, its key at the end."""
    run = change.run
    body = Body(run.open, run.signals, run.tries, run.losses, run.entered, run.asked)
    claim_at = run.claim_at
    return (
        run.state,
        run.token,
        run.worker,
        run.wants_at,
        run.claim_rank,
        claim_at,
        run.due_at,
        int(change.nudged),
        run.version,
        run.started_at,
        run.finished_at,
        run.updated_at,
        encode_body(body),
        run.tenant,
        run.id,
    )


def write_birth(run: Run) -> tuple[Any, ...]:
    """Return what never changes in a run's row, in the order of `insert_run` after its key."""
    return (
        run.profile.name,
        run.workflow,
        run.queue,
        run.priority,
        run.attempt,
        run.trace_id,
        run.created_at,
        run.deadline,
    )


def read_entry(row: Sequence[Any]) -> Entry:
    """Return a row of the log."""
    tenant, run, seq, last_seq, at, was, actor, command_id, _ = row
    return Entry(tenant, run, seq, last_seq, at, was, actor, command_id, read_events(row))


def read_events(row: Sequence[Any]) -> tuple[AnyEvent, ...]:
    """Return the events of a row of the log."""
    try:
        return decode_events(row[8])
    except msgspec.DecodeError as error:
        raise Damaged(row[1], f"the log's row {row[2]} to {row[3]}", str(error)) from error


def present(run: Run, tail: Iterable[Sequence[Any]]) -> Loaded:
    """Return the present of a run: its row with the log's later rows folded in."""
    row_version, rows, size = run.version, 0, 0
    for row in tail:
        run = fold(run, read_events(row))
        rows += 1
        size += len(row[8])
    return Loaded(run, row_version, rows, size)
