"""Why a run is where it is, and what happens next. Data first; the sentences are made from it."""

from __future__ import annotations

import msgspec

from perdure.core.decide import allowed_now
from perdure.core.durations import human
from perdure.core.events import Recorded
from perdure.core.run import OpenStep, Run, step_due_at
from perdure.core.states import (
    CANCEL_REQUESTED,
    HELD,
    STEP_PENDING,
    STEP_RUNNING,
    STEP_WAITING,
    WAITING,
)


class Because(msgspec.Struct, frozen=True):
    """The event that put the run into its state."""

    type: str
    seq: int
    at: int
    actor: str
    detail: str = ""


class Holder(msgspec.Struct, frozen=True):
    """Who holds the run, and until when its lease lasts unless it is renewed."""

    worker: str
    name: str
    host: str
    pid: int
    lease_until: int


class Awaited(msgspec.Struct, frozen=True):
    """Something the run waits for."""

    step: str
    kind: str
    name: str
    since: int | None
    expires_at: int | None


class Next(msgspec.Struct, frozen=True):
    """Something that will happen by itself: what, and when (None: as soon as somebody can)."""

    what: str
    at: int | None


class Explanation(msgspec.Struct, frozen=True):
    """Why a run is where it is."""

    run_id: str
    workflow: str
    status: str
    state: str
    now: int
    because: Because | None
    holder: Holder | None
    doing: tuple[str, ...]
    awaits: tuple[Awaited, ...]
    next: tuple[Next, ...]
    possible: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(_sentences(self))


def explain(run: Run, because: Recorded | None, holder: Holder | None, now: int) -> Explanation:
    """Explain a run from its present, its last change and its holder's lease."""
    return Explanation(
        run_id=run.id,
        workflow=run.workflow,
        status=run.status,
        state=run.state,
        now=now,
        because=None if because is None else _because(because),
        holder=holder,
        doing=tuple(step.id for step in run.open if step.state == STEP_RUNNING),
        awaits=tuple(
            Awaited(step.id, step.kind or "backoff", step.name, step.started_at, step_due_at(step))
            for step in run.open
            if step.state in (STEP_WAITING, STEP_PENDING)
        ),
        next=tuple(_next(run, holder)),
        possible=tuple(sorted(allowed_now(run))),
    )


def _because(it: Recorded) -> Because:
    """What the event says of itself: a reason somebody gave, or the error that ended the run."""
    error = getattr(it.event, "error", None)
    reason: str = getattr(it.event, "reason", "")
    detail = reason if error is None else f"{error.code}: {error.message}".removesuffix(": ")
    return Because(it.type, it.seq, it.at, it.actor, detail)


def _next(run: Run, holder: Holder | None) -> list[Next]:
    """What happens without anybody's doing, the earliest first."""
    if run.over:
        return []
    found = []
    if run.claim_at is not None:
        found.append(Next("a worker takes it", run.claim_at))
    if run.state in HELD and holder is not None:
        found.append(Next("its lease ends, unless its worker renews it", holder.lease_until))
    if run.state in HELD and holder is None:
        found.append(Next("it is taken from its worker, which is gone", None))
    if run.state == CANCEL_REQUESTED and run.asked is not None:
        found.append(Next("it is canceled, answered or not", run.asked.grace_until))
    if run.state == WAITING:
        found.extend(_elapsing(step) for step in run.open if step_due_at(step) is not None)
    if run.deadline is not None:
        found.append(Next("its deadline ends it", run.deadline))
    return sorted(found, key=lambda n: n.at or 0)


def _elapsing(step: OpenStep) -> Next:
    if step.state == STEP_PENDING:
        return Next(f"step '{step.id}' is tried again", step.next_run_at)
    if step.kind == "sleep":
        return Next(f"'{step.id}' is over and it goes on", step.expires_at)
    return Next(f"'{step.name}' expires unanswered", step.expires_at)


def _sentences(it: Explanation) -> list[str]:
    lines = [f"{it.workflow} {it.run_id} is {it.status}."]
    if it.because is not None:
        ago = human(it.now - it.because.at)
        event = f"{it.because.type} (event {it.because.seq})"
        lines.append(f"Because of {event}, {ago} ago, by {it.because.actor}.")
        if it.because.detail:
            said = it.because.detail.rstrip(".")
            lines.append(f"It says: {said}.")
    if it.holder is not None:
        h = it.holder
        lease = _when(h.lease_until, it.now)
        lines.append(f"Held by {h.name} on {h.host}, process {h.pid}; its lease ends {lease}.")
    if it.doing:
        lines.append("Doing: " + ", ".join(it.doing) + ".")
    lines.extend(f"Waits for {_awaited(a, it.now)}." for a in it.awaits)
    for coming in it.next:
        when = "as soon as one looks" if coming.at is None else _when(coming.at, it.now)
        lines.append(f"Next by itself: {coming.what}, {when}.")
    if not it.next and not it.possible:
        lines.append("Nothing happens any more: it is over.")
    elif not it.next:
        lines.append("Nothing happens by itself: it waits for somebody.")
    return lines


def _awaited(a: Awaited, now: int) -> str:
    what = {
        "approval": f"a person: approval '{a.name}' (gate {a.step})",
        "signal": f"the signal '{a.name}'",
        "sleep": f"time to pass ('{a.step}')",
        "backoff": f"another try of step '{a.step}'",
    }[a.kind]
    since = "" if a.since is None else f", since {human(now - a.since)}"
    ends = "ends" if a.kind in ("sleep", "backoff") else "expires"
    until = "" if a.expires_at is None else f", {ends} {_when(a.expires_at, now)}"
    return what + since + until


def _when(at: int, now: int) -> str:
    if at <= now:
        return "now" if now - at < 1_000_000 else f"due for {human(now - at)}"
    return f"in {human(at - now)}"
