"""What makes no sense is refused where it is said, with its field and the rule."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from perdure import App, approval, retry, step, workflow
from perdure.core.errors import BadName, BadPayload, Closed, LimitExceeded, StoreError


@workflow
async def asks() -> bool:
    return await approval("pay", bool)


@contextmanager
def opened():
    app = App("memory://", workflows=[asks])
    try:
        yield app, app.start(asks).wait()
    finally:
        app.close()


SAID = {
    "signal of a number": lambda app, run: run.signal(5),
    "signal without a name": lambda app, run: run.signal(""),
    "signal with an empty id": lambda app, run: run.signal("go", id=""),
    "signal with a number as id": lambda app, run: run.signal("go", id=5),
    "cancel for a number": lambda app, run: run.cancel(5),
    "cancel within a list": lambda app, run: run.cancel(grace=[]),
    "reject with nothing": lambda app, run: run.reject("pay", None),
    "reject with a number": lambda app, run: run.reject("pay", 5),
    "approve by a number": lambda app, run: run.approve("pay", by=5).wait(),
    "events after a word": lambda app, run: run.events("x"),
    "events after less than nothing": lambda app, run: run.events(-1),
    "result within a list": lambda app, run: run.result([]),
    "a number as an id": lambda app, run: app.start(asks, run_id=5),
    "a number as a trace": lambda app, run: app.start(asks, trace_id=5).wait(),
    "an empty key": lambda app, run: app.start(asks, key="").wait(),
    "a word as a limit": lambda app, run: app.runs(limit="5").wait(),
    "a number as a run": lambda app, run: app.get(5),
}


@pytest.mark.parametrize("say", SAID.values(), ids=SAID)
def test_what_is_said_to_a_run_has_its_type(say):
    """A refusal leaves the run as it was, and readable."""
    with opened() as (app, run):
        with pytest.raises(BadName):
            say(app, run)
        assert run.record().wait().version == 1


@pytest.mark.parametrize(
    ("text", "refusal"),
    [("a\x00b", BadPayload), ("\ud800", BadPayload), ("x" * 5_000, LimitExceeded)],
)
def test_a_reason_is_a_text_that_can_be_kept(text, refusal):
    """NUL, lone surrogates and a novel are refused before they reach the log."""
    with opened() as (_, run), pytest.raises(refusal, match="reason"):
        run.cancel(text)


MADE = {
    "retries that end never": lambda: retry(float("inf")),
    "half a retry": lambda: retry(2.5),
    "a word of retries": lambda: retry("3"),
    "a list of exceptions": lambda: retry(2, on=[ValueError]),
    "a number for a retry": lambda: step(retry=3)(lambda: None),
    "a word as priority": lambda: workflow(priority="5"),
    "nobody at work": lambda: App("memory://", at_most=0),
    "a word of workers": lambda: App("memory://", at_most="4"),
    "one workflow for many": lambda: App("memory://", workflows=asks),
}


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_what_is_made_has_its_type(make):
    """A decorator or an app that could never work is refused at once."""
    with pytest.raises(BadName):
        make()


def test_a_parameter_without_a_name_cannot_be_stored():
    """An input is an object by parameter name."""

    async def nameless(a, /):
        return a

    with pytest.raises(BadName, match="no name to be stored under"):
        workflow(nameless)


def test_a_url_is_a_text():
    """What to write instead is said."""
    with pytest.raises(StoreError, match="memory://"):
        App(None)


def test_a_closed_app_starts_nothing():
    """Not even a thread of its own."""
    app = App("memory://", workflows=[asks])
    app.close()
    with pytest.raises(Closed):
        app.start(asks).wait()


def test_names_with_signs_keep_their_places():
    """A step whose name looks like another's occurrence is another step."""

    @step
    async def fetch(n: int) -> int:
        return n

    @step(name="fetch#2")
    async def other() -> str:
        return "other"

    @workflow
    async def both() -> list[object]:
        first = [await fetch(1), await fetch(2), await other()]
        await approval("go on")
        return first

    with App("memory://", workflows=[both]) as app:
        run = app.start(both).wait()
        for event in run.events(follow=True):
            if event.type == "run.waiting":
                break
        run.approve().wait()
        assert run.result().wait() == [1, 2, "other"]


def test_an_end_is_seen_however_short_the_time():
    """`within=0` looks once."""
    with App("memory://", workflows=[asks]) as app:
        run = app.start(asks).wait()
        for event in run.events(follow=True):
            if event.type == "run.waiting":
                break
        with pytest.raises(TimeoutError, match=run.id):
            run.result(within=0).wait()
        run.approve().wait()
        assert run.result().wait() is True
        assert run.result(within=0).wait() is True
