"""What must be unique: the key of a start, the id of a signal."""

from __future__ import annotations

import pytest

from perdure.core import commands as c
from perdure.core.errors import KeyTaken, NotAllowed
from perdure.engine.asks import Started
from tests.engine.world import T, signal


def test_the_same_key_finds_the_same_run(world):
    """In another group, however late, whatever became of the run."""
    run_id = world.started(key="order:42")
    world.do(run_id, c.Cancel())
    assert world.door.call(world.start(key="order:42")) == Started(run_id, attached=True)


def test_two_starts_with_one_key_in_one_group_are_one_run(world):
    """The second finds what the first has made a moment before."""
    first, second = world.door.commit([world.start(key="k"), world.start(key="k")])
    assert first.answer.attached is False
    assert second.answer == Started(first.answer.run_id, attached=True)
    assert len(world.store.last.inputs) == 1


@pytest.mark.parametrize("together", [True, False])
def test_a_key_with_another_input_is_refused(world, together):
    """It names the run that has the key, and how to tell the inputs apart."""
    asks = [world.start(key="k", value=1), world.start(key="k", value=2)]
    outcomes = world.door.commit(asks) if together else [world.door.commit([it])[0] for it in asks]
    error = outcomes[1].error
    assert isinstance(error, KeyTaken)
    assert (error.key, error.run_id) == ("k", outcomes[0].answer.run_id)
    assert error.digest != error.other


def test_a_key_is_a_workflows_own(world):
    """Another workflow, or another tenant, has the same key for a run of its own."""
    asks = [world.start(key="k", **other) for other in ({}, {"workflow": "v"}, {"tenant": "t"})]
    assert [it.answer.attached for it in world.door.commit(asks)] == [False] * 3


def test_where_a_profile_attaches_another_input_finds_the_run(world):
    """In `task` a known key is the known run, whatever came with it."""
    first = world.door.call(world.start(key="k", profile="task"))
    second = world.door.call(world.start(key="k", value=2, profile="task"))
    assert second == Started(first.run_id, attached=True)


def test_a_key_of_a_start_that_was_refused_is_free(world):
    """Nothing of a refused command is left, its key included."""
    world.started(run_id="run-0001")
    outcome = world.door.commit([world.start(key="k", run_id="run-0001")])[0]
    assert outcome.error is not None
    assert world.door.call(world.start(key="k")).attached is False


@pytest.mark.parametrize("together", [True, False])
def test_a_signal_with_an_id_counts_once(world, together):
    """However often it is sent, in one group or in several; it is answered as done."""
    run_id = world.started()
    asks = [signal(run_id, key="s1")] * 3
    outcomes = world.door.commit(asks) if together else [world.door.commit([it])[0] for it in asks]
    assert [len(it.answer.events) for it in outcomes] == [1, 0, 0]
    assert world.types(run_id) == ["run.created", "signal.received"]


def test_the_id_of_a_signal_is_its_runs_own(world):
    """Another run takes a signal of the same id, and one without an id is always new."""
    one, two = world.started(), world.started()
    asks = [signal(one, key="s"), signal(two, key="s"), signal(one), signal(one)]
    assert [len(it.answer.events) for it in world.door.commit(asks)] == [1, 1, 1, 1]


def test_a_repeated_signal_to_a_run_that_is_over_is_answered_as_done(world):
    """It was taken while the run lived; a new one is refused."""
    run_id = world.started()
    world.door.call(signal(run_id, key="s"))
    world.do(run_id, c.Cancel())
    assert world.door.call(signal(run_id, key="s")).events == []
    with pytest.raises(NotAllowed):
        world.door.call(signal(run_id, key="other"))
    assert world.run(run_id).tenant == T
