"""Stories of people who are asked."""

from __future__ import annotations

import msgspec
import pytest

from perdure import Rejected, RunFailed, approval, step, wait_for, workflow
from perdure.core.errors import BadPayload, NoSuchGate


class Verdict(msgspec.Struct):
    """What a person says."""

    approve: bool
    note: str = ""


@step
async def record(what: str) -> str:
    return what


@workflow
async def pays() -> str:
    yes = await approval("release payment", bool, shows={"eur": 120})
    return await record("paid" if yes else "kept")


@workflow
async def asks_twice() -> list[bool]:
    return [await approval("go on", bool), await approval("go on", bool)]


@pytest.mark.parametrize(("answer", "result"), [(True, "paid"), (False, "kept")])
async def test_an_answer_wakes_the_run(it, answer, result):
    """Yes and no alike: a no is an answer too, and the workflow decides what it means."""
    async with it.app(pays) as app:
        run = await it(app.start(pays))
        await it.becomes(run, "waiting")
        assert await it(run.approve("release payment", answer, by="bob")) is True
        assert await it(run.result()) == result
        said = [e for e in await it.all(run.events()) if e.actor == "bob"]
    assert [e.type for e in said] == ["step.succeeded", "run.wait_completed"]


async def test_what_is_shown_and_what_is_asked_stand_on_the_log(it):
    """So that whoever asks the person can show the one and make a form of the other."""
    async with it.app(pays) as app:
        run = await it(app.start(pays))
        await it.becomes(run, "waiting")
        (asked,) = [e.event for e in await it.all(run.events()) if e.type == "step.waiting"]
    assert (bytes(asked.shows), asked.name) == (b'{"eur":120}', "release payment")
    assert msgspec.json.decode(asked.schema) == {"type": "boolean"}


async def test_a_typed_answer_is_read_as_its_type(it):
    """With its default where the person said nothing."""

    @workflow
    async def decides() -> str:
        verdict = await approval("decide", Verdict)
        return f"{verdict.approve} {verdict.note!r}"

    async with it.app(decides) as app:
        run = await it(app.start(decides))
        await it.becomes(run, "waiting")
        await it(run.approve(answer={"approve": True}))
        assert await it(run.result()) == "True ''"


async def test_an_answer_that_is_not_json_is_refused(it):
    """Before anything is written; the gate stays open."""
    async with it.app(pays) as app:
        run = await it(app.start(pays))
        await it.becomes(run, "waiting")
        with pytest.raises(BadPayload, match="the answer"):
            await it(run.approve(answer=object()))
        assert await it(run.status()) == "waiting"


async def test_the_one_open_gate_need_not_be_named(it):
    """With none open there is nothing to answer, and the refusal says so."""
    async with it.app(pays) as app:
        run = await it(app.start(pays))
        await it.becomes(run, "waiting")
        assert await it(run.approve()) is True
        assert await it(run.result()) == "paid"
        with pytest.raises(NoSuchGate, match="none is open"):
            await it(run.approve())


async def test_a_rejection_is_raised_in_the_workflow(it):
    """With the note; the run goes on if the workflow catches it."""

    @workflow
    async def careful() -> str:
        try:
            await approval("release payment")
        except Rejected as no:
            return await record(f"{no.gate}: {no.note}")

    async with it.app(careful) as app:
        run = await it(app.start(careful))
        await it.becomes(run, "waiting")
        assert await it(run.reject(note="too dear")) is True
        assert await it(run.result()) == "release payment: too dear"


async def test_a_rejection_that_nobody_catches_fails_the_run(it):
    """Its error says who was asked and why not."""
    async with it.app(pays) as app:
        run = await it(app.start(pays))
        await it.becomes(run, "waiting")
        await it(run.reject("release payment", "too dear"))
        with pytest.raises(RunFailed, match="'release payment' was rejected: too dear") as failed:
            await it(run.result())
        assert failed.value.code == "Rejected"


async def test_a_question_that_nobody_answers_expires(it):
    """The workflow goes on with `Expired`, which is a TimeoutError too."""

    @workflow
    async def hurries() -> str:
        try:
            await approval("release payment", within="20ms")
        except TimeoutError as late:
            return f"{type(late).__name__}: {late}"

    async with it.app(hurries) as app:
        run = await it(app.start(hurries))
        assert await it(run.result()) == "Expired: 'release payment' was not answered in time"


async def test_a_second_answer_changes_nothing(it):
    """A double click passes one gate; a change of mind comes too late, while it runs and after."""
    async with it.app(pays) as app:
        run = await it(app.start(pays))
        await it.becomes(run, "waiting")
        answers = [await it(run.approve("release payment", answer)) for answer in (True, False)]
        assert answers == [True, False]
        assert await it(run.reject("release payment", "wait!")) is False
        assert await it(run.result()) == "paid"
        assert await it(run.approve("release payment")) is False


async def test_a_double_click_does_not_pass_the_next_gate(it):
    """Each gate has an id of its own: its name, and its occurrence."""
    async with it.app(asks_twice) as app:
        run = await it(app.start(asks_twice))
        await it.becomes(run, "waiting")
        assert await it(run.approve("go on", True)) is True
        await it.sees(run.record, lambda now: [s.id for s in now.steps] == ["go on#2"])
        assert await it(run.approve("go on", False)) is False
        assert await it(run.approve("go on#2", False)) is True
        assert await it(run.result()) == [True, False]


async def test_a_gate_that_was_never_asked_for_is_refused(it):
    """The refusal names the gates that are open."""
    async with it.app(pays) as app:
        run = await it(app.start(pays))
        await it.becomes(run, "waiting")
        with pytest.raises(NoSuchGate, match=r"'release paiment'.*open.*'release payment'") as no:
            await it(run.approve("release paiment"))
        assert no.value.open_gates == ("release payment",)


@workflow
async def odd() -> list[bool]:
    return [await approval("50% / #1", bool), await approval("50% / #1", bool)]


async def test_a_gate_of_a_name_with_signs_is_found_by_its_name(it):
    """Its id is written otherwise; asked for a second time, it needs that id to be meant."""
    async with it.app(odd) as app:
        run = await it(app.start(odd))
        await it.becomes(run, "waiting")
        assert await it(run.approve("50% / #1")) is True
        await it.sees(run.record, lambda now: [s.id for s in now.steps] == ["50%25 %2F %231#2"])
        with pytest.raises(NoSuchGate):
            await it(run.approve("50% / #1"))
        (asked,) = (await it(run.explain())).awaits
        assert await it(run.approve(asked.step, False)) is True
        assert await it(run.result()) == [True, False]


@pytest.mark.parametrize("answer", ["maybe", 1, None, {"note": "no verdict"}, ["yes"]])
async def test_an_answer_of_another_type_is_refused(it, answer):
    """Before anything is written, with what does not fit; the gate stays open for a better one."""

    @workflow
    async def decides() -> str:
        return (await approval("decide", Verdict)).note

    async with it.app(decides) as app:
        run = await it(app.start(decides))
        await it.becomes(run, "waiting")
        with pytest.raises(BadPayload, match=r"the answer to 'decide': .*('approve'|type)"):
            await it(run.approve(answer=answer))
        assert await it(run.approve(answer=Verdict(approve=True, note="fine"))) is True
        assert await it(run.result()) == "fine"


async def test_an_answer_that_fits_only_outside_fails_where_it_is_read(it):
    """The type has the last word; the log keeps what was said."""

    @workflow
    async def decides() -> str:
        return (await approval("decide", Verdict)).note

    async with it.app(decides) as app:
        run = await it(app.start(decides))
        await it.becomes(run, "waiting")
        await it(run.approve(answer={"approve": "perhaps"}))
        with pytest.raises(RunFailed, match=r"the answer to 'decide': Expected `bool`, got `str`"):
            await it(run.result())


async def test_what_waits_for_a_signal_is_no_gate(it):
    """It cannot be approved, by its name or without one."""

    @workflow
    async def waits() -> None:
        await wait_for("go")

    async with it.app(waits) as app:
        run = await it(app.start(waits))
        await it.becomes(run, "waiting")
        for gate in (None, "go"):
            with pytest.raises(NoSuchGate):
                await it(run.approve(gate))
