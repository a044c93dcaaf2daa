"""Stories of runs that are told something."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import Expired, RunFailed, gather, sleep, step, wait_for, workflow
from perdure.core.errors import BadName, BadPayload, NoSuchRun, NotAllowed


@workflow
async def ships() -> str:
    return await wait_for("address", str)


@workflow
async def takes(count: int) -> list[Any]:
    return [await wait_for("n", int) for _ in range(count)]


async def test_a_signal_wakes_the_run_that_waits_for_it(it):
    """What came with it is what `wait_for` returns."""
    async with it.app(ships) as app:
        run = await it(app.start(ships))
        await it.becomes(run, "waiting")
        assert await it(run.signal("address", "Main St 1")) is True
        assert await it(run.result()) == "Main St 1"


async def test_a_signal_that_comes_first_is_kept(it):
    """Even before the run has started; whoever waits later takes it at once."""
    with it.idle_app(ships) as asker:
        run_id = (await it(asker.start(ships))).id if it.url != "memory://" else None
        if run_id is not None:
            assert await it(asker.signal(run_id, "address", "Main St 1")) is True
    async with it.app(ships) as app:
        run = await it(app.get(run_id) if run_id else app.start(ships))
        if run_id is None:
            await it(run.signal("address", "Main St 1"))
        assert await it(run.result()) == "Main St 1"


async def test_signals_of_one_name_are_taken_in_order(it):
    """Those that wait for nobody yet, and those that come later."""
    async with it.app(takes) as app:
        run = await it(app.start(takes, 4))
        for n in range(4):
            assert await it(run.signal("n", n))
        assert await it(run.result()) == [0, 1, 2, 3]


async def test_a_signal_with_an_id_counts_once(it):
    """However often it is sent, before it is taken and after."""
    async with it.app(takes) as app:
        run = await it(app.start(takes, 2))
        answers = [await it(run.signal("n", 1, id="first")) for _ in range(3)]
        assert answers == [True, False, False]
        await it.becomes(run, "waiting")
        assert await it(run.signal("n", 1, id="first")) is False
        assert await it(run.signal("n", 2, id="second")) is True
        assert await it(run.result()) == [1, 2]


async def test_a_signal_nobody_asked_for_changes_nothing_else(it):
    """It is kept untaken, and shown."""
    async with it.app(ships) as app:
        run = await it(app.start(ships))
        await it(run.signal("weather", "rain"))
        await it.becomes(run, "waiting")
        assert (await it(run.record())).untaken_signals == ("weather",)
        await it(run.signal("address", "here"))
        assert await it(run.result()) == "here"


async def test_a_wait_for_a_signal_may_end(it):
    """Within its time, or with `Expired`."""

    @workflow
    async def hurries() -> str:
        try:
            return await wait_for("address", within="20ms")
        except Expired as late:
            return late.step

    async with it.app(hurries) as app:
        assert await it((await it(app.start(hurries))).result()) == "address"


async def test_a_signal_without_a_payload_is_one(it):
    """It says that it came."""

    @workflow
    async def waits() -> bool:
        return await wait_for("go") is None

    async with it.app(waits) as app:
        run = await it(app.start(waits))
        await it(run.signal("go"))
        assert await it(run.result()) is True


async def test_a_payload_of_the_wrong_type_fails_where_it_is_read(it):
    """With the signal's name and what was expected."""
    async with it.app(takes) as app:
        run = await it(app.start(takes, 1))
        await it(run.signal("n", "one"))
        with pytest.raises(RunFailed, match="the answer to 'n': Expected `int`, got `str`"):
            await it(run.result())


async def test_what_cannot_be_a_signal_is_refused(it):
    """A payload that is not JSON, a run that is over, a run that is not there."""
    async with it.app(ships) as app:
        run = await it(app.start(ships))
        with pytest.raises(BadPayload, match="the payload of 'address'"):
            await it(run.signal("address", object()))
        await it(run.signal("address", "here"))
        await it(run.result())
        with pytest.raises(NotAllowed, match="succeeded"):
            await it(run.signal("address", "there"))
        with pytest.raises(NoSuchRun, match="no-such-run"):
            await it(app.signal("no-such-run", "address"))


async def test_a_workflow_can_wait_for_several_names_at_once(it):
    """Each branch takes its own."""

    @workflow
    async def both() -> list[str]:
        return list(await gather(wait_for("a", str), wait_for("b", str)))

    async with it.app(both) as app:
        run = await it(app.start(both))
        await it.becomes(run, "waiting")
        await it(run.signal("b", "2"))
        await it(run.signal("a", "1"))
        assert await it(run.result()) == ["1", "2"]


async def test_a_name_that_is_no_name_is_refused(it):
    """In the workflow that waits for it."""

    @workflow
    async def waits() -> None:
        with pytest.raises(BadName, match="signal ''"):
            await wait_for("")
        await wait_for("\n")

    async with it.app(waits) as app:
        with pytest.raises(RunFailed, match=r"BadName: signal .* is not usable"):
            await it((await it(app.start(waits))).result())


async def test_waiting_has_no_meaning_outside_a_run(it):
    """Nor in the body of a step: the refusal says where it has."""

    @step
    async def waits() -> None:
        await sleep("1ms")

    @workflow
    async def calls() -> None:
        await waits()

    async with it.app(calls) as app:
        with pytest.raises(RunFailed, match="NotInRun: sleep has a meaning only inside a workflow"):
            await it((await it(app.start(calls))).result())
