"""Stories of runs that change hands: drained, lost, taken over, shared, and met by newer code."""

from __future__ import annotations

import pytest

from perdure import RunFailed, StepFailed, approval, gather, retry, sleep, step, wait_for, workflow
from perdure.core import commands as c
from perdure.core.errors import LostLease
from perdure.engine.asks import Beat, Do, Sweep
from perdure.store import Worker
from tests.stories.teller import Clock

BODIES: list[str] = []


@pytest.fixture(autouse=True)
def bodies():
    """The bodies that have run, in this process, in this test."""
    BODIES.clear()
    return BODIES


@pytest.fixture
def restless(monkeypatch):
    """A worker that looks after its lease often, and so learns soon that it was lost."""
    monkeypatch.setattr("perdure.worker.BEAT_S", 0.02)


@step
async def body(name: str) -> str:
    BODIES.append(name)
    return name


@step
async def fails(name: str) -> str:
    BODIES.append(name)
    raise ValueError(name)


def loses(app, worker):
    """Let a worker's lease be past, and let its successors find that out."""
    past = Beat(Worker(worker, "late", "host", 1, 0, lease_until=0))
    lost = ()
    while worker not in lost:  # its own beat may have come between the two
        app.writer.call(past)
        lost = app.writer.call(Sweep("somebody else", 100)).lost


# in good order


async def test_a_run_that_was_given_back_goes_on_elsewhere(lasting, bodies):
    """What was done is not done again: the other app reads it from the log."""
    it = lasting

    @workflow
    async def three() -> list[str]:
        done = [await body("one"), await body("two")]
        await approval("go on")
        return [*done, await body("three")]

    async with it.app(three) as app:
        run = await it(app.start(three))
        await it.becomes(run, "waiting")
    async with it.app(three) as app:
        run = await it(app.get(run.id))
        assert await it(run.approve()) is True
        assert await it(run.result()) == ["one", "two", "three"]
        workers = {
            event.actor for event in await it.all(run.events()) if event.type == "run.claimed"
        }
    assert bodies == ["one", "two", "three"]
    assert len(workers) == 1


async def test_an_app_that_closes_lets_a_body_end_and_gives_the_run_back(lasting, gate, bodies):
    """What the body returned is recorded, and the next step begins elsewhere."""
    it = lasting

    @step
    def slow() -> str:
        gate.wait()
        return "slow"

    @workflow
    async def two() -> list[str]:
        return [await slow(), await body("next")]

    async with it.app(two) as app:
        run = await it(app.start(two))
        await it.until(gate.reached)
        app.drain()
        gate.open()
    assert bodies == []
    async with it.app(two) as app:
        run = await it(app.get(run.id))
        assert await it(run.result()) == ["slow", "next"]
        types = await it.types(run)
    assert types.count("step.started") == 2
    assert types.count("run.released") == 1
    assert "run.interrupted" not in types


async def test_a_body_that_does_not_end_is_given_back_with_its_run(lasting, gate, bodies):
    """It is cancelled where it stands, runs again elsewhere, and its start does not count."""
    it = lasting
    ended = []

    @step
    async def hangs() -> str:
        try:
            await gate.passed()
        finally:
            ended.append(1)
        return step.key

    @workflow
    async def one() -> str:
        return await hangs()

    async with it.app(one) as app:
        run = await it(app.start(one))
        await it.until(gate.reached)
        app.abort()
    assert ended == [1]
    gate.open()
    async with it.app(one) as app:
        run = await it(app.get(run.id))
        assert len(await it(run.result())) == 32
        assert (await it(run.record())).losses == 0


async def test_a_retry_that_is_due_later_is_tried_by_whoever_is_there_then(lasting, bodies):
    """The failure was counted, and the moment was fixed, when the step failed."""
    it, clock = lasting, Clock()

    @step(retry=retry(3, first="1h", jitter=0.0))
    async def flaky() -> int:
        BODIES.append("try")
        if len(BODIES) < 2:
            raise ConnectionError
        return len(BODIES)

    @workflow
    async def one() -> int:
        return await flaky()

    async with it.app(one, surroundings=clock.surroundings()) as app:
        run = await it(app.start(one))
        record = await it.sees(run.record, lambda now: now.steps and not now.worker)
        assert record.claim_at == record.steps[0].next_run_at
        assert (record.status, record.steps[0].failures) == ("queued", 1)
    clock.passes(3600)
    async with it.app(one, surroundings=clock.surroundings()) as app:
        run = await it(app.get(run.id))
        assert await it(run.result()) == 2
        tried = [e.event for e in await it.all(run.events()) if e.type == "step.started"]
    assert [event.attempts for event in tried] == [1, 2]


# lost


async def test_a_worker_that_was_found_dead_is_gone(it, gate, restless):
    """Its workflow unwinds, and nothing it does in `finally` is accepted; then it runs anew."""
    unwound = []

    @step
    async def hangs() -> str:
        BODIES.append("begun")
        await gate.passed()
        return "done"

    @workflow
    async def works() -> str:
        try:
            return await hangs()
        except Exception:
            unwound.append("handled")
            raise
        finally:
            try:
                await body("compensation")
            except BaseException as gone:
                unwound.append(type(gone).__name__)
                raise

    async with it.app(works) as app:
        run = await it(app.start(works))
        await it.until(gate.reached)
        before = await it(run.record())
        loses(app, before.worker)
        await it.until(lambda: unwound)
        gate.open()
        assert await it(run.result()) == "done"
        after = await it(run.record())
        types = await it.types(run)
    assert unwound == ["Gone"]
    assert after.token == before.token + 1
    assert types.count("run.interrupted") == 1
    assert BODIES == ["begun", "begun", "compensation"]


async def test_the_successor_of_a_dead_worker_has_another_name(it, gate, restless):
    """The old one's reports are refused for ever, whoever sends them."""

    @workflow
    async def works() -> str:
        await gate.passed()
        return "done"

    async with it.app(works) as app:
        run = await it(app.start(works))
        await it.until(gate.reached)
        before = await it(run.record())
        loses(app, before.worker)
        gate.open()
        assert await it(run.result()) == "done"
        names = [e.event.worker for e in await it.all(run.events()) if e.type == "run.started"]
        stale = Do("default", run.id, c.Release(before.token), before.worker)
        with pytest.raises(LostLease):
            app.writer.call(stale)
    assert names[0] == before.worker != names[1]


async def test_a_loss_uses_up_no_retry(it, gate, restless):
    """A step of a lost owner is reclaimed: the start counts, a failure does not."""

    @step
    async def hangs() -> str:
        BODIES.append("begun")
        await gate.passed()
        return "done"

    @workflow
    async def works() -> str:
        return await hangs()

    async with it.app(works) as app:
        run = await it(app.start(works))
        await it.until(gate.reached)
        worker = (await it(run.record())).worker
        token = (await it(run.record())).token
        app.writer.call(Do("default", run.id, c.StartStep(token, c.Call("hangs"), 1), worker))
        loses(app, worker)
        await it.until(lambda: len(BODIES) == 2)
        gate.open()
        assert await it(run.result()) == "done"
        (again,) = [e.event for e in await it.all(run.events()) if e.type == "step.reclaimed"]
        assert (again.attempts, (await it(run.record())).losses) == (2, 0)


# when the store fails


async def test_a_store_that_fails_for_a_moment_fails_no_run(it, monkeypatch, bodies, caplog):
    """What is on record is unknown then: the run is put down, and begun anew from its log."""

    @workflow
    async def works() -> list[str]:
        return [await body("first"), await body("second")]

    async with it.app(works) as app:
        begin = app.store.begin

        def begins_badly():
            if bodies == ["first", "second"] and "is put down" not in caplog.text:
                raise OSError("no space left")
            return begin()

        monkeypatch.setattr(app.store, "begin", begins_badly)
        run = await it(app.start(works))
        assert await it(run.result()) == ["first", "second"]
        types = await it.types(run)
    assert bodies == ["first", "second", "second"]
    assert (types.count("step.started"), types.count("run.failed")) == (2, 0)


# shared


async def test_two_apps_share_the_work(lasting, gate):
    """What one has no room for the other takes; both see all of it."""
    it = lasting

    @workflow
    async def works(n: int) -> int:
        await gate.passed()
        return n

    async with it.app(works, at_most=1) as one, it.app(works, at_most=1):
        runs = [await it(one.start(works, n)) for n in range(3)]
        held = await it.sees(lambda: one.runs(status="running"), lambda now: len(now) == 2)
        holders = {record.worker for record in held}
        gate.open()
        assert [await it(run.result()) for run in runs] == [0, 1, 2]
    assert len(holders) == 2


async def test_what_one_app_says_the_other_hears(lasting, gate):
    """A signal, an approval and a cancel reach the run that another process holds."""
    it = lasting

    @step
    async def hangs() -> None:
        await gate.passed()

    @workflow
    async def works() -> str:
        return await wait_for("go", str)

    @workflow
    async def stops() -> None:
        await hangs()

    with it.idle_app(works, stops) as asker:
        async with it.app(works, stops):
            first, second = await it(asker.start(works)), await it(asker.start(stops))
            await it.becomes(first, "waiting")
            await it.until(gate.reached)
            assert await it(first.signal("go", "went")) is True
            assert await it(second.cancel("enough")) == "cancel_requested"
            assert await it(first.result()) == "went"
            with pytest.raises(RunFailed, match="canceled"):
                await it(second.result())


async def test_an_app_takes_only_workflows_it_knows(lasting):
    """A run of another's waits for that other."""
    it = lasting

    @workflow
    async def known() -> str:
        return "done"

    @workflow
    async def unknown() -> str:
        return "done"

    with it.idle_app(unknown) as asker:
        waiting = await it(asker.start(unknown))
        async with it.app(known) as app:
            assert await it((await it(app.start(known))).result()) == "done"
            assert await it(waiting.status()) == "queued"
        async with it.app(known, unknown):
            assert await it(waiting.result()) == "done"


# newer code


async def test_a_step_that_was_put_in_shifts_no_other(lasting, bodies):
    """The second version of a workflow goes on with what the first one has done."""
    it = lasting

    @workflow(name="order")
    async def first() -> list[str]:
        done = [await body("pay")]
        await approval("ship it")
        return [*done, await body("ship")]

    @workflow(name="order")
    async def second() -> list[str]:
        done = [await step(name="check")(body.fn)("check"), await body("pay")]
        await approval("ship it")
        return [*done, await body("ship")]

    async with it.app(first) as app:
        run = await it(app.start(first))
        await it.becomes(run, "waiting")
    async with it.app(second) as app:
        run = await it(app.get(run.id))
        await it(run.approve("ship it"))
        assert await it(run.result()) == ["check", "pay", "ship"]
    assert bodies == ["pay", "check", "ship"]


async def test_arguments_that_changed_are_shown_and_not_punished(lasting, bodies, caplog):
    """The result that was recorded stays the result."""
    it = lasting
    amounts = iter(["10 EUR", "12 EUR"])

    @workflow
    async def order() -> str:
        paid = await body(next(amounts))
        await approval("ship it")
        return paid

    async with it.app(order) as app:
        run = await it(app.start(order))
        await it.becomes(run, "waiting")
        await it(run.approve())
        assert await it(run.result()) == "10 EUR"
    assert bodies == ["10 EUR"]
    assert (
        f"run {run.id}: step 'body' is remembered, though it was called with other" in caplog.text
    )


async def test_a_failure_is_remembered_like_a_result(it, bodies):
    """After a wait the workflow meets the same exception again, and its body does not run."""

    @workflow
    async def order() -> str:
        try:
            await fails("pay")
        except StepFailed as failed:
            await approval("go on all the same")
            return f"{failed.code} {failed.failure.message}"

    async with it.app(order) as app:
        run = await it(app.start(order))
        await it.becomes(run, "waiting")
        await it(run.approve())
        assert await it(run.result()) == "ValueError pay"
    assert bodies == ["pay"]


async def test_branches_remember_their_own(it, bodies, hasty):
    """Side by side, each with a wait in its middle: every body runs once."""

    async def branch(name: str) -> str:
        first = await body(f"{name} first")
        await sleep("30ms")
        return f"{first}, {await body(f'{name} second')}"

    @workflow
    async def order() -> list[str]:
        return list(await gather(branch("a"), branch("b"), branch("c")))

    async with it.app(order) as app:
        result = await it((await it(app.start(order))).result())
    assert result == [f"{name} first, {name} second" for name in "abc"]
    assert sorted(bodies) == sorted(
        f"{name} {nth}" for name in "abc" for nth in ("first", "second")
    )
