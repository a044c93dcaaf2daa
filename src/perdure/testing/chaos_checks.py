"""What must be true after the kills, whatever was killed: pure checks over marks, runs and logs.

Each returns what it finds wrong, a finding a sentence, with the run it is about. They are given
plain values, so that a test can show each of them an offence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from perdure.core import events as e
from perdure.core.events import TYPE, Entry
from perdure.core.run import Run
from perdure.core.states import CANCELED, HELD, SUCCEEDED
from perdure.testing.errand import GATE, SIGNAL, Mark, labels_of


class Promise(NamedTuple):
    """A run whose start was acknowledged: its number, and what else was acknowledged of it."""

    run: str
    n: int
    signal: str | None = None
    canceled: bool = False


class Finding(NamedTuple):
    """Something that must not be, and of which run."""

    what: str
    run: str = ""


_OVER: Final = ("step.succeeded", "step.failed", "step.canceled")


def check_marks(marks: Iterable[Mark], stopped: Collection[int]) -> list[Finding]:
    """A body never begins after its result was returned, and no two results are returned.

    A process that was stopped past its lease cannot know that it has lost its runs before it
    asks: a body it begins under its old claim is no offence (its report is refused).
    """
    found = []
    returned: dict[tuple[str, str], Mark] = {}
    for mark in marks:
        first = returned.get((mark.run, mark.step))
        if mark.what == "began" and first is not None:
            if not (mark.pid in stopped and mark.token < first.token):
                what = f"step '{mark.step}' began again (pid {mark.pid}, token {mark.token}) after"
                what += f" its result was returned (pid {first.pid}, token {first.token})"
                found.append(Finding(what, mark.run))
        elif mark.what == "returned":
            if first is not None and first.value != mark.value:
                what = f"step '{mark.step}' returned {first.value}, and later {mark.value}"
                found.append(Finding(what, mark.run))
            returned.setdefault((mark.run, mark.step), mark)
    return found


def check_end(promise: Promise, run: Run | None, result: Any) -> list[Finding]:
    """An acknowledged run is there, over, and has the result that it must have."""
    if run is None:
        return [Finding("its start was acknowledged, and it is not there", promise.run)]
    if not run.over:
        return [Finding(f"it is not over but {run.state}", run.id)]
    if promise.canceled and run.state == CANCELED:
        return []
    if run.state != SUCCEEDED:
        return [Finding(f"it ended as {run.state}", run.id)]
    if not isinstance(result, dict) or set(result) != labels_of(promise.n):
        return [Finding(f"its result is {result!r}", run.id)]
    wanted = {GATE: True, SIGNAL: promise.signal}
    wrong = [
        label
        for label, value in result.items()
        if (value != wanted[label] if label in wanted else not str(value).startswith(f"{label}:"))
    ]
    return [Finding(f"its result has {label} = {result[label]!r}", run.id) for label in wrong]


def check_log(run: str, entries: Sequence[Entry]) -> list[Finding]:
    """The log has no gap, no step ends twice or moves after its end, and tokens only grow."""
    found: list[str] = []
    if not entries:
        return [Finding("it has no log", run)]
    seq, at, token, over = 0, 0, 0, False
    holder: str | None = None
    ended: set[str] = set()
    for entry in entries:
        if entry.seq != seq + 1 or entry.last_seq != seq + len(entry.events):
            found.append(f"after event {seq} comes a row of {entry.seq} to {entry.last_seq}")
        owners = {holder}
        for seq, event in enumerate(entry.events, entry.seq):
            kind = TYPE[type(event)]
            if event.at < at:
                found.append(f"event {seq} ({kind}) is older than the one before it")
            if over:
                found.append(f"event {seq} ({kind}) comes after the end")
            at = event.at
            match event:
                case (
                    e.RunStarted(worker=worker, token=new) | e.RunClaimed(worker=worker, token=new)
                ):
                    if new <= token:
                        found.append(f"event {seq} ({kind}) has token {new} after {token}")
                    holder, token = worker, new
                case e.RunReleased() | e.RunWaiting() | e.RunInterrupted():
                    holder = None
                case e.RunSucceeded() | e.RunFailed() | e.RunCanceled() | e.RunTimedOut():
                    holder, over = None, True
                case _ if (step := getattr(event, "step", None)) is not None:
                    if step in ended:
                        found.append(f"event {seq} ({kind}) is about '{step}', which had ended")
                    if kind in _OVER:
                        ended.add(step)
            owners.add(holder)
        if _is_worker(entry.actor) and entry.actor not in owners:
            found.append(f"row {entry.seq} was written by {entry.actor}, who did not hold the run")
    return [Finding(what, run) for what in found]


def _is_worker(actor: str) -> bool:
    return len(actor) == 26 and actor.isalnum()


def check_returned(marks: Iterable[Mark], logs: Mapping[str, Sequence[Entry]]) -> list[Finding]:
    """What `await` returned is in the log: it was durable before the workflow saw it."""
    outputs = {
        (run, msgspec.json.decode(event.output))
        for run, entries in logs.items()
        for entry in entries
        for event in entry.events
        if isinstance(event, e.StepSucceeded) and bytes(event.output).startswith(b'"')
    }
    return [
        Finding(f"step '{mark.step}' returned {mark.value}, which no event holds", mark.run)
        for mark in marks
        if mark.what == "returned" and mark.run in logs and (mark.run, mark.value) not in outputs
    ]


def check_answers(changed: Iterable[tuple[str, bool]]) -> list[Finding]:
    """Of several answers to one approval, at most one has changed anything."""
    times = Counter(run for run, did in changed if did)
    return [
        Finding(f"{n} answers to its approval were taken", run) for run, n in times.items() if n > 1
    ]


def check_recovery(longest_s: float, allowed_s: float) -> list[Finding]:
    """A killed worker is known by the lock it left; nobody has to wait until its lease is past."""
    if longest_s <= allowed_s:
        return []
    return [Finding(f"the runs of a killed worker were held again only after {longest_s:.1f} s")]


class Watch:
    """Notes when each run was last seen to change, and says which ought to have moved on."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._seen: dict[str, tuple[tuple[object, ...], float, bool]] = {}

    def see(self, run: Run, now: float, moment: int) -> None:
        """Take note of a run as it is; `moment` is the time of day, by which claims are due."""
        known = self._seen.get(run.id)
        if run.over:
            self._seen.pop(run.id, None)
            return
        moves = run.state in HELD or (run.claim_at is not None and run.claim_at <= moment)
        stamp = (run.version, run.state, run.token)
        if known is None or known[0] != stamp or known[2] != moves:
            self._seen[run.id] = (stamp, now, moves)

    def suspects(self, now: float, after_s: float) -> list[str]:
        """Return the runs that have not changed for so long, though somebody should move them."""
        return [run for run, (_, at, moves) in self._seen.items() if moves and now - at > after_s]

    def stuck(self, now: float) -> list[Finding]:
        """Return the runs that have stood still for longer than is allowed."""
        return [
            Finding(f"it stood still for {now - self._seen[run][1]:.1f} s", run)
            for run in self.suspects(now, self._patience_s)
        ]
