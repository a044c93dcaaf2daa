"""A run as it lives in a worker: the workflow's coroutine, and what it asks of the door.

A live run ends in one of two ways: its workflow ends and that is committed, or the copy is
*gone* (put aside, taken over, ended elsewhere). Then every call to perdure raises `Gone`, so
that no `finally` and no `except` of the workflow acts because of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.context.memo import Memo, Remembered
from perdure.core import commands as c
from perdure.core.errors import Damaged, Gone, LostLease, NoSuchRun, NotAllowed, StoreError
from perdure.core.events import Entry, Failure
from perdure.core.limits import POLL_SHORTEST_S, WAIT_IN_MEMORY_S
from perdure.core.payload import harmless
from perdure.core.run import Run
from perdure.core.states import CANCEL_REQUESTED, HELD, RUNNING
from perdure.engine.asks import Do, Done
from perdure.engine.surroundings import Surroundings

if TYPE_CHECKING:
    from perdure.context.steps import Running

AskDoor = Callable[[Do, asyncio.AbstractEventLoop], Awaitable[Done]]
ReadLog = Callable[[int], Awaitable[list[Entry]]]
_log = logging.getLogger("perdure.run")


class Live:
    """One run under one claim."""

    def __init__(self, run: Run, ask: AskDoor, log: ReadLog, surroundings: Surroundings) -> None:
        self.run, self.token, self.worker = run, run.token, run.worker or ""
        self.surroundings = surroundings
        self.memo = Memo()
        # a run that was only created and claimed has nothing to remember
        self.memo.seen = run.version if run.version <= 2 else 0
        # asked to stop, and its workflow was told
        self.asked = False
        self.gone = self.draining = False
        # the store failed: the run may still be held under this claim, and nobody runs it
        self.in_doubt = False
        # what the store holds of it cannot be read: it can only fail
        self.damage: Failure | None = None
        # the bodies that run now; the worker looks through them to record starts
        self.running: dict[str, Running] = {}
        # branches that are blocked, by the step that blocks them
        self.blocked: dict[str, asyncio.Future[None]] = {}
        # the tasks that are branches, and how many of them are not blocked: at zero the run is put
        # aside. A task of the workflow's own making counts for nothing
        self.branches: set[asyncio.Task[Any] | None] = set()
        self.busy = 1
        self.task: asyncio.Task[Any] | None = None
        self._ask, self._log = ask, log
        self.loop = asyncio.get_running_loop()
        self._catching_up: asyncio.Task[None] | None = None

    async def remember(self) -> None:
        """Wait until all is read that happened, before this claim or by somebody else since."""
        while self.memo.seen < self.run.version and not self.gone:
            await asyncio.shield(self.catch_up())  # others may wait for it too

    # asking

    async def give(
        self,
        command: c.Command,
        output: msgspec.Raw | None = None,
        error: msgspec.Raw | None = None,
    ) -> Done:
        """Give a command as the run's owner; when that is refused, this copy is gone."""
        if self.gone:
            raise Gone
        run = self.run
        ask = Do(run.tenant, run.id, command, self.worker, None, output, error)
        try:
            done = await self._ask(ask, self.loop)
        except NotAllowed as refused:
            if refused.state != CANCEL_REQUESTED or isinstance(command, c.Release):
                self.vanish()
            else:
                # A wait has crossed with a request to stop: the run is still ours, and this branch
                # ends when its workflow is canceled.
                self.ask_to_stop()
                await self.loop.create_future()
            raise Gone from None
        except (LostLease, NoSuchRun):
            self.vanish()
            raise Gone from None
        except StoreError as failure:
            self._lose_track(failure)
            raise Gone from None
        self._take_in(done)
        return done

    def _take_in(self, done: Done) -> None:
        run, memo = done.run, self.memo
        if run.version > self.run.version:  # or a later one was heard of before this answer came
            self.run = run
        if run.version - len(done.events) > memo.seen:
            self.catch_up()  # somebody else has spoken in between
        elif run.version > memo.seen:
            if self.blocked:
                for seq, event in enumerate(done.events, memo.seen + 1):
                    self._settle(memo.take(seq, event))
            memo.seen = run.version
        if run.state == CANCEL_REQUESTED and not self.draining:
            self.ask_to_stop()

    def _lose_track(self, failure: StoreError) -> None:
        """What is on record is unknown: this copy cannot go on, though the run can."""
        _log.warning("run %s is put down: %s", self.run.id, failure)
        if isinstance(failure, Damaged):
            self.damage = Failure("DAMAGED", harmless(str(failure)))
        self.in_doubt = True
        self.vanish()

    # being told

    def hear(self, run: Run) -> None:
        """Somebody else has spoken to the run: a signal, an answer, a cancel, an end."""
        if self.gone:
            return
        if run.token != self.token or run.state not in HELD:
            self.vanish()
            return
        if run.version > self.run.version:
            self.run = run
        if run.state == CANCEL_REQUESTED:
            self.ask_to_stop()
        self.catch_up()

    def catch_up(self) -> asyncio.Task[None]:
        """Read from the log what this copy has not seen."""
        if self._catching_up is None or self._catching_up.done():
            self._catching_up = self.loop.create_task(self._read_on())
        return self._catching_up

    async def _read_on(self) -> None:
        while not self.gone:
            before = self.memo.seen
            try:
                entries = await self._log(before)
            except StoreError as failure:
                self._lose_track(failure)
                return
            for step in self.memo.read(entries):
                self._settle(step)
            if self.memo.seen >= self.run.version:
                return

    def _settle(self, step: str | None) -> None:
        blocked = None if step is None else self.blocked.get(step)
        if blocked is not None and not blocked.done():
            blocked.set_result(None)

    def ask_to_stop(self) -> None:
        """Tell the workflow, once, that its run is to stop: its code sees `CancelledError`."""
        if not self.asked:
            self.asked = True
            self._cancel_task()

    def _cancel_task(self) -> None:
        """Cancel it after its first step: a task that never began could not end in good order."""
        if self.task is not None:
            self.loop.call_soon(self.task.cancel)

    def vanish(self) -> None:
        """This copy is not the run any more."""
        if self.gone:
            return
        self.gone = True
        for blocked in self.blocked.values():
            if not blocked.done():
                blocked.set_exception(Gone())
                blocked.exception()  # a branch that was canceled meanwhile never looks
        if self.busy > 0:
            self._cancel_task()

    # waits

    async def wait(self, wait: c.Wait) -> Remembered:
        """Open a wait, block this branch on it, and return how it ended."""
        await self.boundary()
        await self.remember()  # the answer may be among what was not read yet
        if wait.id not in self.memo.outcomes:
            if self.asked:
                raise asyncio.CancelledError  # a run that is to stop waits for nothing
            try:
                await self.block(wait.id, wait.expires_at, wait)
            except asyncio.CancelledError:
                await self.drop(wait.id)
                raise
        return self.memo.outcomes[wait.id]

    async def drop(self, step_id: str) -> None:
        """End an open step whose branch was canceled, while the run itself goes on."""
        if not self.gone and not self.draining and self.run.state == RUNNING:
            await self.give(c.DropStep(self.token, step_id))

    async def block(self, step_id: str, until: int | None, opening: c.Wait | None = None) -> None:
        """Block the current branch until the step ends or its moment comes.

        When no branch is left that could go on, the run is put aside: nothing is kept in memory
        for a run that only waits.
        """
        future: asyncio.Future[None] = self.loop.create_future()
        self.blocked[step_id] = future
        counted = asyncio.current_task(self.loop) in self.branches
        self.busy -= counted
        try:
            # one that was open when this copy began may have been answered since: not asked anew
            new = opening if self.run.step(step_id) is None else None
            aside = self.busy == 0 and not self._soon(until)
            if aside:
                await asyncio.sleep(0)  # a task of the workflow's own making may begin its body
            if aside and self.busy == 0 and not self.running:
                await self.suspend(new)
            elif new is not None:
                await self.give(c.OpenWait(self.token, new))
            if until is not None:
                await self._pass_time(step_id, until, future, is_wait=opening is not None)
            await future
        finally:
            self.busy += counted
            if self.blocked.get(step_id) is future:
                del self.blocked[step_id]
        if self.gone:
            raise Gone

    def _soon(self, until: int | None) -> bool:
        """Whether a block is too short to be worth giving the run away."""
        now = self.surroundings.now()
        return until is not None and until - now < WAIT_IN_MEMORY_S * 1_000_000

    async def suspend(self, opening: c.Wait | None = None) -> None:
        """Let go of the run if every branch is blocked; then this copy is gone."""
        if self.run.state != RUNNING or self.asked or self.draining or self.running:
            return  # (a body that runs in a task of the workflow's own making keeps it here)
        done = await self.give(c.Suspend(self.token, tuple(self.blocked), opening))
        if done.run.state not in HELD:
            self.vanish()
            raise Gone

    async def _pass_time(
        self, step_id: str, until: int, future: asyncio.Future[None], *, is_wait: bool
    ) -> None:
        """Wait until the moment has come by the clock on the wall, whatever the loop's clock says.

        A wait whose time has come is settled at the door, where the answer of somebody else may
        have been first; a backoff is simply over.
        """
        while not future.done():
            left_s = (until - self.surroundings.now()) / 1_000_000
            if left_s > 0:
                await asyncio.wait([future], timeout=left_s)
            elif is_wait:
                await self.give(c.Elapse(self.token, step_id))
                await asyncio.wait([future], timeout=POLL_SHORTEST_S)
            else:
                future.set_result(None)

    async def boundary(self) -> None:
        """Stop here for good when the worker is draining: between two steps nothing is lost.

        Whoever comes here last, while no body runs any more, gives the run back.
        """
        if self.gone:
            raise Gone
        if self.draining and not self.running:
            await self.give(c.Release(self.token, "its worker stops"))
            self.vanish()
            raise Gone
        if self.draining:
            await self.block(f"~{id(asyncio.current_task())}", None)
