"""How a run ends, by its own workflow or because somebody wants it to; and how it is given back."""

from __future__ import annotations

import pytest

from perdure.core import commands as c
from perdure.core import events as e
from perdure.core.errors import LostLease, NotAllowed
from perdure.core.states import ALL, TERMINAL
from tests.core.given import NOW, ONE, OOPS, T0, S, given, in_state, running, states_of

BEGUN = e.StepStarted(T0, "a", T0)
BACKOFF = e.StepRetryScheduled(T0, "a", OOPS, 1, NOW + 5 * S)
GATE = e.StepWaiting(T0, "gate", "approval", "gate")
LIVE = [state for state in states_of("standard") if state not in TERMINAL]


def over(run) -> bool:
    """Say whether all that is true of an ended run is true of this one."""
    return run.over and run.finished_at == NOW and run.worker is run.claim_at is run.due_at is None


# by its workflow


@pytest.mark.parametrize("state", ["running", "cancel_requested"])
def test_a_workflow_that_returns_succeeds(state):
    """Even when it was asked to stop: work that was done first keeps its success."""
    then = given(in_state(state)).when(c.Finish(1, ONE, "digest"))
    assert then.types == ["run.succeeded"]
    assert then.events[0].output_digest == "digest"
    assert then.run.state == "succeeded"
    assert over(then.run)


@pytest.mark.parametrize("state", ["running", "cancel_requested"])
def test_a_workflow_that_raises_fails(state):
    """The error stands in the event."""
    then = given(in_state(state)).when(c.Fail(1, OOPS))
    assert then.types == ["run.failed"]
    assert then.events[0].error == OOPS
    assert over(then.run)


@pytest.mark.parametrize("command", [c.Finish(1, ONE), c.Fail(1, OOPS)])
def test_an_end_closes_what_runs_and_what_waits(command):
    """Steps whose branch nobody awaited end with the run; one that backs off stays pending."""
    other = e.StepStarted(T0, "b", T0)
    then = given(running(BEGUN, BACKOFF, other, GATE)).when(command)
    assert then.types[:-1] == ["step.canceled", "step.canceled"]
    assert [event.step for event in then.events[:-1]] == ["b", "gate"]
    assert [step.id for step in then.run.open] == ["a"]


# because somebody wants it to


@pytest.mark.parametrize("state", ["queued", "ready", "waiting", "retry_scheduled", "interrupted"])
def test_a_run_that_nobody_holds_is_canceled_at_once(state):
    """There is nobody to ask; its reason is on the log."""
    then = given(in_state(state)).when(c.Cancel("enough"))
    assert then.types[-1] == "run.canceled"
    assert then.events[-1].reason == "enough"
    assert then.run.state == "canceled"
    assert over(then.run)


def test_a_canceled_run_leaves_no_step_open():
    """What waits ends, and what would have been tried again does too."""
    waiting = running(BEGUN, BACKOFF, GATE, e.RunWaiting(T0))
    then = given(waiting).when(c.Cancel())
    assert then.types == ["step.canceled", "step.canceled", "run.canceled"]
    assert then.run.open == ()


def test_the_holder_of_a_run_is_asked_to_stop():
    """It keeps the run for its grace; who asked and why stays on the run."""
    then = given(running(BEGUN)).when(c.Cancel("enough", grace_s=5))
    assert then.types == ["run.cancel_requested"]
    run = then.run
    assert (run.state, run.worker) == ("cancel_requested", "worker-a")
    assert (run.asked.reason, run.asked.at, run.due_at) == ("enough", NOW, NOW + 5 * S)
    assert run.step("a").state == "running"


def test_a_run_is_asked_once():
    """A second request changes neither the reason nor the grace."""
    asked = in_state("cancel_requested")
    then = given(asked).when(c.Cancel("now!", grace_s=0))
    assert then.events == []
    assert then.run.asked is asked.asked


def test_the_answer_to_a_request_is_canceled():
    """With the reason that was given, and with every step closed."""
    asked = in_state("cancel_requested", "standard", BEGUN, GATE)
    then = given(asked).when(c.ConfirmCancel(1))
    assert then.types == ["step.canceled", "step.canceled", "run.canceled"]
    assert then.events[-1].reason == "enough"
    assert over(then.run)


@pytest.mark.parametrize("state", [state for state in LIVE if state != "cancel_requested"])
def test_only_a_run_that_was_asked_answers(state):
    """No owner cancels a run of its own accord."""
    with pytest.raises((NotAllowed, LostLease)):
        given(in_state(state)).when(c.ConfirmCancel(1))


@pytest.mark.parametrize("state", sorted(TERMINAL))
def test_a_run_that_is_over_cannot_be_canceled(state):
    """The refusal says in its own word what the run is."""
    with pytest.raises(NotAllowed, match=f"is {state}; 'Cancel' is not possible.*it is over") as no:
        given(in_state(state)).when(c.Cancel())
    assert no.value.allowed == ()


CANCEL_WAYS = {
    # where the document has no direct way, the run passes through the states that it does have
    ("plugin", "queued"): ["run.canceled"],
    ("plugin", "ready"): ["run.cancel_requested", "run.canceled"],
    ("plugin", "waiting"): ["step.canceled", "run.canceled"],
    ("runner", "queued"): ["run.started", "run.canceled"],
    ("task", "retry_scheduled"): ["run.canceled"],
    ("job-explicit", "leased"): ["run.canceled"],
}


@pytest.mark.parametrize(("where", "ways"), CANCEL_WAYS.items(), ids=str)
def test_a_cancel_takes_the_shortest_way_its_document_allows(where, ways):
    """A hidden wait is asked first, a run that can only start is started first: in one command."""
    profile, state = where
    if where == ("plugin", "waiting"):
        ways = ["run.cancel_requested", *ways]
    assert given(in_state(state, profile)).when(c.Cancel()).types == ways


@pytest.mark.parametrize("profile", ["runner", "task", "approval", "job"])
def test_a_running_run_is_canceled_at_once_where_the_profile_says_so(profile):
    """Its holder is not asked, and finds its run gone."""
    then = given(in_state("running", profile, BEGUN)).when(c.Cancel())
    assert then.types == ["step.canceled", "run.canceled"]


# given back


def test_a_run_is_given_back_in_good_order():
    """Any worker may take it at once, and no loss is counted."""
    then = given(running()).when(c.Release(1, "its worker stops"))
    assert then.types == ["run.released"]
    run = then.run
    assert (run.state, run.worker, run.claim_at, run.losses) == ("ready", None, NOW, 0)


def test_a_start_that_is_given_back_does_not_count():
    """The step runs again with the attempt it had not used up; what waits goes on waiting."""
    then = given(running(BEGUN, GATE)).when(c.Release(1))
    assert then.types == ["step.released", "run.released"]
    step = then.run.step("a")
    assert (step.state, step.attempts, step.started_at) == ("pending", 0, None)
    assert then.run.step("gate").state == "waiting"


def test_a_lease_can_be_given_back_unused():
    """Where the profile leases first, before anything was started."""
    then = given(in_state("leased", "job-explicit")).when(c.Release(1))
    assert then.types == ["run.released"]
    assert then.run.status == "Queued"


def test_every_state_has_been_looked_at():
    """The states of `standard` are all there are, but for the lease that only one profile has."""
    assert {*LIVE, *TERMINAL} == {*ALL} - {"leased"}
