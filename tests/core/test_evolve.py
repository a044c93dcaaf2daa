"""The fold: its two guards, for every event from every state, and what must be true after it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from perdure import profiles
from perdure.core import events as e
from perdure.core.errors import Unlawful, Unsound
from perdure.core.law import RUN_LAW, SILENT, STEP_LAW, assert_sound, evolve, fold
from perdure.core.run import OpenStep, Run, Untaken
from perdure.core.states import ALL, CLAIMABLE, HELD, TERMINAL
from tests.core import tables_by_hand as law
from tests.core.given import NOW, ONE, OOPS, T0, WORKER, born, in_state, queued, running
from tests.profiles.tables_by_hand import NAMES, table_by_hand, words_by_hand

LIVE = set(law.STATES) - law.OVER
HELD_AND_STARTED = {"running", "cancel_requested"}
# where a step may come to run or to wait; it may end, or be let go, wherever the run lives
STEP_MOVES_IN = {
    **dict.fromkeys(["step.started", "step.reclaimed", "step.retry_scheduled"], HELD_AND_STARTED),
    **dict.fromkeys(["step.succeeded", "step.failed", "step.released", "step.canceled"], LIVE),
    "step.waiting": {"running", "waiting"},
}
STEP_STATES = ("absent", "pending", "running", "waiting")

EXAMPLES: dict[str, e.AnyEvent] = {
    e.TYPE[type(event)]: event
    for event in (
        e.RunCreated(NOW, "w", "q", 5, claim_at=NOW),
        e.RunLeased(NOW, WORKER, 2),
        e.RunStarted(NOW, WORKER, 2),
        e.RunClaimed(NOW, WORKER, 2),
        e.RunReleased(NOW, NOW),
        e.RunWaiting(NOW),
        e.RunWaitCompleted(NOW, NOW),
        e.RunRetryScheduled(NOW, NOW),
        e.RunInterrupted(NOW, WORKER),
        e.RunCancelRequested(NOW, NOW),
        e.RunSucceeded(NOW),
        e.RunFailed(NOW, OOPS),
        e.RunCanceled(NOW),
        e.RunTimedOut(NOW),
        e.StepStarted(NOW, "a", NOW),
        e.StepReclaimed(NOW, "a", NOW, 2),
        e.StepSucceeded(NOW, "a", ONE),
        e.StepFailed(NOW, "a", OOPS),
        e.StepRetryScheduled(NOW, "a", OOPS, 1, NOW),
        e.StepReleased(NOW, "a"),
        e.StepWaiting(NOW, "a", "signal", "a"),
        e.StepCanceled(NOW, "a"),
        e.SignalReceived(NOW, "go", ONE),
    )
}


def bare(state: str, profile: str, step: str = "absent") -> Run:
    """Return a run in a state, with nothing true of it but that state and the state of step a."""
    opened = () if step == "absent" else (OpenStep("a", step, 1, kind=None),)
    over = state in law.OVER or profiles.get(profile).ends_in(state)
    finished_at = T0 if over else None
    return replace(born(profile), state=state, open=opened, finished_at=finished_at)


def lawful_by_hand(event: str, state: str, profile: str) -> bool:
    """Say from the tables by hand whether an event may put a run of this profile elsewhere."""
    target, sources = law.RUN_LAW[event]
    words, table = words_by_hand(profile), table_by_hand(profile)
    if state not in sources or target not in words:
        return False
    if state == "unborn":
        return True
    was, becomes = words.get(state), words[target]
    return was is not None and (was == becomes or becomes in table[was])


def test_every_event_is_looked_at():
    """There is an example of each event of the law."""
    assert set(EXAMPLES) == {*RUN_LAW, *STEP_LAW, *SILENT}


@pytest.mark.parametrize("profile", NAMES)
@pytest.mark.parametrize("event", law.RUN_LAW)
def test_a_change_of_state_is_lawful_where_both_tables_have_it(event, profile):
    """The law knows the event from this state, and the document knows the change of its words."""
    for state in ("unborn", *ALL):
        run = bare(state, profile)
        if lawful_by_hand(event, state, profile):
            after = evolve(run, EXAMPLES[event])
            assert (after.state, after.version) == (law.RUN_LAW[event][0], run.version + 1)
            continue
        with pytest.raises(Unlawful) as refused:
            evolve(run, EXAMPLES[event])
        it = refused.value
        assert (it.run_id, it.state, it.status) == (run.id, state, run.status)
        assert (it.profile, it.event, it.step) == (profile, event, None)
        assert "only" in it.why


@pytest.mark.parametrize("event", law.STEP_LAW)
def test_a_step_changes_where_the_law_has_it(event):
    """From that state of the step, in that state of the run; in `runner` not once it is over."""
    _, sources = law.STEP_LAW[event]
    for profile in ("standard", "runner"):
        for state in ALL:
            for step in STEP_STATES:
                run = bare(state, profile, step)
                lives = run.finished_at is None
                if step in sources and state in STEP_MOVES_IN[event] and lives:
                    assert evolve(run, EXAMPLES[event]).version == run.version + 1
                    continue
                with pytest.raises(Unlawful) as refused:
                    evolve(run, EXAMPLES[event])
                it = refused.value
                assert (it.run_id, it.state, it.event, it.step) == (run.id, state, event, "a")
                assert f"the step is {step}" in it.why


@pytest.mark.parametrize("profile", NAMES)
def test_a_signal_is_kept_by_a_run_that_lives(profile):
    """And refused by one that is over, or that is not there."""
    for state in ("unborn", *ALL):
        run = bare(state, profile)
        if state in LIVE and run.finished_at is None:
            assert evolve(run, EXAMPLES["signal.received"]).signals == (Untaken("go", 1),)
            continue
        with pytest.raises(Unlawful) as refused:
            evolve(run, EXAMPLES["signal.received"])
        assert refused.value.event == "signal.received"


def test_the_refusal_of_the_law_and_of_a_document_differ():
    """One names the states the event may come from, the other the words its table allows."""
    with pytest.raises(Unlawful, match="the law has it only from ready"):
        evolve(queued(), EXAMPLES["run.claimed"])
    with pytest.raises(Unlawful, match="the table of 'plugin' allows only canceled, running from"):
        evolve(queued("plugin"), EXAMPLES["run.timed_out"])


@pytest.mark.parametrize("profile", NAMES)
def test_every_state_by_hand_is_sound(profile):
    """What each state promises is true of it: its holder, its claim_at, its end."""
    for state in profiles.get(profile).words:
        run = in_state(state, profile)
        assert run.state == state
        assert (run.worker is not None) == (state in HELD)
        assert (run.claim_at is not None) == (state in CLAIMABLE and not run.over)
        assert (run.finished_at is not None) == run.over == (run.status in run.profile.terminal)


def test_a_run_remembers_how_it_came_into_its_state():
    """Number, type and moment of the event; events that change no state leave it alone."""
    run = running(e.StepStarted(NOW, "a", NOW))
    assert (run.entered.seq, run.entered.type, run.entered.at) == (2, "run.started", T0)
    assert run.updated_at == NOW


def test_a_fold_stops_at_the_first_event_that_is_refused():
    """Nothing of the command is left, and the run that was given is as it was."""
    run = running()
    with pytest.raises(Unlawful):
        fold(run, [e.RunReleased(NOW, NOW), e.RunReleased(NOW, NOW)])
    assert run == running()


def test_a_fold_of_a_fold_is_one_fold():
    """Where commands begin and end makes no difference to the run they lead to."""
    events = [EXAMPLES["step.started"], EXAMPLES["step.succeeded"], EXAMPLES["run.released"]]
    assert fold(fold(running(), events[:1]), events[1:]) == fold(running(), events)


# soundness: only a run made by hand can be without it


def waits(kind: str | None, state: str = "waiting") -> tuple[OpenStep, ...]:
    return (OpenStep("a", state, kind=kind),)


UNSOUND = {
    "held by nobody": (lambda: replace(running(), worker=None), "has a worker exactly"),
    "held while queued": (lambda: replace(queued(), worker="a"), "has a worker exactly"),
    "over, not finished": (lambda: replace(in_state("failed"), finished_at=None), "finished_at"),
    "finished, not over": (lambda: replace(running(), finished_at=NOW), "finished_at"),
    "wants no worker": (lambda: replace(queued(), wants_at=None), "has a claim_at exactly"),
    "wants two": (lambda: replace(running(), wants_at=NOW), "has a claim_at exactly"),
    "waits for nothing": (lambda: replace(in_state("waiting"), open=()), "it waits for"),
    "a wait of no kind": (lambda: replace(running(), open=waits(None)), "a kind of wait"),
    "a kind, not waiting": (lambda: replace(running(), open=waits("sleep", "running")), "a kind"),
    "open and over": (lambda: replace(running(), open=waits(None, "failed")), "is over and still"),
    "runs after the end": (
        lambda: replace(in_state("failed"), open=waits(None, "running")),
        "in a run that is over",
    ),
    "pending after a cancel": (
        lambda: replace(in_state("canceled"), open=waits(None, "pending")),
        "in a run that is over",
    ),
}


@pytest.mark.parametrize("name", UNSOUND)
def test_what_a_state_promises_is_asserted(name):
    """Each promise that is broken by hand is named, with the run and its state."""
    make, why = UNSOUND[name]
    run = make()
    with pytest.raises(Unsound, match=why) as broken:
        assert_sound(run)
    assert (broken.value.run_id, broken.value.state) == (run.id, run.state)


def test_a_command_may_pass_through_a_state_that_is_not_sound():
    """Only where it ends counts: a queued run of `runner` is canceled by way of running."""
    ways = [e.RunStarted(NOW, "", 0), e.RunCanceled(NOW)]
    assert fold(queued("runner"), ways).status == "canceled"


def test_pending_steps_may_outlive_a_run_that_was_not_canceled():
    """The later steps of a list stay pending when an earlier one has failed."""
    assert_sound(replace(in_state("failed"), open=waits(None, "pending")))
    assert {"succeeded", "failed", "canceled", "timed_out"} == TERMINAL
