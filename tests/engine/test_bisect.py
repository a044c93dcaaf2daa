"""When the store does not take a group: only the ask that it is about gets the error."""

from __future__ import annotations

import pytest

from perdure.core.errors import StoreError
from perdure.engine.asks import Do
from tests.engine.world import T, signal, succeed


@pytest.mark.parametrize("size", [2, 3, 9, 40])
@pytest.mark.parametrize("bad", [0, -1, "middle"])
def test_one_bad_ask_of_many_gets_the_error(world, size, bad):
    """All others are committed; nothing is replayed one by one."""
    runs = [world.started() for _ in range(size)]
    world.store.refuses.add(runs[size // 2 if bad == "middle" else bad])
    begun = world.store.begun
    outcomes = world.door.commit([signal(run) for run in runs])
    failed = [run for run, it in zip(runs, outcomes, strict=True) if it.error is not None]
    assert set(failed) == world.store.refuses
    assert [world.run(run).version for run in runs if run not in failed] == [2] * (size - 1)
    assert world.store.begun - begun <= 2 * size.bit_length() + 1


def test_the_error_says_that_the_store_did_not_take_it(world):
    """And keeps what the store said as its cause."""
    run_id = world.started()
    world.store.refuses.add(run_id)
    error = world.door.commit([signal(run_id)])[0].error
    assert isinstance(error, StoreError)
    assert "the disk does not like" in str(error)
    assert isinstance(error.__cause__, OSError)


def test_the_commands_of_a_run_stay_together_and_in_order(world):
    """However the group is cut, a run's own commands follow each other as they were asked."""
    runs = [world.started() for _ in range(7)]
    world.store.refuses.add(runs[3])
    asks = [signal(run, name=f"{n}") for n in range(5) for run in runs]
    outcomes = world.door.commit(asks)
    for place, run in enumerate(runs):
        own = outcomes[place::7]
        if run in world.store.refuses:
            assert [it.answer for it in own] == [None] * 5
        else:
            assert [it.answer.events[0].name for it in own] == ["0", "1", "2", "3", "4"]
            assert [it.answer.run.version for it in own] == [2, 3, 4, 5, 6]


def test_commands_of_one_bad_run_are_tried_singly(world):
    """Nothing can be cut between them; each is told the error that is its own."""
    run_id = world.started()
    world.store.refuses.add(run_id)
    outcomes = world.door.commit([signal(run_id), signal(run_id)])
    assert [type(it.error) for it in outcomes] == [StoreError] * 2
    assert world.run(run_id).version == 1


def test_nothing_of_a_failed_group_stays_in_the_cache(world):
    """A held run goes on from what is on disk, not from what was about to be written."""
    run = world.held("W")
    world.step(run, "a")
    world.store.refuses.add(run.id)
    assert world.door.commit([Do(T, run.id, succeed(run, "b"), "W")])[0].error is not None
    world.store.refuses.clear()
    done = world.step(run, "c")
    assert done.run == world.run(run.id)
    assert done.run.version == run.version + 4
    assert len(world.store.last.rows) == 1


def test_a_start_that_fails_leaves_its_key_free(world):
    """It is asked again, and takes the key then."""
    world.store.refuses.add("run-0001")
    ask = world.start(run_id="run-0001", key="k")
    assert isinstance(world.door.commit([ask, world.start()])[0].error, StoreError)
    world.store.refuses.clear()
    assert world.door.call(ask).attached is False


def test_a_store_that_cannot_be_entered_fails_the_whole_group(world, monkeypatch):
    """Each ask gets the error, and the next group finds the door as it was."""
    run_id = world.started()

    def broken():
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(world.store, "begin", broken)
        outcomes = world.door.commit([signal(run_id), signal(run_id)])
    assert [str(it.error) for it in outcomes] == ["the store did not take it: no space left"] * 2
    assert world.door.call(signal(run_id)).run.version == 2
