"""The writer: one thread before the door, asked from any thread and any event loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from perdure.core import commands as c
from perdure.core.errors import Closed, LimitExceeded, NotAllowed, StoreError
from perdure.engine import Writer, writer
from perdure.stores.memory import MemoryStore
from tests.engine.world import Clock, World, signal


@pytest.fixture
def world():
    return World(MemoryStore(), Clock())


@pytest.fixture
def thread(world):
    """A writer before the world's door."""
    it = Writer(world.door)
    yield it
    it.close()


@contextlib.contextmanager
def held_up(world, thread):
    """Hold the store, so that what is asked meanwhile gathers behind one ask that waits for it."""
    run_id, begun = world.started(), world.store.begun
    with ThreadPoolExecutor(1) as pool:
        with world.store.lock:
            first = pool.submit(thread.call, signal(run_id))
            while world.store.begun == begun:
                first.exception(timeout=0) if first.done() else threading.Event().wait(0.001)
            yield run_id
        assert first.result(timeout=5).events


def test_an_ask_is_answered_in_async_code(world, thread):
    """Once it is committed, with what the door says."""

    async def asks():
        run_id = (await thread.ask(world.start())).run_id
        return await thread.ask(signal(run_id))

    assert asyncio.run(asks()).run.version == 2


def test_an_ask_is_answered_in_blocking_code(world, thread):
    """The same door, the same answer."""
    run_id = thread.call(world.start()).run_id
    assert thread.call(signal(run_id)).run.version == 2


def test_a_refusal_is_raised_where_it_was_asked(world, thread):
    """In either colour, as what the door refused with."""
    run_id = world.started()
    world.do(run_id, c.Cancel())
    with pytest.raises(NotAllowed):
        thread.call(signal(run_id))

    async def asks():
        with pytest.raises(NotAllowed):
            await thread.ask(signal(run_id))

    asyncio.run(asks())


def test_a_failing_store_fails_an_ask_and_not_the_writer(world, thread):
    """The thread lives on, and the next ask is answered."""
    run_id = world.started()
    world.store.refuses.add(run_id)
    with pytest.raises(StoreError, match="the disk does not like"):
        thread.call(signal(run_id))
    world.store.refuses.clear()
    assert thread.call(signal(run_id)).run.version == 2


def test_what_gathers_while_a_group_is_committed_is_the_next_group(world, thread):
    """Nothing is delayed on purpose, and nothing is committed singly that came together."""

    async def asks():
        with held_up(world, thread) as run_id:
            groups = world.door.groups
            asked = [thread.ask(signal(run_id)) for _ in range(100)]
        await asyncio.gather(*asked)
        return world.door.groups - groups

    assert asyncio.run(asks()) == 2


def test_a_group_has_a_limit(world, thread):
    """More than a group holds is worked off in several, in the order of the asks."""

    async def asks():
        with held_up(world, thread) as run_id:
            groups = world.door.groups
            asked = [thread.ask(signal(run_id)) for _ in range(2 * writer.GROUP_COMMANDS)]
        answers = await asyncio.gather(*asked)
        return world.door.groups - groups, [answer.run.version for answer in answers]

    groups, versions = asyncio.run(asks())
    assert groups == 3
    assert versions == sorted(versions)


def test_a_beat_goes_to_the_head_of_the_queue(world, thread):
    """A lease does not wait behind the work, however much there is."""
    answered = []

    async def asks():
        with held_up(world, thread) as run_id:
            asked = [thread.ask(signal(run_id)) for _ in range(2 * writer.GROUP_COMMANDS)]
            beat = thread.ask(world.beat("W"))
            for each in (asked[-1], beat):
                each.add_done_callback(answered.append)
        await asyncio.gather(*asked, beat)
        return [beat, asked[-1]]

    assert asyncio.run(asks()) == answered


def test_the_queue_has_a_limit(world, thread, monkeypatch):
    """Who asks faster than the disk can write is told so by the limit's name."""
    monkeypatch.setattr(writer, "QUEUE_COMMANDS", 3)

    async def asks():
        with held_up(world, thread) as run_id:
            asked = [thread.ask(signal(run_id)) for _ in range(3)]
            with pytest.raises(LimitExceeded, match="commands waiting at the door is 3"):
                thread.ask(signal(run_id))
        await asyncio.gather(*asked)

    asyncio.run(asks())


def test_a_caller_that_was_cancelled_is_not_answered_and_the_others_are(world, thread):
    """What it asked is committed all the same: it was asked."""

    async def asks():
        with held_up(world, thread) as run_id:
            caller = asyncio.create_task(answer_of(thread.ask(signal(run_id, "one"))))
            other = thread.ask(signal(run_id, "two"))
            await asyncio.sleep(0)
            caller.cancel()
            with pytest.raises(asyncio.CancelledError):
                await caller
        await other
        return [it.name for it in world.run(run_id).signals]

    assert asyncio.run(asks()) == ["go", "one", "two"]


async def answer_of(asked):
    return await asked


def test_a_loop_that_was_closed_is_not_answered_and_the_others_are(world, thread):
    """Nobody listens there any more; the writer does not fall over it."""
    loop = asyncio.new_event_loop()

    async def asks_and_goes(run_id):
        return thread.ask(signal(run_id))

    with held_up(world, thread) as run_id:
        left = loop.run_until_complete(asks_and_goes(run_id))
        loop.close()
    assert thread.call(signal(run_id)).run.version == 4
    assert not left.done()


def test_what_was_asked_before_the_close_is_worked_off(world):
    """Close returns when all of it is answered, and the thread has ended."""
    thread = Writer(world.door)

    async def asks():
        with held_up(world, thread) as run_id:
            asked = [thread.ask(signal(run_id)) for _ in range(10)]
            closing = asyncio.create_task(asyncio.to_thread(thread.close))
            await asyncio.sleep(0)
        await closing
        return await asyncio.gather(*asked)

    assert len(asyncio.run(asks())) == 10
    assert not thread._thread.is_alive()


def test_an_ask_after_the_close_is_refused(world):
    """In either colour, and nothing was written; a second close does no harm."""
    thread = Writer(world.door)
    thread.close()
    thread.close()
    with pytest.raises(Closed, match="nothing was written"):
        thread.call(world.start())

    async def asks():
        with pytest.raises(Closed):
            await thread.ask(world.start())

    asyncio.run(asks())


def test_an_ask_that_crosses_the_close_is_refused_too(world):
    """It saw the writer open a moment before the thread ended: it must not wait for ever."""
    thread = Writer(world.door)
    thread.close()
    thread._closing = False
    with pytest.raises(Closed, match="nothing was written"):
        thread.call(world.start())


def test_asked_from_many_threads_and_loops_at_once(world, thread):
    """Every one gets the answer to what it asked."""
    run_id = world.started()

    def blocking(n):
        return thread.call(signal(run_id, f"t{n}")).events[0].name

    async def asks(n):
        return (await thread.ask(signal(run_id, f"l{n}"))).events[0].name

    def in_a_loop(n):
        return asyncio.run(asks(n))

    with ThreadPoolExecutor(8) as pool:
        answers = [*pool.map(blocking, range(50)), *pool.map(in_a_loop, range(20))]
    assert answers == [*(f"t{n}" for n in range(50)), *(f"l{n}" for n in range(20))]
    assert world.run(run_id).version == 71
