"""Is the log still the truth? Fold it, compare what a store keeps beside it, and say what differs.

Nothing is changed here and nothing is repaired. A run may move on while it is looked at, so its
row is read before and after its log: a row that stayed the same was the same all the while, and
only such a pair is judged as one moment. Of a run that never holds still, the row is compared
with the log at the row's own version, which must agree whatever has come since.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from perdure.core.errors import Damaged, NoSuchRun, Unlawful, Unsound
from perdure.core.events import (
    TYPE,
    Entry,
    RunCreated,
    RunFailed,
    RunSucceeded,
    StepReclaimed,
    StepStarted,
    StepSucceeded,
    StepWaiting,
)
from perdure.core.law import fold
from perdure.core.limits import PAGE_RUNS, TAIL_BYTES, TAIL_ROWS
from perdure.core.payload import digest
from perdure.core.run import Run, unborn
from perdure.core.states import FAILED, HELD, SUCCEEDED
from perdure.store import Payloads, Row, Store

PAGE_ENTRIES: Final = 1_000
# How often a run that moves on is looked at again before it is judged as it was.
LOOKS: Final = 5
# Who speaks when time does: the actor of a tick.
ENGINE: Final = "engine"
FINDINGS_KEPT: Final = 10_000
FINDINGS_SHOWN: Final = 50
VALUE_CHARACTERS: Final = 80

# Everything that can be found, by its code. The first of each kind is kept of a run.
KINDS: Final[dict[str, str]] = {
    # the log alone; what cannot be folded ends the examination of its run
    "gap in the log": "rows are missing before this one",
    "overlap in the log": "two rows hold the same event",
    "wrong count of events": "a row holds more or fewer events than its numbers say",
    "log row unreadable": "a row's events are no events of this perdure",
    "unlawful event": "the law, or the profile's document, does not have it there",
    "unsound state": "the events lead to a run of which its state does not hold",
    "state before differs": "a row names another state than the events before it lead to",
    "time runs backwards": "an event is older than the one before it",
    "moment differs": "a row bears another moment than its last event",
    "step ran again": "a step was begun or asked for again after it had succeeded",
    # the row beside the log
    "row missing": "there is a log and no row",
    "row unreadable": "the row's body or its profile cannot be understood",
    "log ends early": "the row knows of events that are not in the log",
    "row behind its log": "nobody holds the run, and its row does not know all events",
    "version inside a log row": "the row's version is no boundary between two commands",
    "head differs": "what must be current in the row is not what the log's end says",
    "body differs": "the rest of the row is not what the log says at the row's version",
    "tail too long": "the row should have been written again long ago",
    "holder unknown": "the worker that holds the run has no registration",
    # the payloads
    "payloads missing": "the run has no input",
    "input differs": "the input is not the one the run was created with",
    "result differs": "the result is not the one the run succeeded with",
    "outcome differs": "there is a result or an error where the run's end says otherwise",
}

# What a row holds as of its version; all else in it is always current.
_BODY: Final = ("open", "signals", "tries", "losses", "entered", "updated_at")
_KEY: Final = ("tenant", "id", "profile", "version")
_HEAD: Final = tuple(f for f in Run.__struct_fields__ if f not in {*_BODY, *_KEY})
_FOUND_BY: Final = ("claim_rank", "claim_at", "due_at")
_OPENS: Final = (StepStarted, StepReclaimed, StepWaiting)


class Finding(msgspec.Struct, frozen=True):
    """One thing that is not as it must be: a code of `KINDS`, and what it is about."""

    run_id: str
    what: str
    detail: str

    def __str__(self) -> str:
        return f"run {self.run_id}: {self.what}: {self.detail}"


class Report(msgspec.Struct, frozen=True):
    """What was looked at, and what was found; `more` counts findings beyond those kept.

    >>> print(Report(1204, 14882, 31022, ()))
    1,204 runs, 14,882 log rows, 31,022 events: sound.
    """

    runs: int
    entries: int
    events: int
    findings: tuple[Finding, ...]
    more: int = 0

    @property
    def sound(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    def __str__(self) -> str:
        seen = (
            f"{_counted(self.runs, 'run')}, {_counted(self.entries, 'log row')}, "
            f"{_counted(self.events, 'event')}"
        )
        if self.sound:
            return f"{seen}: sound."
        found = len(self.findings) + self.more
        lines = [f"{seen}: {_counted(found, 'finding')}."]
        lines += [f"  {finding}" for finding in self.findings[:FINDINGS_SHOWN]]
        if found > FINDINGS_SHOWN:
            lines.append(f"  … and {found - FINDINGS_SHOWN:,} more.")
        return "\n".join(lines)


def verify_run(store: Store, tenant: str, run_id: str) -> Report:
    """Verify one run; raise `NoSuchRun` when the store has nothing of it."""
    audit = _Audit(store, tenant, run_id)
    if not audit.verify():
        raise NoSuchRun(run_id)
    return Report(1, audit.entries, audit.events, tuple(audit.findings.values()))


def verify_store(
    store: Store, tenant: str, *, progress: Callable[[int], None] | None = None
) -> Report:
    """Verify every run of a tenant, the newest first; tell `progress` how many are done.

    The store may be in use meanwhile; a run that begins then may be left out.
    """
    runs = entries = events = more = 0
    findings: list[Finding] = []
    for run_id in _run_ids(store, tenant):
        audit = _Audit(store, tenant, run_id)
        if not audit.verify():
            continue  # removed since it was listed
        runs, entries, events = runs + 1, entries + audit.entries, events + audit.events
        found = list(audit.findings.values())
        kept = found[: FINDINGS_KEPT - len(findings)]
        findings += kept
        more += len(found) - len(kept)
        if progress is not None:
            progress(runs)
    return Report(runs, entries, events, tuple(findings), more)


def _run_ids(store: Store, tenant: str) -> Iterator[str]:
    """Name every run, page by page; a row that cannot be read is met in a page of its own."""
    before: str | None = None
    limit = PAGE_RUNS
    while True:
        try:
            page = store.listing(tenant, before=before, limit=limit, states=None)
        except Damaged as damaged:
            if limit == 1:
                yield damaged.run_id
                before, limit = damaged.run_id, PAGE_RUNS
            else:
                limit = 1
            continue
        for run in page:
            yield run.id
        if len(page) < limit:
            return
        before = page[-1].id


class _Look(NamedTuple):
    """A run's row as it is stored, and how much of the log it does not know."""

    row: Row
    tail_rows: int
    tail_bytes: int


class _Audit:
    """One run under examination: its log folded so far, and the first finding of each kind."""

    def __init__(self, store: Store, tenant: str, run_id: str) -> None:
        self.store, self.tenant, self.run_id = store, tenant, run_id
        self.findings: dict[str, Finding] = {}
        self.entries = self.events = 0
        # the last event that was read, and the run as the log has it there
        self.seen = 0
        self.run: Run
        # the run at each of the last boundaries between two commands: a row lags no further
        self.recent: deque[Run] = deque(maxlen=TAIL_ROWS + 1)
        self.broken = False
        self.succeeded: set[str] = set()
        self.input_digest = self.output_digest = self.failed_by = ""

    def verify(self) -> bool:
        """Verify the run; False when there is nothing of it."""
        try:
            look = self._look()
            if look is None:
                return self._verify_rowless()
            self._verify_from(look)
        except Damaged as damaged:
            self._find("row unreadable", damaged.why)
        return True

    def _verify_rowless(self) -> bool:
        log = self.store.entries(self.tenant, self.run_id, 0, 1)
        if not log:
            return False
        look = self._look()
        if look is None:
            self._find("row missing", f"the log begins with event {log[0].seq}")
        else:  # it was created between the two looks
            self._verify_from(look)
        return True

    def _verify_from(self, look: _Look) -> None:
        self.run = unborn(self.tenant, self.run_id, look.row.run.profile)
        self.recent.append(self.run)
        for _ in range(LOOKS):
            self._read_on()
            if self.broken:
                return
            payloads = self.store.payloads(self.tenant, self.run_id)
            known = self._is_known(look.row.run.worker)
            again = self._look()
            if again is None:
                return  # removed while it was looked at
            if again.row == look.row:
                self._judge(again, payloads, known=known)
                return
            look = again
        self._read_on()
        if not self.broken:
            self._judge_in_motion(look.row)

    # reading

    def _look(self) -> _Look | None:
        """Read the row as it is stored, whether or not the log's tail can be folded into it."""
        try:
            loaded = self.store.find(self.tenant, self.run_id)
        except (Unlawful, Unsound, Damaged):
            return self._look_past_tail()
        if loaded is None:
            return None
        assert loaded.row is not None, "`find` answers with the row"
        return _Look(loaded.row, loaded.tail_rows, loaded.tail_bytes)

    def _look_past_tail(self) -> _Look | None:
        # an id has no character below the space, so none lies between this one and that
        before = self.run_id + " "
        for run in self.store.listing(self.tenant, before=before, limit=1, states=None):
            if run.id == self.run_id:
                return _Look(Row(run, run.claim_rank, run.claim_at, run.due_at), 0, 0)
        return None

    def _is_known(self, worker: str | None) -> bool:
        return worker is None or any(w.worker == worker for w in self.store.workers())

    def _read_on(self) -> None:
        """Read the log to its end, or to where it cannot be followed any further."""
        limit = PAGE_ENTRIES
        while not self.broken:
            try:
                page = self.store.entries(self.tenant, self.run_id, self.seen, limit)
            except Damaged as damaged:
                if limit == 1:
                    self._break("log row unreadable", f"{damaged.what}: {damaged.why}")
                limit = 1
                continue
            for entry in page:
                self._take(entry)
                if self.broken:
                    return
            if len(page) < limit:
                return

    # one row of the log

    def _take(self, entry: Entry) -> None:
        self.entries += 1
        self.events += len(entry.events)
        here = f"row {entry.seq} to {entry.last_seq}"
        if entry.seq > self.seen + 1:
            self._break("gap in the log", f"after event {self.seen} comes the {here}")
        elif entry.seq <= self.seen:
            self._break("overlap in the log", f"after event {self.seen} comes the {here}")
        elif entry.last_seq - entry.seq + 1 != len(entry.events):
            self._break("wrong count of events", f"{here} holds {len(entry.events)}")
        else:
            self._fold(entry, here)
            self.seen = entry.last_seq

    def _fold(self, entry: Entry, here: str) -> None:
        before = self.run
        if entry.was != before.state:
            self._find("state before differs", f"{here} says {entry.was}, it was {before.state}")
        try:
            self.run = fold(before, entry.events)
        except Unlawful as unlawful:
            self._break("unlawful event", f"{here}: {unlawful}")
            return
        except Unsound as unsound:
            self._break("unsound state", f"{here}: {unsound}")
            return
        self.recent.append(self.run)
        self._check_moments(entry, here, before.updated_at)
        if self.run.tries != before.tries:
            self.succeeded.clear()
        for seq, event in enumerate(entry.events, entry.seq):
            if isinstance(event, _OPENS) and event.step in self.succeeded:
                self._find("step ran again", f"event {seq}: {TYPE[type(event)]} of '{event.step}'")
            elif isinstance(event, StepSucceeded):
                self.succeeded.add(event.step)
            elif isinstance(event, RunCreated):
                self.input_digest = event.input_digest
            elif isinstance(event, RunSucceeded):
                self.output_digest = event.output_digest
            elif isinstance(event, RunFailed):
                self.failed_by = entry.actor

    def _check_moments(self, entry: Entry, here: str, at: int) -> None:
        for seq, event in enumerate(entry.events, entry.seq):
            if event.at < at:
                self._find("time runs backwards", f"event {seq} is of {event.at}, after {at}")
            at = event.at
        if entry.at != at:
            self._find("moment differs", f"{here} is of {entry.at}, its last event of {at}")

    # the row beside the log

    def _judge(self, look: _Look, payloads: Payloads | None, *, known: bool) -> None:
        """Judge row, log and payloads of one moment."""
        row, end = look.row, self.run
        version = row.run.version
        if version > end.version:
            self._find("log ends early", f"the row is at {version}, the log ends at {end.version}")
            return
        if version < end.version and end.state not in HELD:
            self._find("row behind its log", f"the row is at {version}, the log at {end.version}")
            return
        self._compare("head differs", _head(row), end)
        self._judge_body(row.run)
        if look.tail_rows >= TAIL_ROWS or look.tail_bytes >= TAIL_BYTES:
            size = f"{look.tail_rows} rows of {look.tail_bytes:,} bytes"
            self._find(
                "tail too long", f"{size}; less than {TAIL_ROWS} and {TAIL_BYTES:,} are lawful"
            )
        if not known:
            self._find("holder unknown", f"no worker is registered as {row.run.worker}")
        self._judge_payloads(payloads)

    def _judge_body(self, stored: Run) -> None:
        then = self._at(stored.version)
        if then is not None:
            self._compare("body differs", _body(stored), then)
        elif stored.version > self.recent[0].version:
            self._find("version inside a log row", f"no row of the log ends at {stored.version}")
        else:
            self._find("tail too long", f"more than {TAIL_ROWS} rows after event {stored.version}")

    def _judge_in_motion(self, row: Row) -> None:
        """Judge a row of which the log's end is not known: its whole is the fold at its version."""
        then = self._at(row.run.version)
        if then is not None:
            self._compare("head differs", _head(row), then)
            self._compare("body differs", _body(row.run), then)

    def _judge_payloads(self, payloads: Payloads | None) -> None:
        if payloads is None:
            self._find("payloads missing", "not even its input is there")
            return
        if self.input_digest not in {"", digest(payloads.input)}:
            self._find("input differs", f"its digest is not {self.input_digest}")
        state, result, error = self.run.state, payloads.result, payloads.error
        # a run that the engine gave up has its reason in the log alone
        fails = state == FAILED and (error is not None or self.failed_by != ENGINE)
        if (result is not None) != (state == SUCCEEDED) or (error is not None) != fails:
            has = "a result" if result is not None else "no result"
            has += " and an error" if error is not None else " and no error"
            self._find("outcome differs", f"the run is {state} and has {has}")
        elif result is not None and self.output_digest not in {"", digest(result)}:
            self._find("result differs", f"its digest is not {self.output_digest}")

    def _at(self, version: int) -> Run | None:
        """The run at a boundary between two commands, if it is one of the last."""
        return next((run for run in self.recent if run.version == version), None)

    def _compare(self, what: str, stored: list[tuple[str, Any]], folded: Run) -> None:
        differences = [
            f"{name} is {_short(value)} in the row, {_short(getattr(folded, name))} by the log"
            for name, value in stored
            if value != getattr(folded, name)
        ]
        if differences:
            self._find(what, "; ".join(differences))

    def _break(self, what: str, detail: str) -> None:
        """Note something after which the log cannot be folded any further."""
        self.broken = True
        self._find(what, detail)

    def _find(self, what: str, detail: str) -> None:
        assert what in KINDS, "a finding is of a kind that has its sentence"
        self.findings.setdefault(what, Finding(self.run_id, what, detail))


def _head(row: Row) -> list[tuple[str, Any]]:
    named = [(name, getattr(row.run, name)) for name in _HEAD]
    return named + [(name, getattr(row, name)) for name in _FOUND_BY]


def _body(run: Run) -> list[tuple[str, Any]]:
    return [(name, getattr(run, name)) for name in _BODY]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= VALUE_CHARACTERS else text[: VALUE_CHARACTERS - 1] + "…"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
