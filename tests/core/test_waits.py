"""Waits: how they open, when a run is put aside, and what answers them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from perdure.core import commands as c
from perdure.core import events as e
from perdure.core.decide import decide
from perdure.core.errors import LimitExceeded
from perdure.core.limits import SIGNAL_BACKLOG
from perdure.core.run import OpenStep, Untaken
from tests.core.given import (
    NOW,
    ONE,
    OOPS,
    T0,
    YES,
    S,
    given,
    in_state,
    queued,
    running,
    sleep_of,
    wait_of,
)

GATE = e.StepWaiting(T0, "gate", "approval", "gate")
GO = e.StepWaiting(T0, "go", "signal", "go")
CAME = e.SignalReceived(T0, "go", ONE)
BEGUN = e.StepStarted(T0, "a", T0)
BACKOFF = e.StepRetryScheduled(T0, "a", OOPS, 1, NOW + 5 * S)


# opening


def test_a_wait_opens_while_other_branches_go_on():
    """The run stays with its holder; the wait shows whom it is for and until when."""
    then = given(running()).when(c.OpenWait(1, wait_of("approval", "gate", until=NOW + S)))
    assert then.types == ["step.waiting"]
    assert then.run.state == "running"
    assert then.run.step("gate") == OpenStep(
        "gate", "waiting", started_at=NOW, kind="approval", name="gate", expires_at=NOW + S
    )


def test_a_wait_opens_once():
    """A holder that asks again, after a reload perhaps, changes nothing."""
    assert given(running(GATE)).when(c.OpenWait(1, wait_of("approval", "gate"))).events == []


def test_a_signal_that_came_first_answers_the_wait_at_once():
    """The wait names the event that holds the payload, and the signal is taken."""
    before = running(CAME)
    then = given(before).when(c.OpenWait(1, wait_of("signal", "go")))
    assert then.types == ["step.waiting", "step.succeeded"]
    assert then.events[1].signal == before.version
    assert (then.run.open, then.run.signals) == ((), ())


def test_the_first_signal_of_a_name_is_taken_first():
    """Signals of one name keep their order; those of other names stay."""
    before = running(e.SignalReceived(T0, "other", ONE), CAME, CAME)
    then = given(before).when(c.OpenWait(1, wait_of("signal", "go")))
    assert then.events[1].signal == before.signals[1].seq
    assert [signal.name for signal in then.run.signals] == ["other", "go"]


# suspending


def test_a_run_whose_only_branch_waits_is_put_aside():
    """Nobody holds it, nobody may claim it, and it is due when its wait is."""
    then = given(running()).when(c.Suspend(1, ("sleep",), sleep_of(until=NOW + 60 * S)))
    assert then.types == ["step.waiting", "run.waiting"]
    run = then.run
    assert (run.state, run.worker, run.claim_at) == ("waiting", None, None)
    assert run.due_at == NOW + 60 * S


def test_a_run_that_waits_for_a_person_is_not_due():
    """Without a limit of its own a wait lasts until it is answered."""
    then = given(running()).when(c.Suspend(1, ("gate",), wait_of("approval", "gate")))
    assert then.run.due_at is None


def test_the_earliest_wait_says_when_a_run_is_due():
    """Of several branches the first whose time comes wakes the run, a backoff as well."""
    blocked = running(BEGUN, BACKOFF, GATE)
    then = given(blocked).when(c.Suspend(1, ("a", "gate", "sleep"), sleep_of()))
    assert then.run.state == "waiting"
    assert then.run.due_at == NOW + 5 * S


def test_a_wait_that_was_answered_in_between_keeps_the_run_in_hand():
    """The holder believed it blocked; the answer came first, so nothing is put aside."""
    answered = given(running(GATE)).when(c.Approve("gate", YES)).run
    assert given(answered).when(c.Suspend(1, ("gate",))).events == []


def test_a_signal_that_came_first_keeps_the_run_in_hand():
    """The wait opens, is answered at once, and its holder goes on."""
    then = given(running(CAME)).when(c.Suspend(1, ("go",), wait_of("signal", "go")))
    assert then.types == ["step.waiting", "step.succeeded"]
    assert then.run.state == "running"


def test_a_wait_whose_time_has_come_keeps_the_run_in_hand():
    """It would be due the moment it is put aside."""
    then = given(running()).when(c.Suspend(1, ("sleep",), sleep_of(until=NOW)))
    assert then.types == ["step.waiting"]
    assert then.run.state == "running"


def test_a_step_that_runs_keeps_the_run_in_hand():
    """What its holder takes for blocked has begun again."""
    assert given(running(BEGUN, GATE)).when(c.Suspend(1, ("a", "gate"))).events == []


def test_a_run_that_only_backs_off_is_released_until_the_earliest_try():
    """No wait is open, so it is no waiting run: a worker takes it when the backoff is over."""
    later = [e.StepStarted(T0, "b", T0), e.StepRetryScheduled(T0, "b", OOPS, 1, NOW + 9 * S)]
    blocked = running(BEGUN, BACKOFF, *later)
    then = given(blocked).when(c.Suspend(1, ("b", "a")))
    assert then.types == ["run.released"]
    assert (then.run.state, then.run.claim_at) == ("ready", NOW + 5 * S)


# a wait that its holder settles


def test_a_holder_ends_a_sleep_whose_time_has_come():
    """Other branches kept the run in hand, so no tick does it."""
    asleep = running(e.StepWaiting(T0, "sleep", "sleep", "sleep", NOW))
    then = given(asleep).when(c.Elapse(1, "sleep"))
    assert then.types == ["step.succeeded"]
    assert then.run.state == "running"


def test_a_question_whose_time_has_come_expires():
    """For its holder too, an unanswered wait has failed."""
    asked = running(replace(GATE, expires_at=NOW))
    (event,) = given(asked).when(c.Elapse(1, "gate")).events
    assert (event.step, event.error.code) == ("gate", "EXPIRED")
    assert "'gate'" in event.error.message


@pytest.mark.parametrize("step", ["sleep", "gate", "a", "nothing"])
def test_what_is_not_due_does_not_elapse(step):
    """Too early, without a limit, running or not there: nothing changes."""
    early = e.StepWaiting(T0, "sleep", "sleep", "sleep", NOW + 1)
    assert given(running(early, GATE, BEGUN)).when(c.Elapse(1, step)).events == []


# signals


def test_a_signal_is_taken_by_the_wait_for_it():
    """Its payload is the answer, and the waiting run wants a worker at once."""
    waiting = in_state("waiting")
    then = given(waiting).when(c.Signal("go", ONE))
    assert then.types == ["step.succeeded", "run.wait_completed"]
    assert then.events[0].output == ONE
    assert (then.run.state, then.run.claim_at, then.run.open) == ("ready", NOW, ())


def test_a_signal_reaches_a_run_in_hand():
    """Nothing wakes it: its holder hears of the answer and goes on."""
    then = given(running(GO)).when(c.Signal("go", ONE))
    assert then.types == ["step.succeeded"]
    assert then.run.state == "running"


@pytest.mark.parametrize(
    "state",
    ["queued", "ready", "running", "retry_scheduled", "interrupted", "cancel_requested"],
)
def test_a_signal_nobody_waits_for_is_kept(state):
    """In every state that is not over: it is there for whoever asks for it later."""
    then = given(in_state(state)).when(c.Signal("go", ONE))
    assert then.types == ["signal.received"]
    assert then.run.state == state
    assert then.run.signals == (Untaken("go", then.run.version),)


def test_a_signal_of_another_name_leaves_a_wait_alone():
    """It is kept, and the run goes on waiting."""
    then = given(in_state("waiting")).when(c.Signal("stop", ONE))
    assert then.types == ["signal.received"]
    assert then.run.state == "waiting"


def test_the_oldest_of_two_waits_takes_the_signal():
    """One signal answers one wait; the other stays open."""
    both = running(GO, replace(GO, step="go#2"))
    assert [step.id for step in given(both).when(c.Signal("go", ONE)).run.open] == ["go#2"]


def test_the_backlog_of_signals_has_a_limit():
    """A run that never asks for them is not filled without end."""
    kept = tuple(Untaken("go", n) for n in range(SIGNAL_BACKLOG))
    full = replace(queued(), signals=kept)
    with pytest.raises(LimitExceeded, match=f"untaken is {SIGNAL_BACKLOG}"):
        decide(full, c.Signal("go", ONE), NOW)


# approvals


def test_an_answer_is_an_answer():
    """Whatever a person said is the gate's output, and the run wants a worker."""
    waiting = running(GATE, e.RunWaiting(T0))
    then = given(waiting).when(c.Approve("gate", YES))
    assert then.types == ["step.succeeded", "run.wait_completed"]
    assert then.events[0].output == YES
    assert then.run.state == "ready"


def test_a_rejection_fails_the_gate_and_wakes_the_run():
    """The workflow decides what a no means."""
    waiting = running(GATE, e.RunWaiting(T0))
    then = given(waiting).when(c.Reject("gate", "too dear"))
    assert then.types == ["step.failed", "run.wait_completed"]
    assert then.events[0].error == e.Failure("REJECTED", "too dear")


@pytest.mark.parametrize("command", [c.Approve("gate", YES), c.Reject("gate", "no")])
@pytest.mark.parametrize("first", [c.Approve("gate", YES), c.Reject("gate", "no")])
def test_a_second_answer_to_a_gate_changes_nothing(first, command):
    """A double click passes one gate, and a change of mind comes too late."""
    once = given(running(GATE)).when(first)
    assert once.when(command).events == []


@pytest.mark.parametrize("state", ["queued", "running", "waiting", "succeeded", "canceled"])
def test_an_answer_to_no_open_gate_changes_nothing(state):
    """In any state, an end included: late is not wrong."""
    assert given(in_state(state)).when(c.Approve("gate", YES)).events == []


def test_an_approval_passes_its_own_gate_alone():
    """Two gates side by side; the answer names one, the run goes on for it."""
    two = running(GATE, replace(GATE, step="gate#2"), e.RunWaiting(T0))
    then = given(two).when(c.Approve("gate#2", YES))
    assert [step.id for step in then.run.open] == ["gate"]
    assert then.run.state == "ready"


def test_a_step_that_is_no_gate_cannot_be_approved():
    """A wait for a signal is answered by signals."""
    assert given(running(GO)).when(c.Approve("go", YES)).events == []
