"""A run and its events as they are shown."""

from __future__ import annotations

import msgspec
import pytest

from perdure.core import events as e
from perdure.core.events import Entry
from perdure.core.law import RUN_LAW
from perdure.core.record import moment, record, recorded
from tests.core.given import ASKED, NOW, ONE, T0, S, in_state, running, states_of


@pytest.mark.parametrize("profile", ["standard", "job", "plugin"])
def test_a_record_has_a_word_for_people_and_one_for_programs(profile):
    """`status` is the profile's, `state` the canonical one, in every state."""
    for state in states_of(profile):
        run = in_state(state, profile)
        shown = record(run)
        assert (shown.status, shown.state, shown.profile) == (run.status, state, profile)


def test_a_record_is_the_run():
    """What is computed from a run stands beside what is stored of it."""
    gate = e.StepWaiting(T0, "pay", "approval", "pay", NOW + S)
    run = running(gate, e.SignalReceived(T0, "go", ONE), e.RunWaiting(NOW), deadline=NOW + 9 * S)
    shown = record(run)
    for field in ("id", "tenant", "workflow", "queue", "version", "token", "created_at", "due_at"):
        assert getattr(shown, field) == getattr(run, field)
    assert (shown.due_at, shown.claim_at, shown.worker) == (NOW + S, None, None)
    (step,) = shown.steps
    assert (step.id, step.state, step.kind, step.expires_at) == (
        "pay",
        "waiting",
        "approval",
        NOW + S,
    )
    assert shown.untaken_signals == ("go",)


def test_a_record_says_who_was_asked_to_stop():
    """After the end too: the request stays on the run."""
    asked = in_state("canceled")
    assert (record(asked).cancel_requested, record(asked).cancel_reason) == (True, "enough")
    assert (record(running()).cancel_requested, record(running()).cancel_reason) == (False, None)


def test_a_record_is_json():
    """As it is: whoever shows it needs nothing of the engine."""
    shown = msgspec.json.decode(msgspec.json.encode(record(in_state("waiting"))))
    assert shown["steps"] == [
        {"id": "go", "state": "waiting", "started_at": T0, "kind": "signal", "name": "go"}
    ]
    assert shown["next_retry_at"] is None


def test_the_moment_of_a_retry_is_shown_in_its_state_alone():
    """Everywhere else there is none, though the run may want a worker."""
    for state in states_of("standard"):
        shown = record(in_state(state))
        assert (shown.next_retry_at is not None) == (state == "retry_scheduled")


def test_the_events_of_a_row_say_what_they_changed():
    """Each with its number, the state before it and the one after, and who did it."""
    events = (e.RunStarted(T0, "a", 1), e.StepStarted(T0, "s", T0), ASKED, e.RunCanceled(NOW))
    shown = recorded(Entry("t", "run-0001", 2, 5, NOW, "queued", "bob", "c1", events))
    assert [(it.seq, it.before, it.after) for it in shown] == [
        (2, "queued", "running"),
        (3, "running", "running"),
        (4, "running", "cancel_requested"),
        (5, "cancel_requested", "canceled"),
    ]
    assert {(it.run_id, it.actor, it.command_id) for it in shown} == {("run-0001", "bob", "c1")}
    assert [it.type for it in shown if it.type in RUN_LAW] == [
        "run.started",
        "run.cancel_requested",
        "run.canceled",
    ]
    assert tuple(it.event for it in shown) == events
    assert [it.at for it in shown] == [event.at for event in events]


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (T0, "2023-11-14T22:13:20.000Z"),
        (T0 + 1_999, "2023-11-14T22:13:20.001Z"),
        (T0 + 999_999, "2023-11-14T22:13:20.999Z"),
    ],
)
def test_a_moment_is_shown_in_utc(at, text):
    """To the millisecond, never rounded up into a moment that has not come."""
    assert moment(at) == text
