"""Stories of the app itself: keys and ids, beginnings and ends, and what it refuses."""

from __future__ import annotations

import asyncio
import logging

import pytest

from perdure import App, RunFailed, step, workflow
from perdure.core.errors import (
    BadName,
    BadPayload,
    Closed,
    KeyTaken,
    NotInRun,
    RunExists,
    StoreError,
)
from perdure.core.limits import NAME_CHARACTERS


@step
async def double(n: int) -> int:
    return 2 * n


@workflow
async def doubles(n: int, times: int = 1) -> int:
    for _ in range(times):
        n = await double(n)
    return n


# starting


async def test_the_same_key_is_the_same_run(it):
    """Whoever asks twice, because an answer was lost, has one run."""
    async with it.app(doubles) as app:
        first = await it(app.start(doubles, 1, key="order:42"))
        again = await it(app.start(doubles, 1, key="order:42"))
        assert (first.id, first.created, again.created) == (again.id, True, False)
        assert await it(again.result()) == 2
        late = await it(app.start(doubles, 1, key="order:42"))
        assert (late.id, await it(late.result())) == (first.id, 2)
        assert len(await it(app.runs())) == 1


async def test_the_same_key_with_another_input_is_refused(it):
    """It names the run that has the key."""
    with it.idle_app(doubles) as app:
        run = await it(app.start(doubles, 1, key="order:42"))
        with pytest.raises(KeyTaken, match=f"'order:42' belongs to run {run.id}"):
            await it(app.start(doubles, 2, key="order:42"))


async def test_positional_and_named_arguments_are_one_input(it):
    """A key is not confused by how a caller writes the same call."""
    with it.idle_app(doubles) as app:
        run = await it(app.start(doubles, 1, 3, key="k"))
        again = await it(app.start(doubles, times=3, n=1, key="k"))
    assert again.id == run.id


async def test_a_run_may_have_an_id_of_its_callers(it):
    """By which it is found again; taken, it is refused."""
    async with it.app(doubles) as app:
        run = await it(app.start(doubles, 1, run_id="order-42:refund_1.a"))
        assert run.id == "order-42:refund_1.a"
        assert await it(app.result("order-42:refund_1.a")) == 2
        with pytest.raises(RunExists, match=r"run 'order-42:refund_1\.a' exists"):
            await it(app.start(doubles, 1, run_id="order-42:refund_1.a"))


@pytest.mark.parametrize(
    "run_id",
    ["short", "-order-42", "order 42!", "ordér-0042", "x" * 129, "order/42", "", "a\nb" * 4],
)
async def test_an_id_that_cannot_be_one_is_refused(it, run_id):
    """With what it may be made of, before anything is asked of the store."""
    with it.idle_app(doubles) as app:
        with pytest.raises(BadName, match="8 to 128 letters, digits or"):
            await it(app.start(doubles, 1, run_id=run_id))
        assert await it(app.runs()) == []


@pytest.mark.parametrize("key", ["", " ", "x" * (NAME_CHARACTERS + 1), "a\x00b"])
async def test_a_key_that_cannot_be_one_is_refused(it, key):
    """It is a name like others."""
    with it.idle_app(doubles) as app, pytest.raises(BadName, match=r"^key "):
        await it(app.start(doubles, 1, key=key))


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (((), {}), "missing a required argument: 'n'; it takes"),
        ((("one",), {}), r"Expected `int`, got `str` - at `\$.n`"),
        (((1,), {"tiems": 2}), "unexpected keyword argument 'tiems'"),
        (((1, 2, 3), {}), "too many positional arguments"),
        (((object(),), {}), "object is not JSON"),
        (((1.5,), {}), "Expected `int`, got `float`"),
    ],
)
async def test_arguments_that_do_not_fit_are_refused_at_the_start(it, arguments, why):
    """No run is created that no worker could ever read."""
    args, kwargs = arguments
    with it.idle_app(doubles) as app:
        with pytest.raises(BadPayload, match=f"the input of 'doubles': .*{why}"):
            await it(app.start(doubles, *args, **kwargs))
        assert await it(app.runs()) == []


async def test_only_a_workflow_can_be_started(it):
    """A step, or a plain function, is told from one."""
    with it.idle_app(doubles) as app:
        for other in (double, doubles.fn, "doubles"):
            with pytest.raises(BadName, match="start takes a function decorated with @workflow"):
                await it(app.start(other, 1))


async def test_the_urgent_is_claimed_first(lasting):
    """Among runs that wait for a worker, by the priority of their workflow."""
    it, order = lasting, []

    @workflow(priority=9)
    async def patient() -> None:
        order.append("patient")

    @workflow(priority=0)
    async def urgent() -> None:
        order.append("urgent")

    with it.idle_app(patient, urgent) as asker:
        runs = [await it(asker.start(w)) for w in (patient, urgent, patient, urgent)]
        async with it.app(patient, urgent, at_most=1):
            for run in runs:
                await it(run.result())
    assert order == ["urgent", "urgent", "patient", "patient"]


async def test_each_queue_has_its_worker(it):
    """Workflows of several queues in one app do not hold up each other."""

    @workflow(queue="slow")
    async def slow() -> int:
        await gate.wait()
        return 1

    @workflow(queue="fast")
    async def fast() -> int:
        gate.set()
        return 2

    gate = asyncio.Event()
    async with it.app(slow, fast, at_most=1) as app:
        first, second = await it(app.start(slow)), await it(app.start(fast))
        assert [await it(first.result()), await it(second.result())] == [1, 2]


# beginnings and ends


async def test_a_store_in_memory_says_at_the_start_that_nothing_lasts(it, caplog):
    """A file says nothing of the kind."""
    with caplog.at_level(logging.WARNING), it.idle_app():
        warned = "nothing outlives this process" in caplog.text
    assert warned == (it.url == "memory://")


async def test_an_app_that_is_at_work_cannot_be_entered_again(it):
    """The second `with` is refused, the first goes on."""
    async with it.app(doubles) as app:
        enters = app.__aenter__ if it.colour == "async" else app.__enter__
        with pytest.raises(Closed, match="this app is at work already"):
            await enters()
        assert await it((await it(app.start(doubles, 1))).result()) == 2


async def test_an_app_that_is_closed_refuses_everything(it):
    """And can be closed again."""
    with it.idle_app(doubles) as app:
        run = await it(app.start(doubles, 1))
    app.close()
    for question in (lambda: app.start(doubles, 1), run.cancel, lambda: run.signal("go")):
        with pytest.raises(Closed):
            await it(question())
    if it.url != "memory://":  # what is in memory may still be looked at
        with pytest.raises(Closed):
            await it(run.status())


async def test_an_app_at_work_that_has_nothing_to_do_ends_at_once(it):
    """With and without workflows."""
    async with it.app():
        pass
    async with it.app(doubles) as app:
        assert await it(app.runs()) == []


async def test_what_is_in_hand_is_given_back_at_the_end(lasting, gate):
    """No run is left to a worker that has gone, and no worker is left registered."""
    it = lasting

    @workflow
    async def works() -> None:
        await gate.passed()

    async with it.app(works) as app:
        runs = [await it(app.start(works)) for _ in range(5)]
        await it.until(gate.reached)
    with it.idle_app() as app:
        assert {await it(app.status(run.id)) for run in runs} == {"queued"}
        assert app.store.workers() == []


# the two colours


def test_call_does_it_all():
    """Start, work, wait, return; again on the same app, and in one that is at work already."""
    app = App("memory://", [doubles])
    assert [app.call(doubles, 1), app.call(doubles, 1, times=3), app.call(doubles, n=5)] == [
        2,
        8,
        10,
    ]
    app.close()
    with App("memory://", [doubles]) as working:
        assert working.call(doubles, 2, key="k") == working.call(doubles, 2, key="k") == 4


def test_call_raises_what_the_run_raised():
    """As `result` does; the app can be used again."""

    @workflow
    async def broken() -> None:
        raise ValueError("no")

    app = App("memory://", [broken, doubles])
    with pytest.raises(RunFailed, match="ValueError: no"):
        app.call(broken)
    assert app.call(doubles, 2) == 4
    app.close()


def test_waiting_in_an_event_loop_is_refused_with_advice():
    """It would stand still, with everything that runs on it."""
    app = App("memory://", [doubles])

    async def careless():
        with pytest.raises(NotInRun, match="write 'await' instead"):
            app.start(doubles, 1).wait()
        with pytest.raises(NotInRun, match="write 'await' instead"):
            app.call(doubles, 1)
        with pytest.raises(NotInRun, match="write 'await' instead"):
            list(app.events("run-0001"))
        return await (await app.start(doubles, 1)).status()

    assert asyncio.run(careless()) == "queued"
    app.close()


def test_an_app_may_be_asked_from_several_loops_and_threads():
    """Its answers belong to whoever asked."""
    with App("memory://", [doubles]) as app:

        async def asks(n):
            return await (await app.start(doubles, n)).result()

        async def from_a_thread(n):
            return await asyncio.to_thread(lambda: app.start(doubles, n).wait().result().wait())

        async def everybody():
            return await asyncio.gather(*map(asks, range(5)), *map(from_a_thread, range(5)))

        assert asyncio.run(everybody()) == [2 * n for n in range(5)] * 2


# where it lasts


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("mysql://host/db", "no store perdure knows; write memory:// or sqlite:///runs.db"),
        ("runs", "no store perdure knows"),
        ("sqlite://", "names no file"),
        ("sqlite:///:memory:", "names no file; write .* or memory://"),
        ("sqlite:////no/such/folder/runs.db", "the folder /no/such/folder does not exist"),
    ],
)
def test_a_url_that_names_no_store_is_refused_with_advice(url, why):
    """When the app is made, not when it is first used."""
    with pytest.raises(StoreError, match=why):
        App(url)


def test_a_file_that_is_no_database_is_refused(tmp_path):
    """And left as it is."""
    path = tmp_path / "runs.db"
    path.write_text("dear diary" * 100)
    with pytest.raises(StoreError, match="is not a SQLite database, or is damaged"):
        App(f"sqlite:///{path}")
    assert path.read_text().startswith("dear diary")


def test_who_only_looks_makes_no_file(tmp_path):
    """A wrong path is told apart from an empty store."""
    with pytest.raises(StoreError, match=r"there is no file .*runs\.db; check the URL"):
        App(f"sqlite:///{tmp_path}/runs.db", create=False)
    assert list(tmp_path.iterdir()) == []


def test_a_bare_path_is_a_file(tmp_path, monkeypatch):
    """Relative to the working directory, as other tools read it."""
    monkeypatch.chdir(tmp_path)
    app = App("runs.db", [doubles])
    assert app.call(doubles, 1) == 2
    app.close()
    again = App("sqlite:///runs.db", create=False)
    assert len(again.runs().wait()) == 1
    again.close()
