"""Everybody but the workers: who starts errands, answers, sends signals, and cancels.

Keeps a steady number of errands open, and a record of everything that was acknowledged.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Coroutine
from queue import SimpleQueue
from typing import Any

from perdure.app import App, RunHandle
from perdure.core.errors import NotAllowed, PerdureError
from perdure.core.limits import PAGE_RUNS
from perdure.core.run import Run
from perdure.core.states import LIVE
from perdure.testing.chaos_checks import Finding, Promise, Watch
from perdure.testing.errand import (
    SIGNAL,
    asks_beside_work,
    asks_for_signal,
    errand,
)

LOOK_S = 0.1
SUSPECT_S = 1.0


class Traffic:
    """One app beside the workers, on the same file."""

    def __init__(self, app: App, watch: Watch, seed: int, most_open: int) -> None:
        self.app, self.watch, self.most_open = app, watch, most_open
        self.chance = random.Random(seed)
        self.promises: dict[str, Promise] = {}
        self.answers: list[tuple[str, bool]] = []
        self.findings: list[Finding] = []
        self.open: dict[str, Run] = {}
        self.started = 0
        self._asked: set[tuple[str, str]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.clerk = Clerk(app.store.url, self._complain)

    # starting

    async def feed(self) -> None:
        """Start errands, so many that the wanted number is open."""
        while True:
            for _ in range(min(8, self.most_open - len(self.open))):
                self._spawn(self._start(self.started))
                self.started += 1
            await asyncio.sleep(LOOK_S / 2)

    async def _start(self, n: int) -> None:
        key = f"errand {n}" if n % 2 else None
        run = await self.app.start(errand, n, key=key)
        self.promises[run.id] = Promise(run.id, n)
        if key is not None and self.chance.random() < 0.3:
            again = await self.app.start(errand, n, key=key)
            if again.id != run.id:
                self._complain("its key started a second run", again.id)
        if asks_for_signal(n):
            await self._signal(run, n)
        if n % 17 == 3:
            await self._cancel(run)

    async def _signal(self, run: RunHandle[Any], n: int) -> None:
        await asyncio.sleep(self.chance.random())
        payload = f"{SIGNAL}:{n}"
        new = await run.signal(SIGNAL, payload, id="the only one")
        self.promises[run.id] = self.promises[run.id]._replace(signal=payload)
        again = self.chance.random() < 0.5 and await run.signal(SIGNAL, "no", id="the only one")
        if not new or again:
            self._complain(f"its signal was new: {new}, and again: {again}", run.id)

    async def _cancel(self, run: RunHandle[Any]) -> None:
        await asyncio.sleep(self.chance.random())
        try:
            await run.cancel("nobody needs it any more")
        except NotAllowed:
            return  # it was over before
        self.promises[run.id] = self.promises[run.id]._replace(canceled=True)

    # looking, and answering what is asked

    async def look(self) -> None:
        """Look at all open runs once: note which have moved, answer what they ask."""
        rows = await asyncio.to_thread(self._listing)
        now, moment = time.monotonic(), self.app.surroundings.now()
        seen = {run.id: run for run in rows}
        for run_id in self.open.keys() - seen.keys():
            if (gone := await self._find(run_id)) is not None:
                self.watch.see(gone, now, moment)
        self.open = seen
        for run in rows:
            self.watch.see(run, now, moment)
        for run_id in self.watch.suspects(now, SUSPECT_S):
            if (run_now := await self._find(run_id)) is not None:
                self.watch.see(run_now, now, moment)
        self.findings += [f for f in self.watch.stuck(now) if f.run not in self._blamed()]
        for run in rows:
            await self._answer(run)

    def _listing(self) -> list[Run]:
        rows: list[Run] = []
        while True:
            before = rows[-1].id if rows else None
            page = self.app.store.listing(
                self.app.tenant, before=before, limit=PAGE_RUNS, states=LIVE
            )
            rows += page
            if len(page) < PAGE_RUNS:
                return rows

    async def _find(self, run_id: str) -> Run | None:
        loaded = await asyncio.to_thread(self.app.store.find, self.app.tenant, run_id)
        return None if loaded is None else loaded.run

    async def _answer(self, run: Run) -> None:
        promise = self.promises.get(run.id)
        if promise is not None and asks_beside_work(promise.n) and run.worker is not None:
            run = await self._find(run.id) or run  # the row of a held run may lag
        for step in run.open:
            if step.kind == "approval" and (run.id, step.id) not in self._asked:
                self._asked.add((run.id, step.id))
                way = self.chance.random()
                if way > 0.4:
                    self.clerk.ask(run.id, step.id)
                if way < 0.6:
                    self._spawn(self._approve(run.id, step.id))

    async def _approve(self, run_id: str, gate: str) -> None:
        await asyncio.sleep(self.chance.random() * 0.3)
        self.answers.append((run_id, await self.app.approve(run_id, gate)))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(self._noted(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _noted(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except PerdureError as error:
            self._complain(f"an ask was answered with {type(error).__name__}: {error}")

    def _complain(self, what: str, run: str = "") -> None:
        self.findings.append(Finding(what, run))

    def _blamed(self) -> set[str]:
        return {finding.run for finding in self.findings}

    @property
    def busy(self) -> bool:
        """Whether anything was asked that is not answered yet."""
        return bool(self._tasks or self.clerk.asked > len(self.clerk.answers))

    async def close(self) -> None:
        """Ask nothing more, and let the clerk go home."""
        for task in self._tasks:
            task.cancel()
        await asyncio.to_thread(self.clerk.close)


class Clerk:
    """Somebody else who answers approvals: a thread with an app of its own on the same file."""

    def __init__(self, url: str, complain: Callable[[str, str], None]) -> None:
        self.answers: list[tuple[str, bool]] = []
        self.asked = 0
        self._url, self._complain = url, complain
        self._gates = SimpleQueue[tuple[str, str] | None]()
        self._thread = threading.Thread(target=self._work, name="clerk", daemon=True)
        self._thread.start()

    def ask(self, run_id: str, gate: str) -> None:
        """Ask it to approve."""
        self.asked += 1
        self._gates.put((run_id, gate))

    def close(self) -> None:
        """Wait until all is answered."""
        self._gates.put(None)
        self._thread.join()

    def _work(self) -> None:
        app = App(self._url)
        try:
            while (asked := self._gates.get()) is not None:
                changed = False
                try:
                    changed = app.approve(*asked).wait()
                except PerdureError as error:
                    self._complain(f"the clerk was told {error}", asked[0])
                self.answers.append((asked[0], changed))
        finally:
            app.close()
