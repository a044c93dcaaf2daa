"""Stories of time: sleeps, deadlines, and a clock that the story moves."""

from __future__ import annotations

import asyncio

import pytest

from perdure import Expired, RunFailed, approval, sleep, step, workflow
from perdure.engine.asks import Sweep
from tests.stories.teller import Clock


@step
async def note(what: str) -> str:
    return what


@workflow
async def naps(length: str) -> str:
    await note("before")
    await sleep(length)
    return await note("after")


def sweep_now(app):
    """Let time do its work now: the sweeper of a moved clock would look within a second."""
    (alive, *_) = app.store.workers()
    app.writer.call(Sweep(alive.worker, 100))


async def test_a_short_sleep_stays_in_memory(it):
    """It is remembered like a step, and the run is never put aside."""
    async with it.app(naps) as app:
        run = await it(app.start(naps, "10ms"))
        assert await it(run.result()) == "after"
        types = await it.types(run)
    assert types.count("step.succeeded") == 3
    assert "run.waiting" not in types


async def test_a_sleep_of_more_than_a_second_puts_the_run_aside(it):
    """Nobody holds it meanwhile; it is woken at its moment, by the sweeper alone."""
    async with it.app(naps) as app:
        run = await it(app.start(naps, "1010ms"))
        await it.becomes(run, "waiting")
        assert (await it(run.record())).worker is None
        assert await it(run.result()) == "after"
        events = {event.type: event for event in await it.all(run.events())}
    late_s = (events["run.wait_completed"].at - events["run.waiting"].at) / 1_000_000
    assert 1.0 <= late_s < 1.5
    assert events["run.wait_completed"].actor == "engine"


async def test_a_sleep_of_a_month_lasts_a_month(it):
    """Not a moment less; what came before it is not done again."""
    clock = Clock()
    async with it.app(naps, surroundings=clock.surroundings()) as app:
        run = await it(app.start(naps, "30d"))
        await it.becomes(run, "waiting")
        clock.passes(30 * 86_400 - 60)
        sweep_now(app)
        assert await it(run.status()) == "waiting"
        clock.passes(60)
        sweep_now(app)
        assert await it(run.result()) == "after"
        steps = [e.event.step for e in await it.all(run.events()) if e.type == "step.started"]
    assert steps == ["note", "note#2"]


async def test_a_sleep_goes_on_where_it_was_after_a_change_of_hands(lasting):
    """The moment was fixed when it fell asleep; another worker does not begin it anew."""
    it, clock = lasting, Clock()
    async with it.app(naps, surroundings=clock.surroundings()) as app:
        run = await it(app.start(naps, "30d"))
        await it.becomes(run, "waiting")
    clock.passes(30 * 86_400)
    async with it.app(naps, surroundings=clock.surroundings()) as app:
        run = await it(app.get(run.id))
        assert await it(run.result()) == "after"
        assert (await it.types(run)).count("step.waiting") == 1


async def test_a_question_expires_at_its_moment(it):
    """A long one too, when nobody holds the run."""

    @workflow
    async def asks() -> str:
        try:
            await approval("pay", within="48h")
        except Expired:
            return "nobody"

    clock = Clock()
    async with it.app(asks, surroundings=clock.surroundings()) as app:
        run = await it(app.start(asks))
        await it.becomes(run, "waiting")
        clock.passes(48 * 3600 + 1)
        sweep_now(app)
        assert await it(run.result()) == "nobody"


async def test_a_deadline_ends_a_run_that_waits(it):
    """Counted from its start; the run has timed out, and says so."""

    @workflow(deadline="7d")
    async def asks() -> None:
        await approval("pay")

    clock = Clock()
    async with it.app(asks, surroundings=clock.surroundings()) as app:
        run = await it(app.start(asks))
        await it.becomes(run, "waiting")
        clock.passes(7 * 86_400 + 1)
        sweep_now(app)
        with pytest.raises(RunFailed, match="timed_out") as ended:
            await it(run.result())
        assert (ended.value.status, ended.value.code) == ("timed_out", "TIMED_OUT")


async def test_a_deadline_ends_a_run_whose_step_runs(it):
    """The body is cancelled, its code cleans up; what it does with perdure is refused."""
    ended = []

    @step
    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("body")

    @workflow(deadline="50ms")
    async def hangs() -> None:
        await forever()

    async with it.app(hangs) as app:
        run = await it(app.start(hangs))
        with pytest.raises(RunFailed, match="timed_out"):
            await it(run.result())
        await it.until(lambda: ended == ["body"])
        assert (await it(run.record())).steps == ()


async def test_a_deadline_that_passes_before_the_start_ends_the_run(lasting, gate):
    """Nobody was there to work on it in its time."""

    @workflow(deadline="1ms")
    async def hurries() -> None:
        await gate.passed()

    it = lasting
    with it.idle_app(hurries) as asker:
        run_id = (await it(asker.start(hurries))).id
    await it.a_moment()
    async with it.app(hurries) as app:
        run = await it(app.get(run_id))
        await it.becomes(run, "timed_out")
