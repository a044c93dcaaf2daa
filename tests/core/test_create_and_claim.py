"""A run comes into being, and a worker takes it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from perdure.core import commands as c
from perdure.core import events as e
from perdure.core.errors import NotAllowed
from perdure.core.law import fold
from tests.core.given import CREATE, NOW, T0, S, born, given, in_state, queued, running


def test_a_run_is_created_queued():
    """It is event 1, wants a worker at once, is held by nobody and has not begun."""
    then = given(born()).when(CREATE)
    assert then.types == ["run.created"]
    run = then.run
    assert (run.state, run.version, run.claim_at, run.worker) == ("queued", 1, NOW, None)
    assert (run.created_at, run.started_at, run.finished_at, run.token) == (NOW, None, None, 0)


def test_what_is_fixed_at_the_creation_stands_in_its_event():
    """Everything that the caller chose is on the log, and on the run."""
    create = c.Create("w", "q", 3, "digest", NOW + S, NOW + 9 * S, 2, "trace", "key")
    then = given(born()).when(create)
    (event,) = then.events
    assert (event.key, event.input_digest) == ("key", "digest")
    run = then.run
    assert (run.workflow, run.queue, run.priority, run.attempt) == ("w", "q", 3, 2)
    assert (run.claim_at, run.deadline, run.trace_id) == (NOW + S, NOW + 9 * S, "trace")


def test_a_run_is_created_once():
    """A run that is there cannot be created again."""
    with pytest.raises(NotAllowed):
        given(queued()).when(CREATE)


def test_nothing_can_be_done_to_a_run_that_is_not_there():
    """Before its creation a run takes that one command alone."""
    with pytest.raises(NotAllowed) as refused:
        given(born()).when(c.Cancel())
    assert refused.value.allowed == ("Create",)


@pytest.mark.parametrize(
    ("state", "event"),
    [
        ("queued", "run.started"),
        ("ready", "run.claimed"),
        ("interrupted", "run.started"),
        ("retry_scheduled", "run.started"),
    ],
)
def test_a_claim_starts_the_run_and_raises_its_token(state, event):
    """Whoever claims holds the run, under a token that no one has had."""
    before = in_state(state)
    then = given(before).when(c.Claim("worker-b"))
    assert then.types == [event]
    assert (then.run.state, then.run.worker) == ("running", "worker-b")
    assert then.run.token == before.token + 1
    assert then.run.claim_at is None


def test_a_run_starts_once():
    """Its start is the moment of the first claim, however often it is claimed."""
    first = given(queued()).when(c.Claim("a"), NOW)
    assert first.run.started_at == NOW
    again = first.when(c.Release(1)).when(c.Claim("b"), NOW + 5 * S)
    assert again.run.started_at == NOW


def test_a_claim_waits_for_its_moment():
    """A run that wants a worker later is refused until then, and taken then."""
    later = fold(born(), [e.RunCreated(T0, "w", "q", 5, claim_at=NOW + S)])
    with pytest.raises(NotAllowed, match="run-0001 is queued"):
        given(later).when(c.Claim("a"), NOW + S - 1)
    assert given(later).when(c.Claim("a"), NOW + S).run.state == "running"


@pytest.mark.parametrize("state", ["running", "waiting", "cancel_requested", "succeeded"])
def test_a_run_that_wants_no_worker_cannot_be_claimed(state):
    """What is held, waits or is over is not to be had, and the refusal says what is."""
    with pytest.raises(NotAllowed) as refused:
        given(in_state(state)).when(c.Claim("b"))
    assert (refused.value.command, refused.value.state) == ("Claim", state)
    assert "Claim" not in refused.value.allowed


def test_where_a_profile_leases_first_a_claim_is_a_lease():
    """In `job-explicit` a claimed run is leased: held, and not started."""
    run = given(queued("job-explicit")).when(c.Claim("a")).run
    assert (run.state, run.status, run.worker, run.started_at) == ("leased", "Leased", "a", None)


def test_a_run_that_has_begun_is_claimed_before_new_ones_of_its_priority():
    """The order of claims is the priority, and within it those that have begun."""
    new, begun = queued(), in_state("ready")
    urgent = replace(new, priority=4)
    assert urgent.claim_rank < begun.claim_rank < new.claim_rank


def test_time_never_runs_backwards_in_a_run():
    """A command that comes with an earlier clock happens at the run's last moment."""
    run = replace(running(), updated_at=NOW)
    (event,) = given(run).when(c.Release(1), NOW - 50 * S).events
    assert event.at == NOW
