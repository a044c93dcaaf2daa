"""Stories of steps: performed in order, remembered, typed, tried again, given up."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import threading
from typing import Any

import msgspec
import pytest

from perdure import RunFailed, StepFailed, gather, retry, step, wait_for, workflow
from perdure.core.limits import PAYLOAD_BYTES


class Order(msgspec.Struct):
    """What is bought."""

    item: str
    count: int = 1


@dataclasses.dataclass
class Receipt:
    """What was paid, and for what."""

    order: Order
    total: float


@step
async def double(n: int) -> int:
    return 2 * n


@step
async def charge(order: Order, *, each: float) -> Receipt:
    assert isinstance(order, Order)
    return Receipt(order, order.count * each)


@workflow
async def purchase(order: Order, each: float = 2.5) -> Receipt:
    receipt = await charge(order, each=each)
    assert isinstance(receipt, Receipt)
    return receipt


@workflow
async def five(n: int) -> int:
    for _ in range(5):
        n = await double(n)
    return n


async def test_five_steps_in_order(it):
    """Each is started and succeeds once, and the last one's result is the run's."""
    async with it.app(five) as app:
        run = await it(app.start(five, 1))
        assert await it(run.result()) == 32
        steps = [e.event.step for e in await it.all(run.events()) if e.type == "step.succeeded"]
    assert steps == ["double", "double#2", "double#3", "double#4", "double#5"]


async def test_arguments_and_results_are_typed(it):
    """Structs and dataclasses go in and come out as what they are declared to be."""
    async with it.app(purchase) as app:
        result = await it((await it(app.start(purchase, Order("tea", 4)))).result())
    assert result == Receipt(Order("tea", 4), 10.0)


async def test_a_run_may_be_started_with_plain_values(it):
    """As a program in another language would: they are read as the declared type."""
    async with it.app(purchase) as app:
        run = await it(app.start(purchase, {"item": "tea"}, each=3))
        assert await it(run.result()) == Receipt(Order("tea", 1), 3.0)


async def test_pydantic_models_are_arguments_and_results_too(it):
    """Of a workflow and of its steps."""
    pydantic = pytest.importorskip("pydantic")
    draft = pydantic.create_model("Draft", text=(str, ...))

    async def edit(it):
        assert isinstance(it, draft)
        return draft(text=it.text.upper())

    edit.__annotations__ = {"it": draft, "return": draft}
    edited = step(edit)

    async def publish(it):
        return await edited(it)

    publish.__annotations__ = {"it": draft, "return": draft}
    published = workflow(publish)
    async with it.app(published) as app:
        assert await it((await it(app.start(published, draft(text="a")))).result()) == draft(
            text="A"
        )


async def test_a_step_that_fails_is_tried_again(it):
    """Later each time; its other tries stay on the log, and the workflow sees one result."""
    tries = []

    @step(retry=retry(3, on=ConnectionError, first="5ms"))
    async def flaky() -> str:
        tries.append(step.key)
        if len(tries) < 3:
            raise ConnectionError("no route")
        return "here"

    @workflow
    async def calls() -> str:
        return await flaky()

    async with it.app(calls) as app:
        run = await it(app.start(calls))
        assert await it(run.result()) == "here"
        types = await it.types(run)
    assert types[2:-1] == [
        *("step.started", "step.retry_scheduled") * 2,
        *("step.started", "step.succeeded"),
    ]
    assert len(set(tries)) == 1


async def test_a_step_that_is_out_of_retries_fails(it):
    """The workflow may catch it; if it does not, the run has failed with the same code."""

    @step(retry=retry(2, first="1ms"))
    async def hopeless() -> None:
        raise ConnectionError("no route")

    @workflow
    async def calls() -> None:
        with pytest.raises(StepFailed, match="'hopeless' failed: ConnectionError: no route") as no:
            await hopeless()
        raise no.value

    async with it.app(calls) as app:
        run = await it(app.start(calls))
        with pytest.raises(RunFailed) as failed:
            await it(run.result())
        assert (failed.value.code, failed.value.status) == ("ConnectionError", "failed")
        assert (await it.types(run)).count("step.retry_scheduled") == 2


async def test_only_the_exceptions_that_were_named_are_tried_again(it):
    """Any other is final at once."""

    @step(retry=retry(5, on=ConnectionError))
    async def wrong() -> None:
        raise ValueError("never right")

    @workflow
    async def calls() -> None:
        await wrong()

    async with it.app(calls) as app:
        run = await it(app.start(calls))
        with pytest.raises(RunFailed, match="ValueError: never right"):
            await it(run.result())


async def test_an_error_may_bring_its_own_code(it):
    """For programs; the message stays for people, made harmless."""

    class Declined(Exception):
        code = "DECLINED"

    @step
    async def pay() -> None:
        raise Declined("no \x00 funds")

    @workflow
    async def calls() -> str:
        try:
            await pay()
        except StepFailed as failed:
            return f"{failed.code}: {failed.failure.message}"

    async with it.app(calls) as app:
        result = await it((await it(app.start(calls))).result())
    assert result == "DECLINED: no \N{REPLACEMENT CHARACTER} funds"


async def test_a_step_that_takes_too_long_fails(it):
    """Its code says so; the body has seen that it was cancelled."""
    ended = []

    @step(timeout="20ms")
    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cleaned up")

    @workflow
    async def calls() -> str:
        try:
            await slow()
        except StepFailed as failed:
            return failed.code

    async with it.app(calls) as app:
        assert await it((await it(app.start(calls))).result()) == "TIMEOUT"
    assert ended == ["cleaned up"]


async def test_a_timeout_of_the_steps_own_is_its_own(it):
    """What its body meets is not what it is declared with."""

    @step(timeout="5s")
    async def asks() -> None:
        raise TimeoutError("the bank is closed")

    @workflow
    async def calls() -> str:
        try:
            await asks()
        except StepFailed as failed:
            return failed.failure.message

    async with it.app(calls) as app:
        assert await it((await it(app.start(calls))).result()) == "the bank is closed"


async def test_a_blocking_step_runs_on_a_thread(it):
    """So that it holds up nobody else; step.key is there too."""

    @step
    def where() -> list[str]:
        return [threading.current_thread().name, step.key]

    @workflow
    async def calls() -> list[str]:
        here = threading.current_thread().name
        there, key = await where()
        return [str(here != there), key]

    async with it.app(calls) as app:
        apart, key = await it((await it(app.start(calls))).result())
    assert (apart, len(key)) == ("True", 32)


async def test_a_step_in_a_step_is_a_part_of_it(it):
    """There it is just the function, and leaves nothing on the log."""

    @step
    async def outer(n: int) -> int:
        return await double(await double(n))

    @workflow
    async def calls() -> int:
        return await outer(1)

    async with it.app(calls) as app:
        run = await it(app.start(calls))
        assert await it(run.result()) == 4
        assert (await it.types(run)).count("step.succeeded") == 1


async def test_a_result_that_is_too_large_fails_its_step(it):
    """By the limit's name, at once: the same value would be too large again."""

    @step(retry=retry(5))
    async def large() -> str:
        return "x" * PAYLOAD_BYTES

    @workflow
    async def calls() -> None:
        await large()

    async with it.app(calls) as app:
        run = await it(app.start(calls))
        with pytest.raises(RunFailed, match="LimitExceeded: bytes of a payload is 1048576") as no:
            await it(run.result())
        assert "(the result of 'large')" in no.value.failure.message


async def test_a_result_that_is_not_json_fails_its_step(it):
    """With the place and the type."""

    @step
    async def odd() -> Any:
        return object()

    @workflow
    async def calls() -> None:
        await odd()

    async with it.app(calls) as app:
        run = await it(app.start(calls))
        with pytest.raises(RunFailed, match="BadPayload: the result of 'odd': object is not JSON"):
            await it(run.result())


async def test_a_result_is_what_a_replay_would_see(it):
    """A tuple without a declared type is a list from the first moment on."""

    @step
    async def pair():
        return 1, {2: "two"}

    @workflow
    async def calls() -> bool:
        return await pair() == [1, {"2": "two"}]

    async with it.app(calls) as app:
        assert await it((await it(app.start(calls))).result()) is True


async def test_a_workflow_that_raises_has_failed(it):
    """Its error is the run's: code, message, and the status in the exception."""

    @workflow
    async def broken() -> None:
        raise ValueError("out of tea")

    async with it.app(broken) as app:
        run = await it(app.start(broken))
        with pytest.raises(RunFailed) as failed:
            await it(run.result())
        assert str(failed.value) == f"run {run.id} failed: ValueError: out of tea"
        assert (failed.value.run_id, failed.value.code) == (run.id, "ValueError")
        assert await it(run.status()) == "failed"


async def test_a_workflow_whose_result_cannot_be_stored_has_failed(it):
    """Nothing is pretended: the place and the reason are its error."""

    @workflow
    async def odd() -> Any:
        return {"a": float("nan")}

    async with it.app(odd) as app:
        with pytest.raises(RunFailed, match=r"the result of 'odd'.a: nan is not JSON"):
            await it((await it(app.start(odd))).result())


async def test_asyncios_own_gather_works_on_steps(it):
    """A step has its place when it is called, not when it is awaited."""

    @workflow
    async def both() -> list[int]:
        return list(await asyncio.gather(double(1), double(2)))

    async with it.app(both) as app:
        run = await it(app.start(both))
        assert await it(run.result()) == [2, 4]
        events = await it.all(run.events())
    outputs = {e.event.step: bytes(e.event.output) for e in events if e.type == "step.succeeded"}
    assert outputs == {"double": b"2", "double#2": b"4"}


async def test_a_step_from_a_task_of_its_own_is_refused(it):
    """Its place would depend on timing; the message shows how it is done."""

    async def branch() -> int:
        return await double(1)

    @workflow
    async def careless() -> int:
        return await asyncio.create_task(branch())

    async with it.app(careless) as app:
        with pytest.raises(RunFailed, match=r"NotInRun: 'double' was called from a task") as failed:
            await it((await it(app.start(careless))).result())
    assert "await gather(fetch(1), fetch(2))" in failed.value.failure.message


async def test_branches_with_steps_go_into_gather(it):
    """The same branch as above, given a place."""

    async def branch(n: int) -> int:
        return await double(await double(n))

    @workflow
    async def careful() -> list[int]:
        return list(await gather(branch(1), branch(2)))

    async with it.app(careful) as app:
        run = await it(app.start(careful))
        assert await it(run.result()) == [4, 8]
        record = await it.all(run.events())
    assert {e.event.step for e in record if e.type == "step.succeeded"} == {
        f"gather[{n}]/{name}" for n in (0, 1) for name in ("double", "double#2")
    }


async def test_a_run_that_never_ends_meets_a_limit(it, monkeypatch):
    """A loop that forgot to stop is told by name, instead of filling the disk."""
    monkeypatch.setattr("perdure.core.decide.EVENTS_OF_A_RUN", 30)

    @workflow
    async def loops() -> None:
        while True:
            await double(1)

    async with it.app(loops) as app:
        run = await it(app.start(loops))
        with pytest.raises(RunFailed, match="LimitExceeded: events of a run is 30; this would be"):
            await it(run.result())


async def test_branches_have_a_limit(it, monkeypatch):
    """So many steps and waits may be open at once; the refusal names the one too many."""
    monkeypatch.setattr("perdure.core.decide.OPEN_STEPS", 3)

    @workflow
    async def wide() -> None:
        await gather(*[wait_for(f"signal {n}") for n in range(9)])

    async with it.app(wide) as app:
        run = await it(app.start(wide))
        with pytest.raises(RunFailed, match=r"open steps of a run is 3; this would be 4 \(gather"):
            await it(run.result())


@pytest.fixture
def watched(monkeypatch):
    """Every body counts as a long one: its start is recorded as soon as somebody looks."""
    monkeypatch.setattr("perdure.worker.START_VISIBLE_AFTER_S", 0.0)


async def test_a_step_that_runs_for_long_is_seen(it, gate, watched):
    """Its start is recorded on its own while it runs, and its end later, in another command."""

    @step
    async def slow() -> str:
        await gate.passed()
        return "done"

    @workflow
    async def works() -> str:
        return await slow()

    async with it.app(works) as app:
        run = await it(app.start(works))
        record = await it.sees(run.record, lambda now: now.steps)
        assert [(s.id, s.state, s.attempts) for s in record.steps] == [("slow", "running", 1)]
        assert (await it(run.explain())).doing == ("slow",)
        gate.open()
        assert await it(run.result()) == "done"
        events = [e for e in await it.all(run.events()) if e.type.startswith("step")]
    assert [event.type for event in events] == ["step.started", "step.succeeded"]
    assert events[0].command_id != events[1].command_id


async def test_a_step_that_was_seen_ends_with_its_branch(it, gate, watched):
    """A failing branch cancels it; nothing is left open while the run goes on."""

    @step
    async def slow() -> None:
        await asyncio.Event().wait()

    @step
    async def fails() -> None:
        await gate.passed()
        raise ValueError("no")

    @workflow
    async def works() -> str:
        with contextlib.suppress(StepFailed):
            await gather(slow(), fails())
        return await wait_for("go", str)

    async with it.app(works) as app:
        run = await it(app.start(works))
        await it.sees(run.record, lambda now: len(now.steps) == 2)
        gate.open()
        record = await it.sees(run.record, lambda now: now.status == "waiting")
        assert [s.id for s in record.steps] == ["go"]
        canceled = [e.event.step for e in await it.all(run.events()) if e.type == "step.canceled"]
        assert canceled == ["slow"]
        await it(run.signal("go", "went"))
        assert await it(run.result()) == "went"
