"""Stories of those who look: at one run, at its events, at many runs, and at why."""

from __future__ import annotations

from itertools import pairwise

import pytest

from perdure import App, RunFailed, approval, step, wait_for, workflow
from perdure.core.errors import BadName, NoSuchRun
from perdure.core.limits import PAGE_RUNS


@step
async def note(what: str) -> str:
    return what


@workflow
async def asks() -> str:
    await note("before")
    await approval("release payment", shows={"eur": 120}, within="48h")
    return await note("after")


@workflow
async def waits() -> None:
    await wait_for("go")


@workflow
async def quick(n: int) -> int:
    return n


# one run


async def test_a_record_is_the_run_as_it_is_now(it):
    """Its word, who holds it, what it waits for; and the same through the app, by its id."""
    async with it.app(asks) as app:
        run = await it(app.start(asks, trace_id="trace-1"))
        await it.becomes(run, "waiting")
        record = await it(run.record())
        assert (record.id, record.workflow, record.trace_id) == (run.id, "asks", "trace-1")
        assert (record.status, record.worker, record.token) == ("waiting", None, 1)
        (gate,) = record.steps
        assert (gate.name, gate.kind, gate.state) == ("release payment", "approval", "waiting")
        assert await it(app.status(run.id)) == "waiting"


async def test_a_run_that_is_not_there(it):
    """Every question about it is refused with its id."""
    async with it.app(asks) as app:
        for question in (app.get, app.status, app.explain, app.cancel, app.approve, app.reject):
            with pytest.raises(NoSuchRun, match="there is no run 'no-such-run'"):
                await it(question("no-such-run"))
        with pytest.raises(NoSuchRun):
            await it(app.result("no-such-run", "1s"))
        with pytest.raises(NoSuchRun):
            await it.all(app.events("no-such-run"))


async def test_events_are_numbered_without_gaps(it):
    """From the creation to the end, each with what was before and after it."""
    async with it.app(asks) as app:
        run = await it(app.start(asks))
        await it.becomes(run, "waiting")
        await it(run.approve(by="bob"))
        await it(run.result())
        events = await it.all(run.events())
        assert await it.all(run.events(after=5)) == events[5:]
        assert await it.all(app.events(run.id)) == events
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert all(one.after == next_one.before for one, next_one in pairwise(events))
    assert (events[0].type, events[-1].type) == ("run.created", "run.succeeded")


async def test_who_follows_the_events_sees_them_to_the_end(it):
    """The stream waits for what comes, and ends with the run."""
    async with it.app(waits) as app:
        run = await it(app.start(waits))
        seen = []

        async def follows():
            async for event in it.stream(run.events(follow=True)):
                seen.append(event.type)
                if event.type == "run.waiting":
                    await it(run.signal("go"))

        await follows()
    assert seen == [
        *("run.created", "run.started", "step.waiting", "run.waiting"),
        *("step.succeeded", "run.wait_completed", "run.claimed", "run.succeeded"),
    ]


async def test_the_events_of_a_run_that_goes_on_end_where_they_are(it):
    """Unless one follows them."""
    async with it.app(waits) as app:
        run = await it(app.start(waits))
        await it.becomes(run, "waiting")
        assert (await it.types(run))[-1] == "run.waiting"


async def test_a_result_may_be_awaited_for_so_long(it):
    """Then it is a TimeoutError, and the run goes on as if nothing had happened."""
    async with it.app(waits) as app:
        run = await it(app.start(waits))
        with pytest.raises(TimeoutError):
            await it(run.result("20ms"))
        with pytest.raises(BadName, match="within 'soon' is not usable"):
            run.result("soon")
        assert await it(run.signal("go")) is True
        assert await it(run.result("5s")) is None
        assert await it(app.result(run.id)) is None


async def test_a_result_is_there_for_whoever_asks_later(lasting):
    """In another app, that knows the workflow and so its type, or does not."""
    it = lasting
    async with it.app(quick) as app:
        run = await it(app.start(quick, 7))
        await it(run.result())
    for known in ((quick,), ()):
        with it.idle_app(*known) as app:
            assert await it((await it(app.get(run.id))).result()) == 7


# why


async def test_a_queued_run_is_explained(it):
    """It wants a worker, and nobody is there."""
    with it.idle_app(quick) as app:
        run = await it(app.start(quick, 1))
        why = await it(run.explain())
        assert (await it(app.explain(run.id))).because == why.because
    assert (why.status, why.holder, why.because.type) == ("queued", None, "run.created")
    assert [coming.what for coming in why.next] == ["a worker takes it"]
    assert "Claim" in why.possible
    assert str(why).startswith(f"quick {run.id} is queued.")


async def test_a_running_run_is_explained(it, gate):
    """Who holds it, where, and until when."""

    @workflow
    async def works() -> None:
        await gate.passed()

    async with it.app(works, name="the worker") as app:
        run = await it(app.start(works))
        await it.until(gate.reached)
        why = await it(run.explain())
        gate.open()
        await it(run.result())
    assert (why.state, why.because.type, why.because.seq) == ("running", "run.started", 2)
    assert why.holder.name == "the worker"
    assert why.holder.lease_until > why.now
    assert "Held by the worker on " in str(why)


async def test_a_waiting_run_is_explained(it):
    """For whom, since when, until when; and what anybody could do now."""
    async with it.app(asks) as app:
        run = await it(app.start(asks))
        await it.becomes(run, "waiting")
        why = await it(run.explain())
    (awaited,) = why.awaits
    assert (awaited.kind, awaited.name, awaited.step) == ("approval", *["release payment"] * 2)
    assert {"Approve", "Reject", "Cancel", "Signal"} <= set(why.possible)
    assert "Waits for a person: approval 'release payment'" in str(why)
    assert "'release payment' expires unanswered, in " in str(why)


async def test_a_run_that_is_over_is_explained(it):
    """It stays so for ever."""
    async with it.app(quick) as app:
        run = await it(app.start(quick, 1))
        await it(run.result())
        why = await it(run.explain())
    assert (why.state, why.next, why.awaits, why.doing) == ("succeeded", (), (), ())
    assert str(why).endswith("Nothing happens any more: it is over.")


# many runs


async def test_runs_are_listed_the_newest_first(it):
    """Page by page, each beginning where the last one ended."""
    with it.idle_app(quick) as app:
        ids = []
        for n in range(5):
            ids.append((await it(app.start(quick, n))).id)
            await it.a_moment()
        pages, before = [], None
        while page := await it(app.runs(limit=2, before=before)):
            pages.append([record.id for record in page])
            before = page[-1].id
        everything = [record.id for record in await it(app.runs())]
    assert everything == sorted(ids, reverse=True) == [run_id for page in pages for run_id in page]
    assert [len(page) for page in pages] == [2, 2, 1]


async def test_runs_are_listed_by_their_state(it):
    """One, or several; and an unknown one is refused with those there are."""
    async with it.app(quick, waits) as app:
        done, waiting = await it(app.start(quick, 1)), await it(app.start(waits))
        await it(done.result())
        await it.becomes(waiting, "waiting")
        assert [r.id for r in await it(app.runs(status="waiting"))] == [waiting.id]
        both = await it(app.runs(status=["succeeded", "waiting"]))
        assert {r.id for r in both} == {done.id, waiting.id}
        assert await it(app.runs(status="failed")) == []
        with pytest.raises(BadName, match="status 'done' is not usable: one of queued"):
            await it(app.runs(status="done"))


@pytest.mark.parametrize("limit", [0, -1, PAGE_RUNS + 1])
async def test_a_page_has_a_limit(it, limit):
    """Refused, and not cut in silence."""
    with it.idle_app() as app, pytest.raises(BadName, match=f"limit '{limit}' .*1 to {PAGE_RUNS}"):
        await it(app.runs(limit=limit))


async def test_one_tenant_does_not_see_anothers_runs(lasting):
    """A foreign id and an absent one are answered alike."""
    it = lasting
    with it.idle_app(quick, tenant="a") as ours, it.idle_app(quick, tenant="b") as theirs:
        run = await it(ours.start(quick, 1, key="k"))
        assert await it(theirs.runs()) == []
        with pytest.raises(NoSuchRun, match=f"there is no run '{run.id}'"):
            await it(theirs.get(run.id))
        other = await it(theirs.start(quick, 2, key="k", run_id=run.id))
        assert other.created is True
        assert [record.tenant for record in await it(theirs.runs())] == ["b"]


# the handle


async def test_a_failed_run_says_so_to_whoever_asks(lasting):
    """With its code and message, in another process too."""
    it = lasting

    @workflow
    async def broken() -> None:
        raise ValueError("out of tea")

    async with it.app(broken) as app:
        run = await it(app.start(broken))
        await it.becomes(run, "failed")
    with it.idle_app() as app, pytest.raises(RunFailed, match="ValueError: out of tea"):
        await it(app.result(run.id))


def test_a_handle_shows_its_run():
    """In a prompt or a log one sees which run it is."""
    app = App("memory://", [quick])
    run = app.start(quick, 1, run_id="order-42").wait()
    app.close()
    assert repr(run) == "<run order-42>"
