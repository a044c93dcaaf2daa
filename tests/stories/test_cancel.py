"""Stories of runs that are asked to stop."""

from __future__ import annotations

import asyncio

import pytest

from perdure import RunFailed, approval, gather, sleep, step, wait_for, workflow
from perdure.core import commands as c
from perdure.core.errors import NotAllowed
from perdure.engine.asks import Do
from tests.stories.teller import Gate


@step
async def note(what: str) -> str:
    return what


@workflow
async def waits() -> None:
    await approval("pay")


def steps_of(events, kind="step.succeeded"):
    return [event.event.step for event in events if event.type == kind]


async def ended(it, run):
    """Wait for the end of a canceled run, and return what `result` raises."""
    with pytest.raises(RunFailed) as failed:
        await it(run.result())
    return failed.value


async def test_a_run_that_was_not_begun_is_canceled_at_once(it):
    """Nobody has to agree; the reason is what its result says."""
    with it.idle_app(waits) as app:
        run = await it(app.start(waits))
        assert await it(run.cancel("customer left")) == "canceled"
        error = await ended(it, run)
    assert (error.status, error.code) == ("canceled", "CANCELED")


async def test_a_run_that_waits_is_canceled_at_once(it):
    """Its question is closed; a late answer is refused or changes nothing."""
    async with it.app(waits) as app:
        run = await it(app.start(waits))
        await it.becomes(run, "waiting")
        assert await it(run.cancel("customer left")) == "canceled"
        assert (await it(run.record())).steps == ()
        assert await it(run.approve("pay")) is False


async def test_a_step_that_runs_sees_the_cancel(it):
    """As `asyncio.CancelledError`, in its body; then the run is canceled, with the reason."""
    seen, begun = [], []

    @step
    async def hangs() -> None:
        begun.append(1)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("body")
            raise

    @workflow
    async def works() -> None:
        await hangs()

    async with it.app(works) as app:
        run = await it(app.start(works))
        await it.until(lambda: begun)
        assert await it(run.cancel("customer left")) == "cancel_requested"
        error = await ended(it, run)
        assert (error.status, error.failure.message) == ("canceled", "customer left")
    assert seen == ["body"]


async def test_a_workflow_cleans_up_before_it_stops(it, gate):
    """Steps still run while the run is asked to stop; they are on the log like any other."""

    @step
    async def hangs() -> None:
        await gate.passed()

    @workflow
    async def works() -> None:
        try:
            await hangs()
        except asyncio.CancelledError:
            await note("refunded")
            await sleep("5ms")
            await note("told the customer")
            raise

    async with it.app(works) as app:
        run = await it(app.start(works))
        await it.until(gate.reached)
        await it(run.cancel())
        assert (await ended(it, run)).status == "canceled"
        assert steps_of(await it.all(run.events())) == ["note", "sleep", "note#2"]


async def test_work_that_was_done_first_keeps_its_success(it, gate):
    """A workflow that swallows the request and returns has succeeded; the request stays on it."""

    @step
    async def hangs() -> None:
        await gate.passed()

    @workflow
    async def stubborn() -> str:
        try:
            await hangs()
        except asyncio.CancelledError:
            return await note("done all the same")

    async with it.app(stubborn) as app:
        run = await it(app.start(stubborn))
        await it.until(gate.reached)
        await it(run.cancel("please"))
        assert await it(run.result()) == "done all the same"
        record = await it(run.record())
    assert (record.status, record.cancel_requested, record.cancel_reason) == (
        "succeeded",
        True,
        "please",
    )


async def test_a_workflow_that_fails_while_it_cleans_up_has_failed(it, gate):
    """Its own error says more than that it was asked to stop."""

    @workflow
    async def works() -> None:
        try:
            await gate.passed()
        except asyncio.CancelledError:
            raise ValueError("the refund was declined") from None

    async with it.app(works) as app:
        run = await it(app.start(works))
        await it.until(gate.reached)
        await it(run.cancel())
        assert (await ended(it, run)).status == "failed"


async def test_when_the_grace_is_over_the_run_is_canceled_all_the_same(it, gate):
    """A step on a thread cannot be stopped; what it reports afterwards is refused."""
    after = Gate()

    @step
    def deaf() -> str:
        gate.wait()
        return "late"

    @workflow
    async def works() -> None:
        try:
            await deaf()
        except asyncio.CancelledError:
            await after.passed()
            await note("not any more")

    async with it.app(works) as app:
        run = await it(app.start(works))
        await it.until(gate.reached)
        assert await it(run.cancel(grace="30ms")) == "cancel_requested"
        assert (await ended(it, run)).status == "canceled"
        after.open()
        gate.open()
        assert "note" not in steps_of(await it.all(run.events()))


async def test_a_run_is_asked_once(it, gate):
    """A second request changes nothing, and does not interrupt the cleaning up."""
    begun = Gate()

    @workflow
    async def works() -> str:
        try:
            await begun.passed()
        except asyncio.CancelledError:
            await gate.passed()
            return await note("cleaned")

    async with it.app(works) as app:
        run = await it(app.start(works))
        await it.until(begun.reached)
        await it(run.cancel("first"))
        await it.until(gate.reached)
        assert await it(run.cancel("second")) == "cancel_requested"
        gate.open()
        assert await it(run.result()) == "cleaned"
        assert (await it(run.record())).cancel_reason == "first"


async def test_a_run_that_is_over_refuses(it):
    """With its word, and that nothing is possible any more."""

    @workflow
    async def quick() -> int:
        return 1

    async with it.app(quick) as app:
        run = await it(app.start(quick))
        await it(run.result())
        with pytest.raises(NotAllowed, match="is succeeded; 'Cancel' is not possible") as refused:
            await it(run.cancel())
        assert refused.value.allowed == ()


@pytest.mark.parametrize("what", ["approval", "signal", "sleep"])
async def test_a_run_that_is_asked_to_stop_waits_for_nothing(it, gate, what):
    """Its grace is short and nobody would answer: where it would wait it is cancelled again."""
    wait = {
        "approval": lambda: approval("really?"),
        "signal": lambda: wait_for("go"),
        "sleep": lambda: sleep("1h"),
    }[what]

    @workflow
    async def works() -> None:
        try:
            await gate.passed()
        except asyncio.CancelledError:
            await note("asks")
            await wait()

    async with it.app(works) as app:
        run = await it(app.start(works))
        await it.until(gate.reached)
        await it(run.cancel())
        assert (await ended(it, run)).status == "canceled"
        events = await it.all(run.events())
    assert steps_of(events) == ["note"]
    assert "step.waiting" not in [event.type for event in events]


async def test_every_branch_of_a_run_is_told(it):
    """Each may clean up; the run ends when all have."""
    cleaned = []

    async def branch(name: str) -> None:
        try:
            await wait_for(name)
        finally:
            cleaned.append(name)

    @step
    async def hangs() -> None:
        await asyncio.Event().wait()

    @workflow
    async def works() -> None:
        await gather(branch("a"), branch("b"), hangs())

    async with it.app(works) as app:
        run = await it(app.start(works))
        await it.sees(run.record, lambda now: len(now.steps) == 2)
        await it(run.cancel())
        assert (await ended(it, run)).status == "canceled"
    assert sorted(cleaned) == ["a", "b"]


async def test_a_workflow_that_cancels_itself_has_failed(it):
    """Nobody has asked it to stop, so it is an accident, and says so."""

    @workflow
    async def works() -> None:
        raise asyncio.CancelledError

    async with it.app(works) as app:
        run = await it(app.start(works))
        error = await ended(it, run)
    assert (error.status, error.code) == ("failed", "CANCELED_ITSELF")


# requests that cross with something on its way


def crossing(app, state, command):
    """Give a command to a run the moment it has come into a state, before anybody can look."""

    def listens(changes):
        for change in changes:
            if change.run.state == state and change.run.asked is None:
                tenant, run_id = change.key
                listening.append(app.writer)
                app.writer._put(Do(tenant, run_id, command, "somebody"), _Nobody(), None)

    listening = []
    app.writer.door.listeners.append(listens)


class _Nobody:
    """Waits for no answer."""

    def done(self) -> bool:
        return True


async def test_a_cancel_that_crosses_with_the_claim_is_heard(it):
    """The run was claimed and not yet in hand: its workflow begins, and is told."""

    @workflow
    async def works() -> None:
        await asyncio.Event().wait()

    async with it.app(works) as app:
        crossing(app, "running", c.Cancel("crossed"))
        run = await it(app.start(works))
        error = await ended(it, run)
        took_s = ((await it(run.record())).finished_at - (await it(run.record())).created_at) / 1e6
    assert (error.status, error.failure.message) == ("canceled", "crossed")
    assert took_s < 5


async def test_a_cancel_that_crosses_with_a_wait_is_heard(lasting):
    """Another process asks while the holder puts the run aside: it is told, and may clean up."""
    it, cancel = lasting, Do("default", "crossing-1", c.Cancel("crossed"), "somebody")

    @workflow
    async def works() -> str:
        await asyncio.to_thread(other.writer.call, cancel)
        try:
            await approval("pay")
        except asyncio.CancelledError:
            return await note("cleaned up")

    with it.idle_app() as other:
        async with it.app(works) as app:
            run = await it(app.start(works, run_id="crossing-1"))
            assert await it(run.result("5s")) == "cleaned up"
            assert "step.waiting" not in await it.types(run)
