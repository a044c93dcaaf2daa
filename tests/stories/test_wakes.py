"""Stories without polls: within one process whoever waits is woken, and never looks twice."""

from __future__ import annotations

import pytest

from perdure import RunFailed, approval, gather, retry, sleep, step, wait_for, workflow


@pytest.fixture(autouse=True)
def no_polls(monkeypatch):
    """Who would rely on looking again is late by far."""
    for module in ("perdure.loop", "perdure.app.handle"):
        for name in ("POLL_SHORTEST_S", "POLL_LONGEST_S"):
            monkeypatch.setattr(f"{module}.{name}", 60.0)


@step
async def double(n: int) -> int:
    return 2 * n


async def test_a_run_is_claimed_when_it_is_started(it):
    """And whoever waits for its result hears of its end."""

    @workflow
    async def doubles(n: int) -> int:
        return await double(n)

    async with it.app(doubles) as app:
        for n in range(3):
            assert await it((await it(app.start(doubles, n))).result()) == 2 * n


async def test_a_run_that_waits_is_woken_by_its_answer(it):
    """By an approval, and by a signal; put aside in between, and claimed again."""

    @workflow
    async def asks() -> list[str]:
        return [await approval("pay", str), await wait_for("go", str)]

    async with it.app(asks) as app:
        run = await it(app.start(asks))
        await it.becomes(run, "waiting")
        await it(run.approve("pay", "yes"))
        await it.sees(run.record, lambda now: [s.id for s in now.steps] == ["go"])
        await it(run.signal("go", "went"))
        assert await it(run.result()) == ["yes", "went"]


async def test_a_run_is_woken_at_its_moment(it, hasty):
    """By a sleep, by a question that expires, by its deadline."""

    @workflow(deadline="400ms")
    async def waits() -> None:
        await sleep("30ms")
        with pytest.raises(TimeoutError):
            await approval("pay", within="30ms")
        await wait_for("never")

    async with it.app(waits) as app:
        run = await it(app.start(waits))
        with pytest.raises(RunFailed, match="timed_out"):
            await it(run.result())
        assert (await it.types(run)).count("run.wait_completed") == 2


async def test_a_run_in_backoff_is_claimed_at_its_moment(it, hasty):
    """It is put aside for the while, and nobody has to look for it."""
    tries = []

    @step(retry=retry(2, first="50ms", jitter=0))
    async def fails_twice() -> int:
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionError("not yet")
        return len(tries)

    @workflow
    async def tries_again() -> int:
        return await fails_twice()

    async with it.app(tries_again) as app:
        run = await it(app.start(tries_again))
        assert await it(run.result()) == 3
        assert (await it.types(run)).count("run.released") == 2


async def test_branches_are_woken_by_each_other(it):
    """The last one to be blocked puts the run aside; the first answer brings it back."""

    async def branch(name: str) -> str:
        return await wait_for(name, str)

    @workflow
    async def both() -> list[str]:
        return list(await gather(branch("a"), branch("b")))

    async with it.app(both) as app:
        run = await it(app.start(both))
        await it.becomes(run, "waiting")
        for name in "ba":
            await it(run.signal(name, name))
        assert await it(run.result()) == ["a", "b"]


async def test_an_app_that_is_full_claims_the_next_run_when_one_ends(it):
    """Nothing waits beside an idle worker."""

    @workflow
    async def doubles(n: int) -> int:
        return await double(n)

    async with it.app(doubles, at_most=1) as app:
        runs = [await it(app.start(doubles, n)) for n in range(5)]
        assert [await it(run.result()) for run in runs] == [0, 2, 4, 6, 8]


async def test_who_follows_events_is_woken_by_each(it):
    """Of every change of state."""

    @workflow
    async def waits() -> None:
        await wait_for("go")

    async with it.app(waits) as app:
        run, seen = await it(app.start(waits)), []
        async for event in it.stream(run.events(follow=True)):
            seen.append(event.type)
            if event.type == "run.waiting":
                await it(run.signal("go"))
    assert seen[-1] == "run.succeeded"


async def test_an_app_that_closes_waits_for_nothing_but_bodies(it, gate):
    """When the last one has ended its run is given back at once."""

    @step
    def slow() -> str:
        gate.wait()
        return "slow"

    @workflow
    async def two() -> int:
        await slow()
        return await double(1)

    async with it.app(two) as app:
        run = await it(app.start(two))
        await it.until(gate.reached)
        app.drain()
        gate.open()
        await it.becomes(run, "queued")
