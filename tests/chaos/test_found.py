"""What the kills have found, each as its smallest case."""

import asyncio
import gc
import logging
import sqlite3

import pytest

from perdure.app import App
from perdure.context import Scope, approval, gather
from perdure.context.steps import Running
from perdure.core import commands as c
from perdure.core.errors import Gone, RunFailed, StepFailed, StoreError
from perdure.core.limits import LEASE_S
from perdure.core.states import CANCEL_REQUESTED
from perdure.engine.asks import Done, Sweep
from perdure.stores.sqlite import SqliteGroup
from perdure.worker import Worker
from perdure.workflow import inside, step, workflow
from tests.chaos.world import S, Taken, World, do, kinds, take


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path)
    yield world
    world.close()


# Workers that were found dead


def test_a_worker_that_was_buried_does_not_rise(world):
    """Stopped past its lease: its row is gone, so a beat says so and a claim gets nothing.

    It had registered again under its old name, and what it claimed before that was held by
    nobody that anybody could find dead: such a run stood still for ever.
    """
    stopped, other = world.hired("one"), world.hired("two")
    world.now += int(LEASE_S * S)
    world.beat(other, "two")
    assert other.call(Sweep("", 9)).lost == ("one",)
    world.start(other)
    assert take(stopped, "one") == []
    assert world.beat(stopped, "one") is False
    assert len(take(other, "two")) == 1


def test_a_burial_that_was_not_committed_leaves_the_lock(world, monkeypatch):
    """Killed while it frees a dead worker's runs, the next one still sees at once who is dead.

    The file that proves a death was removed before the commit, so the next one saw no proof and
    waited for the lease.
    """
    dead, killed, other = world.hired("one"), world.hired("two"), world.hired("three")
    world.start(dead)
    take(dead, "one")
    dead.store.lives.close()
    with monkeypatch.context() as patch:
        patch.setattr(SqliteGroup, "commit", dies)
        with pytest.raises(StoreError, match="killed here"):
            killed.call(Sweep("", 9))
    assert other.call(Sweep("", 9)).lost == ("one",)


def dies(group):
    raise OSError("killed here")


# Answers that come while a run is taken over


@pytest.mark.parametrize("heard", [False, True])
def test_an_answer_after_the_memory_was_read_is_not_asked_for_again(world, heard):
    """It comes between the look at the log and the wait: the wait finds it, heard of or not.

    It was lost, and the person asked again, though the answer had been acknowledged.
    """

    async def scene():
        taken = Taken(world)
        await taken.live.remember()
        run = taken.answered()
        if heard:
            taken.live.hear(run)
        assert await taken.asks_again() is True
        assert kinds(taken.door, taken.run.id).count("step.waiting") == 1

    asyncio.run(scene())


def test_an_answer_while_the_memory_is_read_costs_no_memory(world):
    """What the run heard of first does not hide what came before it.

    Everything older than the answer was skipped: all steps would have run again.
    """

    async def scene():
        taken = Taken(world)
        taken.readable.clear()
        remembering = asyncio.create_task(taken.live.remember())
        await asyncio.sleep(0)
        taken.live.hear(taken.answered())
        await asyncio.sleep(0)
        taken.readable.set()
        await remembering
        assert set(taken.live.memo.outcomes) == {"a", "ok"}

    asyncio.run(scene())


def test_an_older_answer_does_not_undo_what_was_heard(world):
    """A cancel and a step's result in one group: the cancel is heard of first, and stays known.

    The run had failed with CANCELED_ITSELF, where it was canceled as asked.
    """

    async def scene():
        taken = Taken(world)
        await taken.live.remember()
        taken.live.task = None
        earlier = Done(taken.live.run, [])
        taken.live.hear(do(taken.door, taken.run.id, c.Cancel()).run)
        taken.live._take_in(earlier)
        assert taken.live.run.state == CANCEL_REQUESTED

    asyncio.run(scene())


# Steps and branches


def test_a_start_is_not_recorded_after_the_end(world):
    """A long body that ends while its start is about to be recorded stays ended.

    It was begun again in the log, as an open step that nobody ran.
    """

    async def scene():
        taken = Taken(world)
        before = kinds(taken.door, taken.run.id)
        running = Running(taken.run, c.Call("slow"), 0)
        await Worker._record_start(None, taken.live, running)
        assert kinds(taken.door, taken.run.id) == before
        taken.live.running["slow"] = running
        await Worker._record_start(None, taken.live, running)
        assert kinds(taken.door, taken.run.id) == [*before, "step.started"]

    asyncio.run(scene())


def test_a_body_that_has_ended_does_not_count_as_running(world):
    """From the moment its result is on its way to the door, for good or bad."""
    seen = []

    async def scene():
        taken = Taken(world)
        await taken.live.remember()

        async def ask(asked, loop):
            seen.append(dict(taken.live.running))
            return await taken.ask(asked, loop)

        taken.live._ask = ask
        inside.set(Scope(taken.live, "", asyncio.current_task()))
        await step(name="b")(nothing)()
        with pytest.raises(StepFailed):
            await step(name="c")(fails)()

    asyncio.run(scene())
    assert seen == [{}, {}]


async def nothing():
    return None


async def fails():
    raise ValueError("it does")


def test_branches_that_are_gone_are_gone_in_silence(world, caplog):
    """A run put aside with two blocked branches leaves no exception that nobody has looked at."""

    async def scene():
        taken = Taken(world)
        await taken.live.remember()
        inside.set(Scope(taken.live, "", asyncio.current_task()))
        with pytest.raises(Gone):
            await gather(later(), approval("two", bool))

    with caplog.at_level(logging.ERROR, "asyncio"):
        asyncio.run(scene())
        gc.collect()
    assert caplog.records == []


async def later():
    await asyncio.sleep(0)
    return await approval("one", bool)


# A store that fails for a while


def test_a_run_outlives_a_store_that_fails(tmp_path, monkeypatch):
    """Its worker puts it down, gives it back as soon as the store takes that, and it runs again.

    When neither a step's result nor the run's failure could be written, the run stayed held for
    ever by a worker that lived and did not run it.
    """
    refusals, write = [], SqliteGroup.write

    def fails_three_times(group, changes):
        if changes.log and 0 < len(refusals) <= 3:
            refusals.append("full")
            raise sqlite3.OperationalError("database or disk is full")
        write(group, changes)

    @step
    async def fills_the_disk():
        if not refusals:
            refusals.append("about to be full")

    @workflow
    async def careful():
        await fills_the_disk()
        return "done"

    monkeypatch.setattr(SqliteGroup, "write", fails_three_times)
    with App(f"sqlite:///{tmp_path}/runs.db", workflows=[careful]) as app:
        assert app.start(careful).wait().result(within="10s").wait() == "done"
    assert len(refusals) == 4


def test_a_log_that_cannot_be_read_is_no_memory(world):
    """A run whose past is not known is given back, and does not begin from the start."""

    async def scene():
        taken = Taken(world)
        taken.live.task = None
        taken.live._log = unreadable
        await taken.live.remember()
        assert taken.live.gone
        assert taken.live.in_doubt

    asyncio.run(scene())


async def unreadable(after):
    raise StoreError("the disk does not answer")


# Speaking to a run that another process holds


@workflow
async def patient():
    await forever()


@step
async def forever():
    await asyncio.Event().wait()


def test_a_cancel_from_elsewhere_is_heard_of(tmp_path):
    """The holder looks who was spoken to, also while a body runs that has been recorded.

    It looked in nobody's name: the run was canceled when its grace was over, its body running on.
    """

    async def scene():
        url = f"sqlite:///{tmp_path}/runs.db"
        elsewhere = App(url)
        async with App(url, workflows=[patient]):
            run = await elsewhere.start(patient)
            async for event in run.events(follow=True):
                if event.type == "step.started":
                    break
            await run.cancel(grace="1h")
            with pytest.raises(RunFailed):
                await run.result(within="5s")
            assert await run.status() == "canceled"
        await asyncio.to_thread(elsewhere.close)

    asyncio.run(scene())
