"""What time does to a run: timers, deadlines, the end of a grace, and a worker that is gone."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from perdure.core import commands as c
from perdure.core import events as e
from perdure.core.errors import LostLease, NotAllowed, Unlawful
from perdure.core.states import TERMINAL
from tests.core.given import (
    NOW,
    ONE,
    OOPS,
    T0,
    WORKER,
    S,
    given,
    in_state,
    queued,
    running,
    states_of,
)

BEGUN = e.StepStarted(T0, "a", T0)
BACKOFF = e.StepRetryScheduled(T0, "a", OOPS, 1, NOW)
SLEEP = e.StepWaiting(T0, "sleep", "sleep", "sleep", NOW)
GATE = e.StepWaiting(T0, "gate", "approval", "gate", NOW)
OPEN = e.StepWaiting(T0, "open", "signal", "open")
LIVE = [state for state in states_of("standard") if state not in TERMINAL]


@pytest.mark.parametrize("state", LIVE)
def test_a_tick_before_anything_is_due_changes_nothing(state):
    """Whoever looks too early, or at a run that time does not change, leaves it as it is."""
    assert given(in_state(state)).when(c.Tick(), T0).events == []


@pytest.mark.parametrize("state", sorted(TERMINAL))
def test_time_does_nothing_to_a_run_that_is_over(state):
    """A tick that comes late is refused like any other command."""
    with pytest.raises(NotAllowed):
        given(in_state(state)).when(c.Tick())


# waits


def test_a_timer_ends_its_sleep_and_wakes_the_run():
    """At its moment, not a microsecond before."""
    asleep = running(SLEEP, e.RunWaiting(T0))
    assert given(asleep).when(c.Tick(), NOW - 1).events == []
    then = given(asleep).when(c.Tick(), NOW)
    assert then.types == ["step.succeeded", "run.wait_completed"]
    assert (then.run.state, then.run.claim_at) == ("ready", NOW)


def test_an_unanswered_question_expires():
    """Its step has failed; the workflow learns of it when it goes on."""
    then = given(running(GATE, e.RunWaiting(T0))).when(c.Tick())
    assert then.types == ["step.failed", "run.wait_completed"]
    assert then.events[0].error.code == "EXPIRED"


def test_one_tick_ends_every_wait_that_is_due():
    """And leaves the others open; the run wakes once."""
    then = given(running(SLEEP, GATE, OPEN, e.RunWaiting(T0))).when(c.Tick())
    assert then.types == ["step.succeeded", "step.failed", "run.wait_completed"]
    assert [step.id for step in then.run.open] == ["open"]


def test_a_backoff_beside_a_wait_wakes_the_run():
    """Its step is not over: whoever claims the run tries it again."""
    then = given(running(BEGUN, BACKOFF, OPEN, e.RunWaiting(T0))).when(c.Tick())
    assert then.types == ["run.wait_completed"]
    assert [step.id for step in then.run.open] == ["a", "open"]


def test_a_timer_of_a_run_in_hand_is_its_holders():
    """No tick ends a sleep while other branches run."""
    assert given(running(SLEEP)).when(c.Tick()).events == []


# the deadline


@pytest.mark.parametrize("state", [state for state in LIVE if state != "cancel_requested"])
def test_a_deadline_ends_a_run_in_every_state(state):
    """Whether it runs, waits or was never begun, in `standard`."""
    late = replace(in_state(state), deadline=NOW)
    assert late.due_at == NOW
    then = given(late).when(c.Tick())
    assert then.types[-1] == "run.timed_out"
    assert (then.run.state, then.run.finished_at) == ("timed_out", NOW)


def test_a_deadline_closes_what_is_open():
    """As every end does."""
    late = running(BEGUN, GATE, deadline=NOW)
    assert given(late).when(c.Tick()).types == ["step.canceled", "step.canceled", "run.timed_out"]


def test_a_deadline_during_a_cancel_ends_canceled():
    """It was asked to stop first, and the documents have no other way from there."""
    asked = replace(in_state("cancel_requested"), deadline=NOW + S)
    assert given(asked).when(c.Tick(), NOW).events == []
    then = given(asked).when(c.Tick(), NOW + S)
    assert then.types == ["run.canceled"]


@pytest.mark.parametrize("profile", ["plugin", "runner", "task", "approval", "job"])
def test_a_deadline_that_a_document_has_no_pair_for_is_refused_with_data(profile):
    """A queued run cannot time out in their tables; the refusal names table, event and run."""
    with pytest.raises(Unlawful) as refused:
        given(queued(profile, deadline=NOW)).when(c.Tick())
    assert (refused.value.event, refused.value.profile) == ("run.timed_out", profile)


# a request to stop


def test_when_the_grace_is_over_the_run_is_canceled():
    """Answered or not; the holder finds it gone."""
    asked = in_state("cancel_requested", "standard", BEGUN)
    assert given(asked).when(c.Tick(), NOW + 10 * S - 1).events == []
    then = given(asked).when(c.Tick(), NOW + 10 * S)
    assert then.types == ["step.canceled", "run.canceled"]
    assert then.events[-1].reason == "enough"


# a worker that is gone


def test_a_run_whose_worker_is_gone_is_interrupted():
    """Another one may take it at once; the loss is counted, no attempt is."""
    then = given(running()).when(c.Tick(lost=WORKER))
    assert then.types == ["run.interrupted"]
    assert then.events[0].worker == WORKER
    run = then.run
    assert (run.state, run.worker, run.claim_at, run.losses) == ("interrupted", None, NOW, 1)


def test_a_step_of_a_lost_owner_stays_as_it_is():
    """Nobody knows how far it came; the next owner reclaims it."""
    before = running(BEGUN, GATE)
    assert given(before).when(c.Tick(lost=WORKER)).run.open == before.open


@pytest.mark.parametrize("state", ["queued", "ready", "waiting", "interrupted"])
def test_the_loss_of_a_worker_is_nothing_to_a_run_it_does_not_hold(state):
    """It was given back, or lost before."""
    assert given(in_state(state)).when(c.Tick(lost=WORKER)).events == []


def test_the_loss_of_another_worker_is_nothing_to_a_run():
    """A tick that names a former holder comes too late."""
    assert given(running()).when(c.Tick(lost="worker-b")).events == []


def test_a_run_that_was_asked_to_stop_is_canceled_when_its_worker_is_gone():
    """There is nobody left who could answer."""
    then = given(in_state("cancel_requested", "standard", BEGUN)).when(c.Tick(lost=WORKER))
    assert then.types == ["step.canceled", "run.canceled"]


LOSSES = {
    "plugin": ("run.failed", "failed", 0),
    "runner": ("run.interrupted", "interrupted", 1),
    "task": ("run.interrupted", "interrupted", 1),
    "approval": ("run.released", "RUNNING", 1),
    "job": ("run.released", "Queued", 1),
}


@pytest.mark.parametrize("profile", LOSSES)
def test_each_profile_has_its_own_way_with_a_loss(profile):
    """Failed, interrupted or free again, as its document has it."""
    event, word, losses = LOSSES[profile]
    then = given(in_state("running", profile)).when(c.Tick(lost=WORKER))
    assert then.types == [event]
    assert (then.run.status, then.run.losses) == (word, losses)


def test_an_interruption_that_ends_a_run_closes_its_steps():
    """In `runner` it is the end, so nothing stays open, and its holder's code is known."""
    then = given(in_state("running", "runner", BEGUN)).when(c.Tick(lost=WORKER))
    assert then.types == ["step.canceled", "run.interrupted"]
    assert (then.run.finished_at, then.run.claim_at) == (NOW, None)


def test_a_lease_that_is_lost_before_the_start_is_no_loss():
    """Nothing had begun, so nothing is suspect."""
    then = given(in_state("leased", "job-explicit")).when(c.Tick(lost=WORKER))
    assert then.types == ["run.released"]
    assert then.run.losses == 0


def test_a_result_after_the_loss_is_refused():
    """What the lost owner still reports changes nothing, even before anybody else has claimed."""
    lost = given(running(BEGUN)).when(c.Tick(lost=WORKER))
    with pytest.raises(LostLease, match="held by nobody"):
        lost.when(c.SucceedStep(1, c.Call("a"), NOW, ONE))
