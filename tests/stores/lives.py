"""Lives of a run. Each is told to a world through its door, and returns the run's id."""

from __future__ import annotations

import msgspec

from perdure.core import commands as c
from perdure.core import events as e


def queued(world):
    return world.start()


def finished(world):
    """Events: created 1, started 2, two steps 3-4 and 5-6, succeeded 7."""
    run_id = held(world, steps=2)
    world.finish(run_id)
    return run_id


def held(world, steps=3):
    """Events: created 1, started 2 (here is the row), then a row of two for each step."""
    run_id = world.start()
    world.claim(run_id)
    world.steps(run_id, *(f"s#{number}" for number in range(1, steps + 1)))
    return run_id


def failed(world):
    run_id = held(world, steps=1)
    world.fail(run_id)
    return run_id


def canceled(world):
    run_id = held(world, steps=1)
    world.do(run_id, c.Cancel("enough"))
    world.do(run_id, c.ConfirmCancel(world.token(run_id)))
    return run_id


def canceled_early(world):
    run_id = world.start()
    world.do(run_id, c.Cancel("never mind"))
    return run_id


def asked_to_stop(world):
    run_id = held(world)
    world.do(run_id, c.Cancel("enough"))
    world.steps(run_id, "cleanup#1")
    return run_id


def waiting(world):
    """Events: created 1, started 2, a step 3-4, then in one row 5-6 a wait and its suspension."""
    run_id = held(world, steps=1)
    world.suspend(run_id, "approval", "release", until=world.clock + 3600 * 1_000_000)
    return run_id


def answered(world):
    run_id = waiting(world)
    world.do(run_id, c.Approve("release", msgspec.Raw(b"true")))
    return run_id


def asleep_and_woken(world):
    run_id = held(world, steps=1)
    world.suspend(run_id, "sleep", "sleep#1", until=world.clock + 60 * 1_000_000)
    world.later(120).sweep()
    world.claim(run_id)
    world.finish(run_id)
    return run_id


def expired(world):
    run_id = waiting(world)
    world.later(7200).sweep()
    return run_id


def timed_out(world):
    run_id = world.start(deadline=world.clock + 30 * 1_000_000)
    world.later(60).sweep()
    return run_id


def retried(world):
    """A step that failed once, waited for its time off the worker, and came through."""
    run_id = world.start()
    world.claim(run_id)
    call, later = c.Call("flaky#1", "d", 3), world.clock + 60 * 1_000_000
    token = world.token(run_id)
    world.do(run_id, c.RetryStep(token, call, world.clock, e.Failure("X"), later))
    world.do(run_id, c.Suspend(token, ("flaky#1",)))
    world.later(120)
    world.claim(run_id)
    world.do(run_id, c.SucceedStep(token + 1, call, world.clock, msgspec.Raw(b"1")))
    world.finish(run_id)
    return run_id


def lost_and_reclaimed(world):
    """The owner vanished in the middle of a step; the next one began it again."""
    run_id = held(world, steps=2)
    token = world.token(run_id)
    world.do(run_id, c.StartStep(token, c.Call("long#1"), world.clock))
    world.later(60).sweep()
    world.claim(run_id)
    world.do(run_id, c.SucceedStep(token + 1, c.Call("long#1"), world.clock, msgspec.Raw(b"1")))
    return run_id


def signaled(world):
    """One signal was taken, one is kept."""
    run_id = held(world, steps=1)
    for name in ("wanted", "unwanted"):
        world.do(run_id, c.Signal(name, msgspec.Raw(b"[1]")), key=name)
    world.do(run_id, c.OpenWait(world.token(run_id), c.Wait("wanted#1", "signal", "wanted")))
    return run_id


def released(world):
    run_id = held(world, steps=2)
    world.do(run_id, c.Release(world.token(run_id), "going home"))
    return run_id


def long_run(world):
    """So many steps that the row was written again in the middle of them."""
    return held(world, steps=100)


LIVES = [
    queued, finished, held, failed, canceled, canceled_early, asked_to_stop, waiting, answered,
    asleep_and_woken, expired, timed_out, retried, lost_and_reclaimed, signaled, released, long_run,
]  # fmt: skip
