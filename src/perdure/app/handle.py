"""One run, from outside: look at it, wait for it, speak to it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from perdure.app.answer import Answer, Answers
from perdure.core import commands as c
from perdure.core.checks import checked_count, checked_name, checked_text
from perdure.core.durations import Duration, seconds
from perdure.core.errors import NoSuchGate, NoSuchRun, RunFailed
from perdure.core.events import Failure, Recorded, StepWaiting
from perdure.core.explain import Explanation, Holder, explain
from perdure.core.limits import GRACE_S, POLL_LONGEST_S, POLL_SHORTEST_S
from perdure.core.payload import NOTHING, pack, refuse_misfit, unpack
from perdure.core.record import Record, record, recorded
from perdure.core.run import Run
from perdure.core.states import SUCCEEDED
from perdure.engine.asks import Do, Done

if TYPE_CHECKING:
    from perdure.app.app import App

R = TypeVar("R")
_EVENTS_A_PAGE = 500


class RunHandle(Generic[R]):
    """A run of an app. Every method answers `await` and `.wait()` alike.

    `created` is false when `start` found the run under its key.
    """

    def __init__(self, app: App, run_id: str, *, created: bool = False, returns: Any = Any) -> None:
        self._app, self.id = app, checked_text(run_id, "run_id")
        self.created, self._returns = created, returns

    def __repr__(self) -> str:
        return f"<run {self.id}>"

    # looking

    def status(self) -> Answer[str]:
        """Return the run's status, in its profile's word."""
        return self._answer(self._status())

    def record(self) -> Answer[Record]:
        """Return the run as it is now."""
        return self._answer(self._record())

    def explain(self) -> Answer[Explanation]:
        """Say why the run is where it is, and what happens next. `str()` makes sentences of it."""
        return self._answer(self._explain())

    def events(self, after: int = 0, *, follow: bool = False) -> Answers[Recorded]:
        """Return the run's events in order, from a sequence number on.

        With `follow` the stream goes on until the run is over.
        """
        checked_count(after, "after", 0, 2**53)
        return Answers(self._app.portal, lambda: self._events(after, follow=follow))

    def result(self, within: Duration | None = None) -> Answer[R]:
        """Wait for the run's end and return its result; raise `RunFailed` when it has none."""
        return self._answer(self._result(None if within is None else seconds(within, "within")))

    # speaking

    def cancel(self, reason: str = "", *, grace: Duration = GRACE_S) -> Answer[str]:
        """Ask the run to stop, and return its status then.

        A run that a worker holds is asked and has `grace` to clean up; any other is canceled at
        once. A run that is over refuses (`NotAllowed`).
        """
        command = c.Cancel(checked_text(reason, "reason"), seconds(grace, "grace"))
        return self._answer(self._do_status(command))

    def signal(self, name: str, payload: Any = None, *, id: str | None = None) -> Answer[bool]:
        """Tell the run something by name; say whether it was new.

        A signal with an `id` counts once, however often it is sent.
        """
        command = c.Signal(checked_name(name, "signal"), pack(payload, "the payload of", name))
        key = None if id is None else checked_name(id, "id")
        return self._answer(self._signal(command, key))

    def approve(self, gate: str | None = None, answer: Any = True, *, by: str = "") -> Answer[bool]:
        """Answer an approval; say whether that changed anything.

        `gate` is its id: its name, and "name#2" when the run asks by this name a second time. It
        may be left out when one approval is open. An answer of another type than the run asked
        for is refused (`BadPayload`). A second answer changes nothing.
        """
        by = checked_text(by, "by")
        return self._answer(self._answer_gate(gate, by, answer=answer))

    def reject(self, gate: str | None = None, note: str = "", *, by: str = "") -> Answer[bool]:
        """Say no to an approval; say whether that changed anything."""
        by, note = checked_text(by, "by"), checked_text(note, "note")
        return self._answer(self._answer_gate(gate, by, note=note))

    # behind them

    def _answer(self, work: Any) -> Answer[Any]:
        return Answer(self._app.portal, work)

    async def _run(self) -> Run:
        loaded = await asyncio.to_thread(self._app.store.find, self._app.tenant, self.id)
        if loaded is None:
            raise NoSuchRun(self.id)
        return loaded.run

    async def _status(self) -> str:
        return (await self._run()).status

    async def _record(self) -> Record:
        return record(await self._run())

    async def _explain(self) -> Explanation:
        run = await self._run()
        because = None
        if run.entered is not None:
            because = await self._event(run.entered.seq)
        holder = None
        if run.worker is not None:
            known = await asyncio.to_thread(self._app.store.workers)
            found = next((w for w in known if w.worker == run.worker and not w.dead), None)
            if found is not None:
                holder = Holder(found.worker, found.name, found.host, found.pid, found.lease_until)
        return explain(run, because, holder, self._app.surroundings.now())

    async def _event(self, seq: int) -> Recorded | None:
        entries = await self._entries(seq - 1, 1)
        return next((e for entry in entries for e in recorded(entry) if e.seq == seq), None)

    async def _entries(self, after: int, limit: int | None) -> list[Any]:
        return await asyncio.to_thread(
            self._app.store.entries, self._app.tenant, self.id, after, limit
        )

    async def _events(self, after: int, *, follow: bool) -> AsyncIterator[Recorded]:
        with self._app.watching(self.id) as changed:
            while True:
                over = (await self._run()).over
                entries = await self._entries(after, _EVENTS_A_PAGE)
                for event in (e for entry in entries for e in recorded(entry)):
                    if event.seq > after:
                        after = event.seq
                        yield event
                if entries:
                    continue
                if over or not follow:
                    return
                await _pause(changed, POLL_SHORTEST_S * 2)

    async def _result(self, within_s: float | None) -> R:
        run = await self._run()  # one look, however short the time
        if not run.over:
            try:
                async with asyncio.timeout(within_s):
                    run = await self._until_over()
            except TimeoutError as error:
                raise TimeoutError(f"run {self.id} is not over after {within_s:g} s") from error
        payloads = await asyncio.to_thread(self._app.store.payloads, self._app.tenant, self.id)
        if run.state != SUCCEEDED:
            failure = Failure(run.state.upper(), "" if run.asked is None else run.asked.reason)
            if payloads is not None and payloads.error is not None:
                failure = unpack(payloads.error, Failure, "the error")
            raise RunFailed(self.id, run.status, failure)
        result = NOTHING if payloads is None or payloads.result is None else payloads.result
        returned: R = unpack(result, self._type_of(run), "the result")
        return returned

    def _type_of(self, run: Run) -> Any:
        if self._returns is Any and run.workflow in self._app.registry:
            return self._app.registry[run.workflow].returns
        return self._returns

    async def _until_over(self) -> Run:
        pause = POLL_SHORTEST_S
        with self._app.watching(self.id) as changed:
            while not (run := await self._run()).over:
                await _pause(changed, pause)
                pause = min(pause * 2, POLL_LONGEST_S)
        return run

    async def _give(self, command: c.Command, actor: str, key: str | None = None) -> Done:
        actor = actor or self._app.actor
        done: Done = await self._app.writer.ask(Do(self._app.tenant, self.id, command, actor, key))
        return done

    async def _do_status(self, command: c.Command) -> str:
        return (await self._give(command, "")).run.status

    async def _signal(self, command: c.Signal, key: str | None) -> bool:
        return bool((await self._give(command, "", key)).events)

    async def _answer_gate(
        self, gate: str | None, by: str, *, answer: Any = None, note: str | None = None
    ) -> bool:
        run, asked_for = await self._run(), await self._asked_for()
        gates = [step.id for step in run.open if step.kind == "approval"]
        chosen = _chosen(gate, gates, asked_for)
        if chosen is None:
            raise NoSuchGate(self.id, gate, gates)
        if note is not None:
            return bool((await self._give(c.Reject(chosen, note), by)).events)
        packed = pack(answer, "the answer to", chosen)
        refuse_misfit(packed, asked_for[chosen].schema, "the answer to", chosen)
        return bool((await self._give(c.Approve(chosen, packed), by)).events)

    async def _asked_for(self) -> dict[str, StepWaiting]:
        """Every approval that the run has ever asked for, by its id."""
        return {
            event.step: event
            for entry in await self._entries(0, None)
            for event in entry.events
            if isinstance(event, StepWaiting) and event.kind == "approval"
        }


def _chosen(gate: str | None, gates: list[str], asked_for: dict[str, StepWaiting]) -> str | None:
    """Return the approval that is meant: by its id, by its name, or the only one that is open.

    One that was answered before is meant too: a second answer is late, not wrong. So a name that
    was asked for twice means neither, or a double click on the first would pass the second.
    """
    if gate is None:
        return gates[0] if len(gates) == 1 else None
    if gate in asked_for:
        return gate
    named = [step for step, asked in asked_for.items() if asked.name == gate]
    return named[0] if len(named) == 1 else None


async def _pause(changed: asyncio.Event, seconds_: float) -> None:
    """Wait for a change in this process, or for a moment: another process may change it too."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds_):
            await changed.wait()
    changed.clear()
