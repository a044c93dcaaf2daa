"""What the holder of a run reports of its steps."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from perdure.core import commands as c
from perdure.core import events as e
from perdure.core.decide import decide
from perdure.core.errors import LimitExceeded, NotAllowed, Unlawful
from perdure.core.limits import EVENTS_OF_A_RUN, OPEN_STEPS
from perdure.core.run import OpenStep
from tests.core.given import NOW, ONE, OOPS, T0, S, call, given, in_state, owned, running

BEGUN = e.StepStarted(T0, "a", T0, digest="args", max_attempts=3)
LATER = e.StepRetryScheduled(T0, "a", OOPS, 1, NOW + S)


def test_a_start_is_recorded():
    """An open step carries all that recovery needs: when it began, how often, with what."""
    start = c.StartStep(1, c.Call("a", "args", 3, 5 * S), NOW - S)
    then = given(running()).when(start)
    assert then.types == ["step.started"]
    assert then.run.step("a") == OpenStep("a", "running", 1, 0, 1, NOW - S, None, 3, 5 * S, "args")


def test_a_start_is_recorded_once():
    """The same owner's second report of the same start changes nothing."""
    assert given(running(BEGUN)).when(c.StartStep(1, call(), NOW)).events == []


def test_a_result_brings_the_start_that_was_not_recorded():
    """A short step is one command: its start and its result, and nothing stays open."""
    then = given(running()).when(c.SucceedStep(1, call(), NOW - S, ONE))
    assert then.types == ["step.started", "step.succeeded"]
    assert (then.events[0].began_at, then.events[1].output) == (NOW - S, ONE)
    assert then.run.open == ()


def test_a_result_after_a_recorded_start_is_the_result_alone():
    """A start that is on the log is not written a second time."""
    assert given(running(BEGUN)).when(c.SucceedStep(1, call(), NOW, ONE)).types == [
        "step.succeeded"
    ]


def test_a_failure_to_be_tried_again_leaves_the_step_pending():
    """Its holder has computed the moment; the law counts the failures."""
    then = given(running(BEGUN)).when(c.RetryStep(1, call(), NOW, OOPS, NOW + 3 * S))
    assert then.types == ["step.retry_scheduled"]
    step = then.run.step("a")
    assert (step.state, step.failures, step.attempts) == ("pending", 1, 1)
    assert step.next_run_at == NOW + 3 * S


def test_each_try_counts_and_so_does_each_failure():
    """A second failure is failure 2 of start 2."""
    then = given(running(BEGUN, LATER)).when(c.RetryStep(1, call(), NOW, OOPS, NOW + 9 * S))
    assert then.types == ["step.started", "step.retry_scheduled"]
    step = then.run.step("a")
    assert (step.attempts, step.failures) == (2, 2)


def test_a_failure_for_good_ends_the_step():
    """With its start if that was not recorded; the run goes on and may catch it."""
    then = given(running()).when(c.FailStep(1, call(), NOW, OOPS))
    assert then.types == ["step.started", "step.failed"]
    assert then.events[1].error == OOPS
    assert (then.run.state, then.run.open) == ("running", ())


def test_a_step_of_a_lost_owner_is_reclaimed():
    """The next owner does not start it: it goes on with it, and the start counts."""
    lost = running(BEGUN, e.RunInterrupted(T0, "worker-a"), e.RunStarted(T0, "worker-b", 2))
    then = given(lost).when(c.StartStep(2, call(), NOW))
    assert then.types == ["step.reclaimed"]
    step = then.run.step("a")
    assert (step.attempts, step.token, step.started_at) == (2, 2, NOW)


def test_a_reclaimed_step_ends_like_any_other():
    """Reclaim and result are one command, as start and result are."""
    lost = running(BEGUN, e.RunInterrupted(T0, "worker-a"), e.RunStarted(T0, "worker-b", 2))
    then = given(lost).when(c.SucceedStep(2, call(), NOW, ONE))
    assert then.types == ["step.reclaimed", "step.succeeded"]


def test_a_result_forgives_the_losses_before_it():
    """Losses are counted since the last recorded step: what makes progress is not suspect."""
    lost = running(e.RunInterrupted(T0, "worker-a"), e.RunStarted(T0, "worker-b", 2))
    assert lost.losses == 1
    assert given(lost).when(c.SucceedStep(2, call(), NOW, ONE)).run.losses == 0


@pytest.mark.parametrize("open_as", [BEGUN, e.StepWaiting(T0, "a", "signal", "a")])
def test_a_dropped_step_is_canceled(open_as):
    """A branch that was canceled ends what it had begun or waited for."""
    then = given(running(open_as)).when(c.DropStep(1, "a"))
    assert then.types == ["step.canceled"]
    assert then.run.open == ()


def test_dropping_what_is_not_open_changes_nothing():
    """A step that has ended meanwhile, or never began, cannot be dropped."""
    assert given(running()).when(c.DropStep(1, "a")).events == []


def test_steps_stay_in_the_order_in_which_they_were_opened():
    """However often one changes, it keeps its place; the others stay the same objects."""
    other = e.StepStarted(T0, "b", T0)
    before = running(BEGUN, other)
    after = given(before).when(c.RetryStep(1, call(), NOW, OOPS, NOW)).run
    assert [step.id for step in after.open] == ["a", "b"]
    assert after.open[1] is before.open[1]


def test_a_wait_cannot_be_reported_as_a_step():
    """The law knows no start of something that waits."""
    waits = running(e.StepWaiting(T0, "a", "signal", "a"))
    with pytest.raises(Unlawful) as refused:
        given(waits).when(c.StartStep(1, call(), NOW))
    assert (refused.value.step, refused.value.event) == ("a", "step.started")
    assert "the step is waiting" in refused.value.why


def test_open_steps_have_a_limit():
    """One more than the limit is refused by name, as a step and as a wait; others may end."""
    steps = tuple(OpenStep(f"s{n}", "running", 1, token=1) for n in range(OPEN_STEPS))
    full = replace(running(), open=steps)
    for command in (
        c.StartStep(1, call(), NOW),
        c.OpenWait(1, c.Wait("go", "signal", "go")),
    ):
        with pytest.raises(LimitExceeded, match=f"open steps of a run is {OPEN_STEPS}"):
            decide(full, command, NOW)
    assert len(given(full).when(c.SucceedStep(1, call("s0"), NOW, ONE)).events) == 1


@pytest.mark.parametrize("command", owned()[:5], ids=lambda it: type(it).__name__)
def test_steps_go_on_while_a_run_is_asked_to_stop(command):
    """A run that cleans up may still run steps, and report them."""
    asked = in_state("cancel_requested", "standard", BEGUN)
    assert given(asked).when(command).run.state == "cancel_requested"


@pytest.mark.parametrize(
    "command",
    [
        c.OpenWait(1, c.Wait("go", "signal", "go")),
        c.Elapse(1, "go"),
        c.Suspend(1, ("go",)),
        c.Release(1),
    ],
    ids=lambda it: type(it).__name__,
)
def test_a_run_that_is_asked_to_stop_opens_no_wait(command):
    """It ends within its grace, so it neither waits nor is given to somebody else."""
    with pytest.raises(NotAllowed) as refused:
        given(in_state("cancel_requested")).when(command)
    assert "ConfirmCancel" in refused.value.allowed


@pytest.mark.parametrize(
    "command",
    [c.StartStep(1, call(), NOW), c.OpenWait(1, c.Wait("go", "signal", "go"))],
    ids=lambda it: type(it).__name__,
)
def test_the_events_of_a_run_have_a_limit(command):
    """A loop without end begins nothing more; what is open may end, and the run may finish."""
    full = replace(running(BEGUN), version=EVENTS_OF_A_RUN)
    other = replace(command, call=call("b")) if isinstance(command, c.StartStep) else command
    with pytest.raises(LimitExceeded, match=f"events of a run is {EVENTS_OF_A_RUN}"):
        decide(full, other, NOW)
    assert given(full).when(c.SucceedStep(1, call(), NOW, ONE)).types == ["step.succeeded"]
    assert given(full).when(c.Finish(1, ONE)).run.over
