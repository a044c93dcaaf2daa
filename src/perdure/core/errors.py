"""Every refusal, each with the data it is about. A message is made from the data, once, here.

What a user's workflow meets (`StepFailed`, `Rejected`, `Expired`, `Gone`) stands beside what a
caller meets (`Refused` and its kinds), so that one page shows all that can go wrong.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perdure.core.events import Failure
    from perdure.core.run import Run


class PerdureError(Exception):
    """Everything perdure raises on purpose, `Gone` excepted."""


class Refused(PerdureError):
    """A command was not accepted; nothing was written."""


class NotAllowed(Refused):
    """The run's state has no room for the command.

    `allowed` names the commands that the same state would take now.
    """

    def __init__(self, run: Run, command: str, allowed: Iterable[str]) -> None:
        self.run_id, self.state, self.status = run.id, run.state, run.status
        self.command, self.allowed = command, tuple(sorted(allowed))
        can = ", ".join(self.allowed) or "nothing: it is over"
        super().__init__(
            f"run {self.run_id} is {self.status}; '{command}' is not possible now (possible: {can})"
        )


class LostLease(Refused):
    """The caller is not the run's owner any more (or never was)."""

    def __init__(self, run: Run, command: str, token: int) -> None:
        self.run_id, self.state, self.token, self.current = run.id, run.state, token, run.token
        self.command = command
        who = f"held by {run.worker}" if run.worker else "held by nobody"
        super().__init__(
            f"run {run.id} is {run.status} and {who} with token {run.token}; "
            f"'{command}' came with token {token} and was refused"
        )


class Unlawful(Refused):
    """An event that the law, or the profile's own document, does not have from this state."""

    def __init__(self, run: Run, event: str, why: str, step: str | None = None) -> None:
        self.run_id, self.state, self.status = run.id, run.state, run.status
        self.profile, self.event, self.step, self.why = run.profile.name, event, step, why
        what = event if step is None else f"{event} of '{step}'"
        super().__init__(f"{what} is not lawful for run {run.id} ({run.status}): {why}")

    @classmethod
    def of_run(cls, run: Run, event: str, why: str) -> Unlawful:
        """Refuse an event about the run itself."""
        return cls(run, event, why)

    @classmethod
    def of_step(cls, run: Run, event: str, step: str, state: str, why: str) -> Unlawful:
        """Refuse an event about one of its steps."""
        return cls(run, event, f"the step is {state}; {why}", step)


class Unsound(PerdureError):
    """What a state promises is not true of a run: a defect of perdure, never of its user."""

    def __init__(self, run_id: str, state: str, broken: str) -> None:
        self.run_id, self.state, self.broken = run_id, state, broken
        super().__init__(f"run {run_id} in {state} breaks: {broken}")


class NoSuchRun(Refused):
    """No run has this id here."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(f"there is no run '{run_id}'")


class NoSuchGate(Refused):
    """The run has no approval of this name to answer."""

    def __init__(self, run_id: str, gate: str | None, open_gates: Iterable[str]) -> None:
        self.run_id, self.gate, self.open_gates = run_id, gate, tuple(open_gates)
        here = ", ".join(repr(g) for g in self.open_gates) or "none is open"
        asked = "an approval" if gate is None else f"the approval '{gate}'"
        super().__init__(f"run {run_id} does not wait for {asked} (open approvals: {here})")


class KeyTaken(Refused):
    """The idempotency key belongs to a run that was started with another input."""

    def __init__(self, key: str, run_id: str, digest: str, other: str) -> None:
        self.key, self.run_id, self.digest, self.other = key, run_id, digest, other
        super().__init__(
            f"key '{key}' belongs to run {run_id}, started with another input "
            f"(digest {other}; yours is {digest}); use another key, or the same input"
        )


class RunExists(Refused):
    """A run id that the caller chose is taken."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(f"run '{run_id}' exists already; leave the id out to get a fresh one")


class LimitExceeded(Refused):
    """A named limit was passed."""

    def __init__(self, limit: str, allowed: int, asked: int, what: str = "") -> None:
        self.limit, self.allowed, self.asked = limit, allowed, asked
        about = f" ({what})" if what else ""
        super().__init__(f"{limit} is {allowed}; this would be {asked}{about}")


class BadPayload(Refused):
    """A value that cannot be stored as JSON and read back as it was."""

    def __init__(self, where: str, why: str) -> None:
        self.where, self.why = where, why
        super().__init__(f"{where}: {why}")


class BadName(Refused):
    """A name or an id that perdure cannot use, and what it may be made of."""

    def __init__(self, field: str, value: str, rule: str) -> None:
        self.field, self.value, self.rule = field, value, rule
        super().__init__(f"{field} {value!r} is not usable: {rule}")


class StoreError(PerdureError):
    """A store cannot be opened or used; the message says what to do about it."""


class Damaged(StoreError):
    """What a store holds of a run cannot be read: changed by hand, or by a failing disk."""

    def __init__(self, run_id: str, what: str, why: str) -> None:
        self.run_id, self.what, self.why = run_id, what, why
        super().__init__(f"{what} of run {run_id} cannot be read: {why}")


class Closed(PerdureError):
    """The app or the store was closed while, or before, something was asked of it."""


class StepFailed(PerdureError):
    """A step failed for good; raised in the workflow that awaited it, and again on replay."""

    def __init__(self, step: str, failure: Failure) -> None:
        self.step, self.failure, self.code = step, failure, failure.code
        super().__init__(f"step '{step}' failed: {failure.code}: {failure.message}")


class Rejected(PerdureError):
    """A person said no to an approval."""

    def __init__(self, gate: str, note: str) -> None:
        self.gate, self.note = gate, note
        super().__init__(f"'{gate}' was rejected" + (f": {note}" if note else ""))


class Expired(PerdureError, TimeoutError):
    """Nobody answered a wait in its time."""

    def __init__(self, step: str) -> None:
        self.step = step
        super().__init__(f"'{step}' was not answered in time")


class RunFailed(PerdureError):
    """The awaited run did not succeed; `status` is its last word, `failure` what it left."""

    def __init__(self, run_id: str, status: str, failure: Failure) -> None:
        self.run_id, self.status, self.failure, self.code = run_id, status, failure, failure.code
        super().__init__(f"run {run_id} {status}: {failure.code}: {failure.message}")


class NotInRun(PerdureError):
    """Something that only a workflow's own code can do was tried elsewhere."""


class Gone(BaseException):
    """This copy of the workflow is not the run any more; it must unwind and do nothing.

    Raised by every call to perdure once the run was put aside, taken over or ended elsewhere.
    It is no `Exception`, so that a workflow's `except Exception` does not act because of it.
    """
