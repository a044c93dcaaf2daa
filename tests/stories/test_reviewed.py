"""Stories of what a review has found: each of them ended badly once."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import sys

import pytest

from perdure import (
    Expired,
    RunFailed,
    StepFailed,
    gather,
    retry,
    sleep,
    step,
    wait_for,
    workflow,
)
from perdure.core import commands as c
from perdure.core.errors import StoreError
from perdure.core.payload import pack
from perdure.engine import REAL, Surroundings
from perdure.engine.asks import Do, Sweep
from tests.stories.teller import Clock


class Mute(Exception):
    """An exception that cannot say what it is."""

    def __str__(self) -> str:
        return self.missing


class Stop(BaseException):
    """What a user raises past every `except Exception`."""


@step
async def echo(word: str) -> str:
    return word


@workflow
async def echoes(word: str) -> str:
    return await echo(word)


@workflow
async def hears(word: str) -> list[str]:
    return [await echo(word), await wait_for("word", str)]


LOG, ROW = "events from log where run = ? and seq = 1", "body from runs where id = ?"


@contextlib.contextmanager
def damaged(it, run, what):
    """Spoil by hand what a file holds of a run, and put it back in the end."""
    column, _, table, where = what.split(" ", 3)
    update = f"update {table} set {column} = ? {where}"
    with contextlib.closing(sqlite3.connect(it.url.removeprefix("sqlite:///"), timeout=5.0)) as db:
        (was,) = db.execute(f"select {what}", (run.id,)).fetchone()
        with db:
            db.execute(update, ("[{", run.id))
        try:
            yield
        finally:
            with db:
                db.execute(update, (was, run.id))


# two tenants


@pytest.fixture
def pair(lasting, gate):
    """A workflow that begins, is held, and then hears so many words."""

    @step
    async def held(who: str) -> str:
        await gate.passed()
        return who

    @workflow
    async def counts(who: str, words: int) -> list:
        heard = [await held(who)]
        return heard + [await wait_for("word", int) for _ in range(words)]

    return counts


async def test_two_tenants_may_have_runs_of_one_id(lasting, gate, pair):
    """One worker holds both, and what is said to one of them only that one hears."""
    it = lasting
    async with it.app(pair, tenant="ada") as ada:
        with it.idle_app(tenant="bob") as bob:
            runs = [
                await it(app.start(pair, app.tenant, words, run_id="order-0001"))
                for app, words in ((bob, 9), (ada, 0))
            ]
            for run in runs:
                await it.becomes(run, "running")
            for n in range(9):
                signal = Do("bob", "order-0001", c.Signal("word", pack(n, "a word")), "bob")
                ada.writer.call(signal)
            gate.open()
            assert await it(runs[1].result()) == ["ada"]
            assert await it(runs[0].result()) == ["bob", *range(9)]
            assert "signal.received" not in await it.types(runs[1])


async def test_a_cancel_stops_the_run_of_its_own_tenant(lasting, gate, pair):
    """The other's run, which has the same id and the same worker, goes on."""
    it = lasting
    async with it.app(pair, tenant="ada") as ada:
        with it.idle_app(tenant="bob") as bob:
            runs = [
                await it(app.start(pair, app.tenant, 0, run_id="order-0001")) for app in (bob, ada)
            ]
            for run in runs:
                await it.becomes(run, "running")
            ada.writer.call(Do("bob", "order-0001", c.Cancel("enough", 5.0), "bob"))
            with pytest.raises(RunFailed, match="enough"):
                await it(runs[0].result())
            gate.open()
            assert await it(runs[1].result()) == ["ada"]


# branches


async def test_a_backoff_that_was_canceled_is_over(it, gate):
    """Its step is not left open, or the run would be claimed for it again and again."""
    clock = Clock()

    @step(retry=retry(5, first="3s", jitter=0.0))
    async def flaky() -> None:
        raise ConnectionError

    @step
    async def fails() -> None:
        await gate.passed()
        raise ValueError("no")

    @workflow
    async def both() -> str:
        with contextlib.suppress(StepFailed):
            await gather(flaky(), fails())
        return await wait_for("go", str)

    async with it.app(both, surroundings=clock.surroundings()) as app:
        run = await it(app.start(both))
        await it.sees(run.record, lambda now: any(s.next_run_at for s in now.steps))
        gate.open()
        await it.becomes(run, "waiting")
        before = await it(run.record())
        assert [(s.id, s.state) for s in before.steps] == [("go", "waiting")]
        assert (before.claim_at, before.due_at) == (None, None)
        clock.passes(5)
        app.writer.call(Sweep("", 100))
        other = await it(app.start(both))  # whoever claims this one would claim the first as well
        await it.sees(other.record, lambda now: now.started_at)
        assert (await it(run.record())).version == before.version
        await it(run.signal("go", "went"))
        assert await it(run.result()) == "went"


@pytest.mark.parametrize("inner", [False, True])
async def test_steps_that_all_back_off_put_their_run_aside(it, inner):
    """Whether they are given to `gather` as they are, or within coroutines."""

    @step(retry=retry(3, first="1h", jitter=0.0))
    async def flaky(n: int) -> None:
        raise ConnectionError

    async def branch(n: int) -> None:
        await flaky(n)

    @workflow
    async def both() -> None:
        await gather(*[branch(n) if inner else flaky(n) for n in range(2)])

    async with it.app(both) as app:
        run = await it(app.start(both))
        record = await it.sees(run.record, lambda now: now.steps and not now.worker)
        assert (record.status, len(record.steps)) == ("queued", 2)
        assert record.claim_at == min(step.next_run_at for step in record.steps)
        assert await it(run.cancel()) == "canceled"


async def test_steps_that_have_backed_off_side_by_side_go_on(it, hasty):
    """Put aside and claimed again, each is tried at its moment, and all have their place."""
    tries = []

    @step(retry=retry(3, first="30ms", jitter=0.0))
    async def flaky(n: int) -> int:
        tries.append(n)
        if tries.count(n) == 1:
            raise ConnectionError
        return n

    @workflow
    async def both() -> list[int]:
        return list(await gather(flaky(1), flaky(2)))

    async with it.app(both) as app:
        run = await it(app.start(both))
        assert await it(run.result()) == [1, 2]
        assert "run.released" in await it.types(run)
    assert sorted(tries) == [1, 1, 2, 2]


async def test_a_branch_that_is_canceled_at_once_gives_its_place_back(it):
    """However deep it lies: the run is put aside at the next wait, and not held in vain."""

    async def raises() -> None:
        raise KeyError("no")

    async def deep(levels: int) -> None:
        await (gather(deep(levels - 1), deep(levels - 1)) if levels else wait_for("never"))

    @workflow
    async def careful(levels: int) -> str:
        for order in (1, -1):
            with contextlib.suppress(KeyError):
                await gather(*[raises(), deep(levels), echo("a")][::order])
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0):
                await gather(deep(levels), deep(levels))
        return await wait_for("go", str)

    async with it.app(careful) as app:
        runs = [await it(app.start(careful, levels)) for levels in range(4)]
        for run in runs:
            await it.becomes(run, "waiting")
            assert [s.id for s in (await it(run.record())).steps] == ["go"]
            await it(run.signal("go", "went"))
            assert await it(run.result()) == "went"


async def test_a_body_in_a_task_of_its_own_keeps_the_run(it, gate, hasty):
    """It runs once: the run is not put aside under it, however long its workflow sleeps."""
    begun = []

    @step
    async def body() -> str:
        begun.append("body")
        await gate.passed()
        return "done"

    @workflow
    async def careless() -> str:
        task = asyncio.create_task(body())
        await sleep("30ms")
        begun.append("slept")
        gate.open()
        return await task

    async with it.app(careless) as app:
        run = await it(app.start(careless))
        assert await it(run.result(within="5s")) == "done"
        types = await it.types(run)
    assert begun == ["body", "slept"]
    assert "run.waiting" not in types


async def test_a_body_in_a_task_of_its_own_lets_its_workflow_hear(it, gate):
    """What comes while it runs answers the wait beside it."""

    @step
    async def body() -> str:
        await gate.passed()
        return "done"

    @workflow
    async def careless() -> list[str]:
        task = asyncio.create_task(body())
        return [await wait_for("go", str), await task]

    async with it.app(careless) as app:
        run = await it(app.start(careless))
        await it.until(gate.reached)
        await it.sees(run.record, lambda now: any(s.state == "waiting" for s in now.steps))
        await it(run.signal("go", "went"))
        await it.sees(run.record, lambda now: not now.steps)
        gate.open()
        assert await it(run.result(within="5s")) == ["went", "done"]


# time


async def test_a_clock_that_is_slow_ends_every_wait(it, gate, hasty):
    """A timer of the loop that goes off too early by the clock on the wall is set again."""
    began = REAL.now()
    slow = Surroundings(lambda: (REAL.now() + began) // 2, REAL.monotonic, REAL.entropy)

    @step
    async def lasts() -> str:
        await gate.passed()
        return "done"

    async def naps() -> str:
        await sleep("30ms")
        return "slept"

    async def asks() -> str:
        with pytest.raises(Expired):
            await wait_for("never", within="30ms")
        return "expired"

    async def opens() -> list[str]:
        both = list(await gather(naps(), asks()))
        gate.open()
        return both

    @workflow
    async def waits() -> list:
        return list(await gather(lasts(), opens()))

    async with it.app(waits, surroundings=slow) as app:
        run = await it(app.start(waits))
        assert await it(run.result(within="5s")) == ["done", ["slept", "expired"]]
        assert "run.waiting" not in await it.types(run)


# what a body may raise


def _next():
    return next(iter(()))


async def _next_here():
    return next(iter(()))


def _exit():
    sys.exit("out of tea")


async def _exit_here():
    sys.exit(2)


def _mute():
    raise Mute


async def _mute_here():
    raise Mute


async def _stop_here():
    raise Stop("no more")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (_next, "RuntimeError"),
        (_next_here, "RuntimeError"),
        (_exit, "SystemExit"),
        (_exit_here, "SystemExit"),
        (_mute, "Mute"),
        (_mute_here, "Mute"),
    ],
)
async def test_a_step_may_raise_anything(it, body, code):
    """It fails with the exception's name, after its retries; the worker lives on."""
    tried = []
    fails = step(name="fails", retry=retry(1, first="1ms"))(body)

    @workflow
    async def catches() -> str:
        try:
            await fails()
        except StepFailed as failed:
            tried.append(failed.code)
            raise

    async with it.app(catches, echoes) as app:
        run = await it(app.start(catches))
        with pytest.raises(RunFailed) as failed:
            await it(run.result(within="5s"))
        assert await it((await it(app.start(echoes, "a"))).result()) == "a"
    assert (tried, failed.value.code, failed.value.status) == ([code], code, "failed")


@pytest.mark.parametrize("where", ["the step", "the body", "a branch"])
@pytest.mark.parametrize(
    ("body", "code"),
    [(_exit_here, "SystemExit"), (_mute_here, "Mute"), (_stop_here, "Stop")],
)
async def test_a_workflow_may_raise_anything(it, body, code, where):
    """Also what is no `Exception`: the run has failed by that name, and the worker lives on."""

    @workflow
    async def ends() -> None:
        match where:
            case "the step":
                await step(name="fails")(body)()
            case "the body":
                await body()
            case "a branch":
                await gather(echo("a"), body(), wait_for("never"))

    async with it.app(ends, echoes) as app:
        run = await it(app.start(ends))
        with pytest.raises(RunFailed) as failed:
            await it(run.result(within="5s"))
        assert await it((await it(app.start(echoes, "a"))).result()) == "a"
        assert (await it(run.record())).steps == ()
    assert (failed.value.code, failed.value.status) == (code, "failed")


# damage


async def test_a_run_whose_log_cannot_be_read_fails(lasting):
    """Once, saying so, where it would have been claimed for ever; others are not kept waiting."""
    it = lasting
    async with it.app(hears) as app:
        run, other = [await it(app.start(hears, word)) for word in ("a", "b")]
        for each in (run, other):
            await it.becomes(each, "waiting")
        with damaged(it, run, LOG):
            for each in (run, other):
                await it(each.signal("word", "c"))
            with pytest.raises(RunFailed, match="the log's row 1 to 1 of run") as failed:
                await it(run.result(within="5s"))
            assert await it(other.result()) == ["b", "c"]
        assert (failed.value.code, failed.value.status) == ("DAMAGED", "failed")
        types = await it.types(run)
    assert (types.count("run.claimed"), types[-1]) == (1, "run.failed")


@pytest.mark.parametrize("at_most", [1, 256])
async def test_a_run_whose_row_cannot_be_read_keeps_nobody_waiting(lasting, at_most):
    """A claim passes over it, however few it may take; once it is repaired it goes on."""
    it = lasting
    with it.idle_app(echoes) as asker:
        first, second = [await it(asker.start(echoes, word)) for word in ("a", "b")]
        with damaged(it, first, ROW):
            async with it.app(echoes, at_most=at_most):
                assert await it(second.result(within="2s")) == "b"
        async with it.app(echoes, at_most=at_most):
            assert await it(first.result()) == "a"


# beginnings


async def test_a_worker_that_cannot_register_is_no_worker(lasting):
    """Whoever enters the app learns it at once; repaired, the app can be entered after all."""
    it = lasting
    with it.idle_app(echoes) as app:
        locks = f"{app.store.path}.workers"
        os.close(os.open(locks, os.O_CREAT))
        enters = app.__aenter__ if it.colour == "async" else app.__enter__
        with pytest.raises((StoreError, OSError)):
            await _entered(it, enters)
        assert await it(app.runs()) == []
        assert app.store.workers() == []
        os.remove(locks)
        assert await _entered(it, enters) is app
        assert await it((await it(app.start(echoes, "a"))).result()) == "a"
        if it.colour == "async":
            await app.__aexit__(None, None, None)
        else:
            app.__exit__(None, None, None)


async def _entered(it, enters):
    return await enters() if it.colour == "async" else enters()
