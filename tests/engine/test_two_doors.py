"""Two doors on one file, as two processes have them: what each notices of the other."""

from __future__ import annotations

import threading
from itertools import pairwise

import pytest

from perdure.core import commands as c
from perdure.core.errors import LostLease, NotAllowed
from perdure.engine.asks import Do, Leave
from perdure.stores.sqlite import SqliteStore
from tests.engine.world import ONE, T, World, signal, succeed

GATE = c.Wait("gate", "approval", "gate")


def versions(world, run_id) -> list[int]:
    return [n for it in world.store.entries(T, run_id) for n in range(it.seq, it.last_seq + 1)]


# what somebody else says to a run that is held


@pytest.mark.parametrize(
    "command",
    [c.Signal("go", ONE), c.Cancel("enough"), c.Approve("gate", ONE)],
    ids=lambda it: type(it).__name__,
)
def test_the_holders_next_command_is_decided_on_what_the_other_said(ours, theirs, command):
    """Its door notices that the row has another version, reads it again and goes on from there."""
    run = ours.held("W")
    ours.do(run.id, c.OpenWait(run.token, GATE))
    said = theirs.do(run.id, command)
    done = ours.step(run, "a")
    assert done.run.version == said.run.version + 2
    assert (done.run.state, done.run.signals) == (said.run.state, said.run.signals)
    assert ours.run(run.id) == theirs.run(run.id) == done.run


def test_what_another_process_said_is_marked_until_the_holder_has_written(ours, theirs):
    """The mark stands in the row, and the holder's next command writes the row, which clears it."""
    run = ours.held("W")
    theirs.door.call(signal(run.id))
    assert nudged(ours, "W") == [(T, run.id)]
    ours.step(run, "a")
    assert len(ours.store.last.rows) == 1
    assert nudged(ours, "W") == []
    ours.step(run, "b")
    assert len(ours.store.last.rows) == 0


def nudged(world, worker):
    group = world.store.begin()
    try:
        return group.nudged(worker)
    finally:
        group.rollback()


def test_a_sweep_tells_a_holder_that_does_not_ask(ours, theirs):
    """A workflow that waits in memory hears of a cancel through its own door's sweep."""
    heard = []
    ours.door.listeners.append(heard.extend)
    run = ours.held("W")
    heard.clear()
    theirs.do(run.id, c.Cancel("enough"))
    ours.sweeps()
    assert [(it.run.state, it.foreign) for it in heard] == [("cancel_requested", True)]
    assert nudged(ours, "W") == []
    heard.clear()
    ours.sweeps()
    assert heard == []


def test_nobody_is_marked_for_what_their_own_door_said(ours):
    """The door tells its listeners at once."""
    run = ours.held("W")
    ours.door.call(signal(run.id))
    assert nudged(ours, "W") == []


def test_a_run_that_the_other_finished_is_gone(ours, theirs):
    """Canceled at once, where the profile does so: the holder's report is refused."""
    ours.registered("W")
    run_id = ours.started(profile="job")
    (claimed,) = ours.claims("W")
    theirs.do(run_id, c.Cancel())
    with pytest.raises(LostLease, match="held by nobody"):
        ours.step(claimed.run, "a")
    assert (T, run_id) not in ours.door.cache


def test_a_worker_whose_run_was_taken_over_is_refused(ours, theirs):
    """After the loss another process holds the run under a new token; nothing is written."""
    run = ours.held("A")
    ours.step(run, "a")
    ours.clock.passes(11)
    theirs.registered("B")
    assert theirs.sweeps("B").lost == ("A",)
    (taken,) = theirs.claims("B")
    before = versions(ours, run.id)
    for command in (succeed(run, "b"), c.Finish(run.token, ONE), c.Release(run.token)):
        with pytest.raises(LostLease) as refused:
            ours.do(run.id, command)
        assert (refused.value.token, refused.value.current) == (1, 2)
    assert versions(ours, run.id) == before
    assert theirs.step(taken.run, "b").run.worker == "B"


def test_both_may_speak_to_a_run_that_nobody_holds(ours, theirs):
    """Neither keeps it in its cache, so each reads what the other wrote."""
    run_id = ours.started()
    for n in range(3):
        ours.door.call(signal(run_id, f"ours {n}"))
        theirs.door.call(signal(run_id, f"theirs {n}"))
    assert ours.door.cache == theirs.door.cache == {}
    assert versions(ours, run_id) == list(range(1, 8))


def test_a_key_that_the_other_took_is_found(ours, theirs):
    """Two processes that start the same thing start one run."""
    run_id = ours.started(key="k")
    assert theirs.door.call(theirs.start(key="k")) == (run_id, True)


# leases


def test_a_beat_renews_the_lease(ours, theirs):
    """A worker that beats is not lost, however long it holds its run."""
    run = ours.held("A")
    for _ in range(4):
        ours.clock.passes(8)
        assert ours.door.call(ours.beat("A")) is True
        assert theirs.sweeps().lost == ()
    assert ours.run(run.id).worker == "A"


def test_a_worker_whose_lease_is_past_is_lost_though_its_process_lives(ours, theirs):
    """The lock proves death only; life is the lease."""
    run = ours.held("A")
    ours.clock.passes(10)
    assert (theirs.sweeps().ticked, theirs.run(run.id).state) == (1, "interrupted")


def test_a_worker_whose_process_has_ended_is_lost_at_once(ours, theirs, tmp_path):
    """Whoever gets its lock need not wait for the lease."""
    dead = World(SqliteStore(str(tmp_path / "runs.db")), ours.clock)
    run = dead.held("A")
    assert theirs.sweeps().lost == ()
    dead.store.close()
    assert theirs.sweeps().lost == ("A",)
    assert ours.run(run.id).state == "interrupted"


def test_a_worker_that_was_found_dead_stays_dead(ours, theirs):
    """Its beat is refused and it claims nothing: it must register anew, under another name."""
    ours.held("A")
    ours.clock.passes(11)
    theirs.sweeps()
    assert ours.door.call(ours.beat("A")) is False
    ours.started()
    assert ours.claims("A") == []


def test_a_worker_is_lost_once(ours, theirs):
    """Its row goes when it holds nothing any more."""
    ours.held("A")
    ours.clock.passes(11)
    assert theirs.sweeps().lost == ("A",)
    assert theirs.sweeps().lost == ()
    assert [it.worker for it in ours.store.workers()] == []


def test_one_does_not_find_oneself_dead(ours):
    """Who sweeps lives, whatever the clock says of its lease."""
    ours.held("A")
    ours.clock.passes(60)
    assert ours.sweeps("A").lost == ()


def test_a_worker_that_leaves_is_no_loss(ours, theirs):
    """It has given back what it held, and its row goes at once."""
    run = ours.held("A")
    ours.do(run.id, c.Release(run.token))
    ours.door.call(Leave("A"))
    assert (ours.store.workers(), ours.door.cache, ours.door.local) == ([], {}, set())
    assert theirs.sweeps().lost == ()
    assert ours.run(run.id).losses == 0


def test_a_worker_that_leaves_with_a_run_in_hand_is_lost(ours, theirs):
    """It should have given it back; the next sweep frees it."""
    run = ours.held("A")
    ours.door.call(Leave("A"))
    assert theirs.sweeps().lost == ("A",)
    assert ours.run(run.id).state == "interrupted"


def test_recovery_waits_for_one_lease_after_the_clock_has_jumped(ours, theirs):
    """A clock that was set forward must not take the runs of those who live."""
    run = ours.held("A")
    ours.clock.jumps(3600)
    assert theirs.sweeps().lost == ()
    ours.door.call(ours.beat("A"))
    ours.clock.passes(9.9)
    assert theirs.sweeps().lost == ()
    ours.door.call(ours.beat("A"))
    ours.clock.passes(1)
    assert theirs.sweeps().lost == ()
    assert ours.run(run.id).worker == "A"
    ours.clock.passes(10)
    assert theirs.sweeps().lost == ("A",)


def test_a_jump_holds_back_no_timer(ours):
    """Only leases are doubted: what is due by the clock is due."""
    run = ours.held("A")
    wait = c.Wait("sleep", "sleep", "sleep", ours.clock.wall + 1800 * 1_000_000)
    ours.do(run.id, c.Suspend(run.token, ("sleep",), wait))
    ours.clock.jumps(3600)
    assert ours.sweeps().ticked == 1
    assert ours.run(run.id).state == "ready"


def test_a_sweep_does_what_time_has_done(world):
    """Timers, expiries and deadlines, all that are due, in one transaction."""
    waits = {"sleep": "sleep", "gate": "approval", "go": "signal"}
    for name, kind in waits.items():
        run = world.held(f"W {name}", run_id=f"run-{name}")
        until = world.clock.wall + 5_000_000
        world.do(run.id, c.Suspend(run.token, (name,), c.Wait(name, kind, name, until)))
    late = world.started(deadline=world.clock.wall + 5_000_000)
    assert world.sweeps().ticked == 0
    world.clock.passes(5)
    assert world.sweeps().ticked == 4
    assert [world.run(f"run-{name}").state for name in waits] == ["ready"] * 3
    assert world.run(late).state == "timed_out"
    assert world.sweeps().ticked == 0


def test_a_tick_that_is_refused_stops_no_other(world, caplog):
    """A document that has no way out of a state keeps its run there; the others go on."""
    deadline = world.clock.wall + 1_000_000
    stuck = world.started(profile="plugin", deadline=deadline)
    fine = world.started(deadline=deadline)
    world.clock.passes(2)
    assert world.sweeps().ticked == 1
    assert (world.run(stuck).state, world.run(fine).state) == ("queued", "timed_out")
    assert f"tick of run {stuck} refused" in caplog.text


# everybody at once


def test_doors_that_hammer_the_same_runs_leave_no_gap(ours, theirs, tmp_path):
    """Four of them, each in a thread of its own, with cancels and claims in between."""
    others = [World(SqliteStore(str(tmp_path / "runs.db")), ours.clock) for _ in "ab"]
    worlds = [ours, theirs, *others]
    runs = [ours.started(run_id=f"run-000{n}") for n in range(3)]
    refused = []

    def hammers(world, me):
        world.registered(me)
        for n in range(25):
            asks = [signal(run, f"{me} {n}") for run in runs]
            if n == 12:
                world.claims(me, limit=1)
            if n == 20:
                asks.append(Do(T, runs[0], c.Cancel(), me))
            refused.extend(it.error for it in world.door.commit(asks) if it.error)

    threads = [threading.Thread(target=hammers, args=(w, f"W{n}")) for n, w in enumerate(worlds)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for world in others:
        world.store.close()
    assert {type(it) for it in refused} <= {NotAllowed}
    for run in runs:
        assert versions(ours, run) == list(range(1, ours.run(run).version + 1))
        entries = ours.store.entries(T, run)
        assert all(a.at <= b.at for a, b in pairwise(entries))
    signals = sum(name == "signal.received" for run in runs for name in ours.types(run))
    assert signals == 4 * 25 * 3 - sum(it.command == "Signal" for it in refused)
