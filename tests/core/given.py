"""Runs by hand, and `given(run).when(command)`: the recorder that every test of `decide` uses.

Whatever a test asks is asked of the same run in every profile too, twice: the answers must be
equal, the questions unchanged, and each answer either folds into a sound run or is refused with
data. So each test is a small test of all the documents, whatever else it is about.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from perdure import profiles
from perdure.core import commands as c
from perdure.core import events as e
from perdure.core.decide import WHERE, decide
from perdure.core.errors import LimitExceeded, LostLease, NotAllowed, Refused, Unlawful, Unsound
from perdure.core.law import assert_sound, evolve, fold
from perdure.core.profile import Profile
from perdure.core.run import Run, unborn

S = 1_000_000
T0 = 1_700_000_000 * S
NOW = T0 + 100 * S
YES = msgspec.Raw(b"true")
ONE = msgspec.Raw(b"1")
OOPS = e.Failure("OOPS", "it broke")
WORKER = "worker-a"
PROFILES: tuple[Profile, ...] = tuple(profiles.get(name) for name in profiles.names())

CREATE = c.Create("w", "q", 5, "digest")
CREATED = e.RunCreated(T0, "w", "q", 5, claim_at=T0)
LEASED = e.RunLeased(T0, WORKER, 1)
STARTED = e.RunStarted(T0, WORKER, 1)
ASKED = e.RunCancelRequested(NOW, NOW + 10 * S, "enough")

# state -> the events after the start that lead there in every profile which has the state
AFTER_START: dict[str, tuple[e.AnyEvent, ...]] = {
    "running": (),
    "ready": (e.RunReleased(T0, T0),),
    "waiting": (e.StepWaiting(T0, "go", "signal", "go"), e.RunWaiting(T0)),
    "retry_scheduled": (e.RunRetryScheduled(T0, T0 + 60 * S),),
    "interrupted": (e.RunInterrupted(T0, WORKER),),
    "cancel_requested": (ASKED,),
    "succeeded": (e.RunSucceeded(T0),),
    "failed": (e.RunFailed(T0, OOPS),),
    "canceled": (ASKED, e.RunCanceled(T0)),
    "timed_out": (e.RunTimedOut(T0),),
}


class Then(NamedTuple):
    """What came of a command: the events, and the run they lead to."""

    run: Run
    events: list[e.AnyEvent]

    @property
    def types(self) -> list[str]:
        return [e.TYPE[type(event)] for event in self.events]

    def when(self, command: c.Command, now: int = NOW) -> Then:
        return given(self.run).when(command, now)


class Given(NamedTuple):
    """A run that is about to be given a command."""

    run: Run

    def when(self, command: c.Command, now: int = NOW) -> Then:
        for profile in PROFILES:
            other = replace(self.run, profile=profile)
            if exists(other):
                tried(other, command, now)
        events = decide(self.run, command, now)
        for profile in PROFILES:
            is_lawful_or_refused(replace(self.run, profile=profile), events)
        return Then(fold(self.run, events), events)


def given(run: Run) -> Given:
    """Begin a paragraph."""
    return Given(run)


def exists(run: Run) -> bool:
    """Say whether a run in this state can be in its profile at all."""
    try:
        assert_sound(run)
    except Unsound:
        return False
    return run.state == "unborn" or run.state in run.profile.words


def tried(run: Run, command: c.Command, now: int = NOW) -> Run | Refused:
    """Give a command to a run: it folds into a sound run or is refused with data, nothing else."""
    asked = repr((run, command))
    try:
        events = decide(run, command, now)
        again = decide(run, command, now)
        after = fold(run, events)
    except Refused as refusal:
        says_what_it_is_about(refusal, run)
        return refusal
    finally:
        assert repr((run, command)) == asked, "deciding has changed what it was given"
    assert events == again, "the same run, command and moment give the same events"
    moments = [run.updated_at, *(event.at for event in events)]
    assert moments == sorted(moments), "time never runs backwards in a run"
    assert after.version == run.version + len(events)
    return after


def is_lawful_or_refused(run: Run, events: list[e.AnyEvent]) -> None:
    """Fold events, decided for another profile perhaps, as far as the law lets them pass."""
    try:
        for event in events:
            run = evolve(run, event)
    except Unlawful as refusal:
        says_what_it_is_about(refusal, run)


def says_what_it_is_about(refusal: Refused, run: Run) -> None:
    """A refusal names the run, its state, and what is possible or what stands in the way."""
    if isinstance(refusal, LimitExceeded):
        assert refusal.asked > refusal.allowed
        assert refusal.limit in str(refusal)
        return
    assert run.id in str(refusal)
    match refusal:
        case NotAllowed():
            assert (refusal.run_id, refusal.state, refusal.status) == (
                run.id,
                run.state,
                run.status,
            )
            assert set(refusal.allowed) <= {kind.__name__ for kind in WHERE}
        case LostLease():
            assert (refusal.run_id, refusal.state) == (run.id, run.state)
            assert (refusal.token, refusal.current) != (run.token, refusal.token) or not run.worker
        case Unlawful():  # its state may be one that the command passes through
            assert (refusal.run_id, refusal.profile) == (run.id, run.profile.name)
            assert "" not in {refusal.state, refusal.event, refusal.why}
        case _:
            raise AssertionError(f"{type(refusal).__name__} carries no run") from refusal


# runs by hand ---------------------------------------------------------------------------------


@cache
def born(profile: str = "standard") -> Run:
    """Return the run that is not there yet."""
    return unborn("t", "run-0001", profiles.get(profile))


def queued(profile: str = "standard", deadline: int | None = None) -> Run:
    """Return a run that was created and never started."""
    return fold(born(profile), [replace(CREATED, deadline=deadline)])


def running(*events: e.AnyEvent, profile: str = "standard", deadline: int | None = None) -> Run:
    """Return a run that a worker holds with token 1, after some more events."""
    first = [LEASED] if profiles.get(profile).policies.leases_first else []
    return fold(queued(profile, deadline), [*first, STARTED, *events])


def in_state(state: str, profile: str = "standard", *before: e.AnyEvent) -> Run:
    """Return a run in a state; `before` happened while it was running."""
    if state == "queued":
        return queued(profile)
    if state == "leased":
        return fold(queued(profile), [LEASED])
    return running(*before, *AFTER_START[state], profile=profile)


def states_of(profile: str) -> list[str]:
    """Return the states that the profile has a word for."""
    return list(profiles.get(profile).words)


# commands by hand -----------------------------------------------------------------------------


def call(step: str = "a", *, most: int = 1) -> c.Call:
    """Return a step as its holder calls it."""
    return c.Call(step, "args", most)


def sleep_of(step: str = "sleep", *, until: int = NOW + 60 * S) -> c.Wait:
    """Return a sleep as its holder opens it."""
    return c.Wait(step, "sleep", "sleep", until)


def wait_of(kind: str, name: str, *, until: int | None = None) -> c.Wait:
    """Return a wait for a signal or for a person."""
    return c.Wait(name, kind, name, until)  # type: ignore[arg-type]


def owned(token: int = 1) -> list[c.OwnedCommand]:
    """Return one of each command that only an owner may give."""
    return [
        c.StartStep(token, call(), NOW),
        c.SucceedStep(token, call(), NOW, ONE),
        c.RetryStep(token, call(most=3), NOW, OOPS, NOW + S),
        c.FailStep(token, call(), NOW, OOPS),
        c.DropStep(token, "a"),
        c.OpenWait(token, wait_of("signal", "go")),
        c.Elapse(token, "sleep"),
        c.Suspend(token, ("go",), wait_of("signal", "go")),
        c.Release(token),
        c.Finish(token, ONE),
        c.Fail(token, OOPS),
        c.ConfirmCancel(token),
    ]


def unowned() -> list[c.Command]:
    """Return one of each command that anybody may give."""
    return [
        CREATE,
        c.Claim("worker-b"),
        c.Cancel("enough"),
        c.Signal("go", ONE),
        c.Approve("gate", YES),
        c.Reject("gate", "no"),
        c.Tick(),
        c.Tick(lost=WORKER),
        c.Tick(lost="worker-b"),
    ]
