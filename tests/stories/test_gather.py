"""Stories of branches side by side: with steps, with waits, and with one that fails."""

from __future__ import annotations

import pytest

from perdure import (
    Rejected,
    RunFailed,
    StepFailed,
    approval,
    gather,
    retry,
    sleep,
    step,
    wait_for,
    workflow,
)
from tests.stories.teller import Gate


@step
async def double(n: int) -> int:
    return 2 * n


@workflow
async def pays() -> list[str]:
    """Two people are asked at once."""
    return list(await gather(asks("bob"), asks("eve")))


async def asks(who: str) -> str:
    said = await approval(f"ask {who}", str)
    return f"{who} {said}"


async def test_branches_return_in_the_order_they_were_given(it):
    """Whichever is done first."""
    turns, gates = [], [Gate(), Gate(), Gate()]

    @step
    async def turn(n: int) -> int:
        if n < 2:
            await gates[n + 1].passed()
        turns.append(n)
        gates[n].open()
        return n

    @workflow
    async def three() -> list[int]:
        return list(await gather(turn(0), turn(1), turn(2)))

    async with it.app(three) as app:
        assert await it((await it(app.start(three))).result()) == [0, 1, 2]
    assert turns == [2, 1, 0]


async def test_gather_of_nothing_is_nothing(it):
    """It waits for nobody, and leaves no trace."""

    @workflow
    async def none() -> int:
        return len(await gather())

    async with it.app(none) as app:
        run = await it(app.start(none))
        assert await it(run.result()) == 0
        assert len(await it.types(run)) == 3


async def test_branches_may_have_branches(it):
    """Each in a scope of its own, so none shifts another's steps."""

    async def pair(n: int) -> int:
        return sum(await gather(double(n), double(n + 1)))

    @workflow
    async def nested() -> list[int]:
        first = await gather(pair(1), pair(10))
        return [*first, *await gather(double(100), pair(5))]

    async with it.app(nested) as app:
        run = await it(app.start(nested))
        assert await it(run.result()) == [6, 42, 200, 22]
        events = await it.all(run.events())
    steps = {event.event.step for event in events if event.type == "step.succeeded"}
    assert steps == {
        *("gather[0]/double", "gather[0]/double#2", "gather[1]/double", "gather[1]/double#2"),
        *("double", "gather#2[1]/double", "gather#2[1]/double#2"),
    }


async def test_a_branch_that_fails_cancels_the_others(it, gate):
    """Its exception is raised; what the others had begun ends, and their code may clean up."""
    cleaned = []

    @step
    async def fails() -> None:
        await gate.passed()
        raise ValueError("no")

    async def waits() -> None:
        try:
            gate.open()
            await wait_for("never")
        finally:
            cleaned.append("ended")

    @workflow
    async def both() -> str:
        try:
            await gather(waits(), fails())
        except StepFailed as failed:
            return failed.code

    async with it.app(both) as app:
        run = await it(app.start(both))
        assert await it(run.result()) == "ValueError"
        assert "step.canceled" in await it.types(run)
    assert cleaned == ["ended"]


async def test_a_run_whose_branch_fails_has_failed(it):
    """When the workflow does not catch it; nothing of the other branches is left open."""

    @step
    async def fails() -> None:
        raise ValueError("no")

    @workflow
    async def both() -> None:
        await gather(wait_for("never"), fails(), approval("never"))

    async with it.app(both) as app:
        run = await it(app.start(both))
        with pytest.raises(RunFailed, match="ValueError: no"):
            await it(run.result())
        assert (await it(run.record())).steps == ()


@pytest.mark.parametrize("first", ["bob", "eve"])
async def test_two_approvals_side_by_side_are_answered_in_either_order(it, first):
    """The run wakes for each, and waits for the other."""
    second = {"bob": "eve", "eve": "bob"}[first]
    async with it.app(pays) as app:
        run = await it(app.start(pays))
        await it.becomes(run, "waiting")
        gates = {s.name: s.id for s in (await it(run.record())).steps}
        assert set(gates) == {"ask bob", "ask eve"}
        assert await it(run.approve(gates[f"ask {first}"], "yes"))
        await it.becomes(run, "waiting")
        assert await it(run.approve(gates[f"ask {second}"], "no"))
        assert sorted(await it(run.result())) == sorted([f"{first} yes", f"{second} no"])


async def test_two_answers_at_once_are_both_heard(it):
    """Neither is lost, whoever of them wakes the run."""
    async with it.app(pays) as app:
        run = await it(app.start(pays))
        await it.becomes(run, "waiting")
        for gate in [s.id for s in (await it(run.record())).steps]:
            assert await it(run.approve(gate, "yes"))
        assert await it(run.result()) == ["bob yes", "eve yes"]


async def test_a_wait_beside_a_step_that_runs(it, gate):
    """The run stays in hand; the answer reaches the branch while the other goes on."""

    @step
    def slow() -> str:
        gate.wait()
        return "done"

    @workflow
    async def both() -> list[str]:
        return list(await gather(slow(), wait_for("go", str)))

    async with it.app(both) as app:
        run = await it(app.start(both))
        await it.until(gate.reached)
        await it(run.signal("go", "went"))
        gate.open()
        assert await it(run.result()) == ["done", "went"]
        assert "run.waiting" not in await it.types(run)


async def test_a_sleep_beside_a_step(it, gate, hasty):
    """A sleep whose time comes while the run is held ends there, without a sweep."""

    @step
    def slow() -> str:
        gate.wait()
        return "done"

    async def naps() -> str:
        await sleep("30ms")
        gate.open()
        return "slept"

    @workflow
    async def both() -> list[str]:
        return list(await gather(slow(), naps()))

    async with it.app(both) as app:
        run = await it(app.start(both))
        assert await it(run.result()) == ["done", "slept"]
        types = await it.types(run)
    assert ("run.waiting" in types, types.count("run.claimed")) == (False, 0)


async def test_a_backoff_beside_a_wait(it):
    """The run waits for both; whichever comes first, the other is not forgotten."""
    tries = []

    @step(retry=retry(1, first="20ms"))
    async def flaky() -> int:
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionError
        return len(tries)

    @workflow
    async def both() -> list[int]:
        return list(await gather(flaky(), wait_for("go", int)))

    async with it.app(both) as app:
        run = await it(app.start(both))
        await it.until(lambda: len(tries) == 2)
        await it(run.signal("go", 7))
        assert await it(run.result()) == [2, 7]


async def test_a_rejection_in_a_branch_ends_the_others(it):
    """As any failure does."""

    @workflow
    async def both() -> str:
        try:
            await gather(asks("bob"), asks("eve"))
        except Rejected as no:
            return f"{no.gate}: {no.note}"

    async with it.app(both) as app:
        run = await it(app.start(both))
        await it.becomes(run, "waiting")
        gates = {s.name: s.id for s in (await it(run.record())).steps}
        assert await it(run.reject(gates["ask eve"], "too dear"))
        assert await it(run.result()) == f"{gates['ask eve']}: too dear"
        assert (await it(run.record())).steps == ()
