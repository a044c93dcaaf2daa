"""What the kills have done, counted from the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

import msgspec

from perdure.core import events as e
from perdure.core.events import Entry
from perdure.testing.crew import Kill


class Tally(msgspec.Struct, frozen=True):
    """Figures of one round. Times are in seconds, from a kill until the run was held again."""

    workers: int
    kills: int
    kills_while_writing: int
    kills_of_holders: int
    left: int
    stops: int
    runs: int
    steps: int
    steps_reclaimed: int
    runs_interrupted: int
    groups: int
    recovery_median_s: float
    recovery_longest_s: float
    took_s: float


def tally(
    logs: Mapping[str, Sequence[Entry]],
    kills: Sequence[Kill],
    *,
    workers: int,
    left: int,
    stops: int,
    took_s: float,
) -> Tally:
    """Count. A group is known by its door and its moment, which all its rows share."""
    killed_at = {worker: kill.at for kill in kills for worker in kill.workers}
    rows = [entry for entries in logs.values() for entry in entries]
    events = [event for entry in rows for event in entry.events]
    lost = [event for event in events if isinstance(event, e.RunInterrupted)]
    recoveries = [s for entries in logs.values() for s in _recoveries(entries, killed_at)]
    holders = {event.worker for event in lost}
    return Tally(
        workers=workers,
        kills=len(kills),
        kills_while_writing=sum(kill.writing for kill in kills),
        kills_of_holders=sum(not holders.isdisjoint(kill.workers) for kill in kills),
        left=left,
        stops=stops,
        runs=len(logs),
        steps=sum(isinstance(event, e.StepSucceeded) for event in events),
        steps_reclaimed=sum(isinstance(event, e.StepReclaimed) for event in events),
        runs_interrupted=len(lost),
        groups=len({(entry.command_id.partition(".")[0], entry.at) for entry in rows}),
        recovery_median_s=median(recoveries) if recoveries else 0.0,
        recovery_longest_s=max(recoveries, default=0.0),
        took_s=took_s,
    )


def _recoveries(entries: Sequence[Entry], killed_at: Mapping[str, int]) -> list[float]:
    """The seconds from each kill of a run's holder until somebody held the run again."""
    found = []
    waiting_since = None
    for entry in entries:
        for event in entry.events:
            if isinstance(event, e.RunInterrupted):
                waiting_since = killed_at.get(event.worker)
            elif isinstance(event, e.RunStarted | e.RunClaimed) and waiting_since is not None:
                found.append((event.at - waiting_since) / 1_000_000)
                waiting_since = None
    return found
