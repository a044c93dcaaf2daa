"""Why a run is where it is, and what happens next: the data, and the sentences made from it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from perdure import profiles
from perdure.core import events as e
from perdure.core.events import Recorded
from perdure.core.explain import Explanation, Holder, explain
from perdure.core.states import HELD, TERMINAL
from tests.core.given import NOW, OOPS, T0, WORKER, S, in_state, queued, running, states_of

HOLDER = Holder(WORKER, "worker", "host", 42, NOW + 7 * S)
BECAUSE = Recorded(
    "run-0001", 2, "run.started", NOW - 125 * S, "queued", "running", "bob", "c", None
)  # type: ignore[arg-type]

# what happens by itself in each state, and when
COMING = {
    "queued": [("a worker takes it", T0)],
    "ready": [("a worker takes it", T0)],
    "running": [("its lease ends, unless its worker renews it", NOW + 7 * S)],
    "waiting": [],
    "retry_scheduled": [("a worker takes it", T0 + 60 * S)],
    "interrupted": [("a worker takes it", T0)],
    "cancel_requested": [
        ("its lease ends, unless its worker renews it", NOW + 7 * S),
        ("it is canceled, answered or not", NOW + 10 * S),
    ],
}


def of(run, holder=HOLDER) -> Explanation:
    """Explain a run at NOW, with the holder of the runs by hand."""
    return explain(run, BECAUSE, holder if run.state in HELD else None, NOW)


@pytest.mark.parametrize("state", states_of("standard"))
def test_each_state_says_what_happens_next(state):
    """Without anybody's doing, the earliest first; a run that is over has nothing before it."""
    it = of(in_state(state))
    assert [(coming.what, coming.at) for coming in it.next] == COMING.get(state, [])
    assert (it.state, it.run_id, it.workflow) == (state, "run-0001", "w")
    assert bool(it.possible) == (state not in TERMINAL)


@pytest.mark.parametrize("profile", profiles.names())
def test_each_state_of_each_profile_can_be_told(profile):
    """In its own word, and in whole sentences."""
    for state in states_of(profile):
        text = str(of(in_state(state, profile)))
        assert text.startswith(f"w run-0001 is {profiles.get(profile).words[state]}.\n")
        assert all(line.endswith(".") for line in text.splitlines())


def test_the_text_of_a_run_in_hand():
    """Who holds it, what it does, until when."""
    began = e.StepStarted(T0, "charge", T0)
    assert str(of(running(began, deadline=NOW + 3600 * S))) == (
        "w run-0001 is running.\n"
        "Because of run.started (event 2), 2m 05s ago, by bob.\n"
        "Held by worker on host, process 42; its lease ends in 7s.\n"
        "Doing: charge.\n"
        "Next by itself: its lease ends, unless its worker renews it, in 7s.\n"
        "Next by itself: its deadline ends it, in 1h 00m."
    )


def test_the_text_of_a_run_that_waits():
    """For whom or what, since when and until when; in the words of a person."""
    opened = NOW - 60 * S
    waits = running(
        e.StepWaiting(opened, "pay#2", "approval", "pay", NOW + 3600 * S),
        e.StepWaiting(opened, "go", "signal", "go"),
        e.StepWaiting(opened, "sleep", "sleep", "sleep", NOW + 5 * S),
        e.StepStarted(opened, "a", opened),
        e.StepRetryScheduled(opened, "a", OOPS, 1, NOW + 2 * S),
        e.RunWaiting(opened),
    )
    assert str(of(waits)).splitlines()[2:] == [
        "Waits for a person: approval 'pay' (gate pay#2), since 1m 00s, expires in 1h 00m.",
        "Waits for the signal 'go', since 1m 00s.",
        "Waits for time to pass ('sleep'), since 1m 00s, ends in 5s.",
        "Waits for another try of step 'a', since 1m 00s, ends in 2s.",
        "Next by itself: step 'a' is tried again, in 2s.",
        "Next by itself: 'sleep' is over and it goes on, in 5s.",
        "Next by itself: 'pay' expires unanswered, in 1h 00m.",
    ]


def test_the_text_of_a_run_that_waits_for_somebody():
    """Nothing will happen unless somebody does something."""
    assert str(of(in_state("waiting"))).endswith(
        "Nothing happens by itself: it waits for somebody."
    )


@pytest.mark.parametrize("state", sorted(TERMINAL))
def test_the_text_of_a_run_that_is_over(state):
    """There is no next."""
    assert str(of(in_state(state))).endswith("Nothing happens any more: it is over.")


def test_a_run_whose_worker_is_gone_is_about_to_be_taken():
    """Its holder is not registered any more, so whoever looks next frees it."""
    it = of(running(), holder=None)
    assert [coming.at for coming in it.next] == [None]
    assert "it is taken from its worker, which is gone, as soon as one looks." in str(it)


def test_what_is_late_is_told_as_late():
    """A moment that has passed says for how long, one that has just come is now."""
    late = str(of(queued()))
    assert "a worker takes it, due for 1m 40s." in late
    assert "a worker takes it, now." in str(of(replace(queued(), wants_at=NOW)))


def test_data_comes_before_the_sentences():
    """A program reads the same from the fields: what is awaited, since when, until when."""
    gate = e.StepWaiting(NOW - S, "pay", "approval", "pay", NOW + S)
    it = of(running(gate))
    (awaited,) = it.awaits
    assert (awaited.step, awaited.kind, awaited.name) == ("pay", "approval", "pay")
    assert (awaited.since, awaited.expires_at) == (NOW - S, NOW + S)
    assert (it.because.type, it.because.seq, it.because.actor) == ("run.started", 2, "bob")
    assert it.holder is HOLDER


def test_an_explanation_without_its_event_has_no_because():
    """A log that was cut off still leaves a present to explain."""
    assert "Because" not in str(explain(queued(), None, None, NOW))


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (
            e.RunFailed(NOW, e.Failure("TIMEOUT", "no result within 2 s.")),
            "TIMEOUT: no result within 2 s",
        ),
        (e.RunFailed(NOW, e.Failure("OOPS")), "OOPS"),
        (e.RunCanceled(NOW, "customer left"), "customer left"),
        (e.RunInterrupted(NOW, WORKER, "its worker is gone"), "its worker is gone"),
    ],
    ids=lambda it: type(it).__name__,
)
def test_what_the_last_change_says_of_itself_is_told(event, told):
    """The error that ended a run, or the reason somebody gave."""
    because = Recorded("run-0001", 9, "run.failed", NOW, "running", "failed", "bob", "c", event)
    assert f"It says: {told}.\n" in str(explain(in_state("failed"), because, None, NOW))


def test_a_change_that_says_nothing_adds_no_line():
    """Most changes need no reason."""
    assert "It says" not in str(of(in_state("failed")))
