"""THE HANDS: claims runs, lets their workflows run, reports how they end, gives back the rest.

A worker is one registration: a lease that a thread of its own renews, so that a busy event loop
costs no run its owner. When the lease is lost all the same, everything in hand is gone at once
and the worker registers anew, under a new name.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import socket
import sys
import threading
from collections.abc import Sequence
from typing import Any

from perdure.context import Live, Scope
from perdure.context.steps import Running, failure_from
from perdure.core import commands as c
from perdure.core.errors import (
    Closed,
    Gone,
    LostLease,
    NoSuchRun,
    NotAllowed,
    PerdureError,
    Refused,
)
from perdure.core.events import Entry, Failure
from perdure.core.limits import (
    BEAT_S,
    CLAIM_RUNS,
    GRACE_S,
    LEASE_S,
    LOOP_STALL_S,
    POLL_LONGEST_S,
    POLL_SHORTEST_S,
    START_VISIBLE_AFTER_S,
)
from perdure.core.payload import digest, harmless, pack
from perdure.core.run import Run
from perdure.engine import Writer
from perdure.engine.asks import Beat, Claimed, Do, Leave, Take
from perdure.loop import Loop
from perdure.store import RunKey
from perdure.store import Worker as Registration
from perdure.workflow import Registry, inside

_log = logging.getLogger("perdure.worker")


def tune_process() -> None:
    """Set up a process that is a worker and nothing else. Never called on import.

    Threads take turns sooner (measured: a round trip of 0.4 ms beside a busy thread takes 5.5 ms
    with Python's default), and the collector looks more seldom at what lives as long as a run.
    """
    sys.setswitchinterval(0.0005)
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


class Worker:
    """Runs the workflows of one queue, at most so many at a time."""

    def __init__(
        self, writer: Writer, registry: Registry, *, queue: str, at_most: int, name: str
    ) -> None:
        self._writer, self._door, self._registry = writer, writer.door, registry
        self._queue, self._at_most, self._name = queue, at_most, name
        self._workflows = registry.names(queue)
        self._lives: dict[RunKey, Live] = {}
        # while a claim is on its way: what was said meanwhile of runs that are not in hand yet
        self._early: dict[RunKey, Run] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._claims = Loop(f"worker {name}", self._claim)
        self._starts = Loop(f"starts of {name}", self._record_starts)
        self._stop_beating = threading.Event()
        self._draining = False
        self._turned_at = 0.0  # when the event loop was last seen to turn
        self.id = ""

    # the life of a worker

    async def register(self) -> None:
        """Make the worker known; without that it could claim nothing."""
        self._turned_at = self._door.surroundings.monotonic()
        await asyncio.to_thread(self._register)

    async def run(self) -> None:
        """Work until drained; return when nothing is in hand any more."""
        beats = threading.Thread(
            target=self._beat, args=(asyncio.get_running_loop(),), name="perdure-beat", daemon=True
        )
        beats.start()
        starts = asyncio.create_task(self._starts.run())
        try:
            await self._claims.run()
            while self._tasks:
                await asyncio.wait(self._tasks)
        finally:
            self._starts.stop()
            await starts
            self._stop_beating.set()
            await asyncio.to_thread(beats.join)
            await self._leave()

    def drain(self) -> None:
        """Claim nothing more; give each run back at its next boundary between two steps."""
        self._draining = True
        self._claims.stop()
        for live in self._lives.values():
            live.draining = True
            self._release_idle(live)

    def abort(self) -> None:
        """Give everything back now; bodies that run are canceled and will run again."""
        self.drain()
        for live in list(self._lives.values()):
            self._spawn(self._release(live))

    async def finish_draining(self, within_s: float = GRACE_S) -> None:
        """Wait for the bodies that run, for so long; then let go of them."""
        self.drain()
        loop = asyncio.get_running_loop()
        alarm = loop.call_later(within_s, self.abort)
        while self._tasks:
            await asyncio.wait(self._tasks)
        alarm.cancel()

    def wake_at(self, claim_at: int) -> None:
        """Something may be there to claim, now or at a moment."""
        left_s = (claim_at - self._door.surroundings.now()) / 1_000_000
        if left_s <= 0:
            self._claims.wake()
        else:
            self._claims.wake_within(left_s)

    def hear(self, run: Run) -> None:
        """Somebody other than its holder has spoken to a run."""
        key = (run.tenant, run.id)
        live = self._lives.get(key)
        if live is not None:
            live.hear(run)
        elif self._early is not None:
            self._early[key] = run

    # the lease

    def _register(self) -> None:
        worker = self._door.surroundings.new_id()
        self._door.store.hold(worker)
        self._writer.call(Beat(self._registration(worker)))
        self.id = worker

    def _registration(self, worker: str) -> Registration:
        now = self._door.surroundings.now()
        until = now + int(LEASE_S * 1_000_000)
        return Registration(worker, self._name, socket.gethostname(), os.getpid(), now, until)

    def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        while not self._stop_beating.wait(BEAT_S):
            stalled_s = self._door.surroundings.monotonic() - self._turned_at
            if stalled_s > LOOP_STALL_S:
                # it works at nothing any more: let others have what it holds
                _log.critical(
                    "worker %s: its event loop stands still for %.0f s", self.id, stalled_s
                )
                continue
            try:
                self._renew(loop)
            except Closed:
                return
            except Exception:
                _log.exception("worker %s could not renew its lease; it tries again", self.id)

    def _renew(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self.id:
            self._register()
            return
        if self._writer.call(Beat(self._registration(self.id))):
            return
        _log.error("worker %s was found dead; it drops what it holds", self.id)
        self._writer.call(Leave(self.id))
        lost = self.id
        self.id = ""  # nothing is claimed under it, nor under none
        loop.call_soon_threadsafe(self._lost_everything, lost)

    def _lost_everything(self, worker: str) -> None:
        for live in list(self._lives.values()):
            if live.worker == worker:
                live.vanish()

    async def _leave(self) -> None:
        if not self.id:
            return
        try:
            await self._writer.ask(Leave(self.id))
        except Closed:
            _log.warning("worker %s could not say that it leaves; its lease will run out", self.id)

    # claiming

    async def _claim(self) -> bool:
        free = self._at_most - len(self._lives)
        if free <= 0 or not self._workflows or not self.id:
            return False
        limit = min(free, CLAIM_RUNS)
        early = self._early = {}
        try:
            claimed: list[Claimed] = await self._writer.ask(
                Take(self.id, self._queue, self._workflows, limit)
            )
        finally:
            self._early = None
        for each in claimed:
            self._take_up(each, early.get((each.run.tenant, each.run.id)))
        return len(claimed) == limit

    def _take_up(self, claimed: Claimed, said: Run | None) -> None:
        """Let a run live here. `said` is what somebody said to it while it was on its way."""
        run = claimed.run
        live = Live(run, self._writer.ask, self._reader_of(run), self._door.surroundings)
        live.draining = self._draining  # told to stop while the claim was on its way
        self._lives[run.tenant, run.id] = live
        live.task = live.loop.create_task(self._live_through(live, claimed.input))
        self._tasks.add(live.task)
        if said is not None and said.version > run.version:
            live.hear(said)

    def _reader_of(self, run: Run) -> Any:
        store, tenant, run_id = self._door.store, run.tenant, run.id

        async def read(after: int) -> Sequence[Entry]:
            return await asyncio.to_thread(store.entries, tenant, run_id, after)

        return read

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # one run

    async def _live_through(self, live: Live, payload: Any) -> None:
        """Run the workflow to its end and report it, or notice that the run is not ours."""
        try:
            await self._run_workflow(live, payload)
        except Gone:
            _log.debug("run %s is not held here any more", live.run.id)
        except asyncio.CancelledError:
            if not (live.gone or live.draining):
                raise
        except Exception:
            _log.exception("run %s could not be reported on; it will be given back", live.run.id)
            live.in_doubt = True
            live.vanish()
        finally:
            key = (live.run.tenant, live.run.id)
            if self._lives.get(key) is live:
                del self._lives[key]
            if live.task is not None:
                self._tasks.discard(live.task)
            if live.in_doubt:
                self._spawn(self._give_back(live))
            self._claims.wake()

    async def _run_workflow(self, live: Live, payload: Any) -> None:
        workflow = self._registry[live.run.workflow]
        try:
            if live.run.version > 2:  # more than created and started: something to remember
                await live.remember()
            arguments = workflow.unpack_input(payload)
            inside.set(Scope(live, "", asyncio.current_task()))
            result = pack(await workflow.fn(**arguments), f"the result of '{workflow.name}'")
        except asyncio.CancelledError:
            await self._canceled(live)
        except (Gone, KeyboardInterrupt):
            raise
        except BaseException as error:  # also what is no Exception: it ends a run, never a worker
            inside.set(None)
            await self._failed(live, failure_from(error))
        else:
            inside.set(None)
            await live.give(c.Finish(live.token, result, digest(result)), output=result)

    async def _canceled(self, live: Live) -> None:
        """The workflow has let a cancellation through: asked for, or an accident of its own."""
        inside.set(None)
        if live.asked:
            await live.give(c.ConfirmCancel(live.token))
        elif live.gone or live.draining:
            raise Gone
        else:
            failure = Failure("CANCELED_ITSELF", "the workflow raised asyncio.CancelledError")
            await self._failed(live, failure)

    async def _failed(self, live: Live, failure: Failure) -> None:
        error = pack(failure, "the error")
        await live.give(c.Fail(live.token, failure), error=error)

    # giving back

    def _release_idle(self, live: Live) -> None:
        if not live.running:
            self._spawn(self._release(live))

    async def _release(self, live: Live) -> None:
        if live.gone:
            return
        try:
            await live.give(c.Release(live.token, "its worker stops"))
        except Gone:
            return
        except Refused as refusal:
            _log.warning("run %s could not be given back: %s", live.run.id, harmless(str(refusal)))
        live.vanish()

    async def _give_back(self, live: Live) -> None:
        """Give back a run that is held and not run, as soon as the store takes anything.

        One whose log cannot be read is not given back, or it would be claimed again at once, and
        so for ever: it fails, and says why.
        """
        run, pause_s = live.run, POLL_SHORTEST_S
        command: c.Command = c.Release(live.token, "the store failed")
        error = None
        if live.damage is not None:
            command = c.Fail(live.token, live.damage)
            error = pack(live.damage, "the error")
        while not self._draining:
            try:
                await self._writer.ask(
                    Do(run.tenant, run.id, command, live.worker, None, None, error)
                )
            except (LostLease, NotAllowed, NoSuchRun, Closed):
                return  # it is not held under this claim any more, or the app is closed
            except PerdureError:
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, POLL_LONGEST_S)
            else:
                return

    # long steps

    async def _record_starts(self) -> bool:
        """Record the start of each body that has run for a moment, so that it can be seen."""
        self._turned_at = self._door.surroundings.monotonic()
        before = self._door.surroundings.now() - int(START_VISIBLE_AFTER_S * 1_000_000)
        for live in list(self._lives.values()):
            if live.draining and not live.gone:
                self._release_idle(live)
            for running in list(live.running.values()):
                if not running.visible and running.began_at <= before and not live.gone:
                    running.visible = True
                    self._spawn(self._record_start(live, running))
        return False

    async def _record_start(self, live: Live, running: Running) -> None:
        call = running.call
        if live.running.get(call.id) is not running:
            return  # it ended in this very moment: a start must not come after the end
        try:
            await live.give(c.StartStep(live.token, call, running.began_at))
        except Gone:
            return
        except Refused as refusal:
            _log.warning("the start of '%s' was not recorded: %s", call.id, refusal)
