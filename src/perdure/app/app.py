"""The app: opens a store, starts the loops, and is the face of the door, async and blocking."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import logging
import threading
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from perdure.app.answer import Answer, Answers, Portal
from perdure.app.handle import RunHandle
from perdure.core import commands as c
from perdure.core.checks import checked_count, checked_id, checked_name, checked_text
from perdure.core.durations import Duration
from perdure.core.errors import BadName, Closed
from perdure.core.events import Recorded
from perdure.core.explain import Explanation
from perdure.core.limits import GRACE_S, LIVES_OF_A_WORKER, PAGE_RUNS
from perdure.core.payload import digest
from perdure.core.record import Record, record
from perdure.core.states import ALL, State
from perdure.engine import REAL, Door, Surroundings, Writer
from perdure.engine.asks import Change, Start, Started
from perdure.store import RunKey, Store
from perdure.stores import open_store
from perdure.sweeper import Sweeper
from perdure.worker import Worker
from perdure.workflow import Registry, Workflow

P = ParamSpec("P")
R = TypeVar("R")
_log = logging.getLogger("perdure.app")


class App:
    """Workflows and the store their runs last in.

    >>> from perdure import App, step, workflow
    >>> @step
    ... async def double(n: int) -> int:
    ...     return 2 * n
    >>> @workflow
    ... async def quadruple(n: int) -> int:
    ...     return await double(await double(n))
    >>> with App("memory://", workflows=[quadruple]) as app:
    ...     app.call(quadruple, 3)
    12
    """

    def __init__(
        self,
        url: str,
        workflows: Iterable[Workflow[Any, Any]] = (),
        *,
        tenant: str = "default",
        at_most: int = 256,
        name: str = "worker",
        create: bool = True,
        surroundings: Surroundings = REAL,
    ) -> None:
        self.registry = Registry(workflows)
        self.tenant, self.name = checked_name(tenant, "tenant"), checked_name(name, "name")
        self.at_most = checked_count(at_most, "at_most", 1, LIVES_OF_A_WORKER)
        self.surroundings = surroundings
        self.store: Store = open_store(url, create=create)
        self.portal = Portal()
        self.actor = _who()
        self._writer: Writer | None = None
        self._lock = threading.Lock()
        self._watched: dict[RunKey, list[tuple[asyncio.AbstractEventLoop, asyncio.Event]]] = {}
        self._crew: _Crew | None = None
        # blocking callers, and whether the crew is at work for their sake alone
        self._calling, self._calls, self._called_up = threading.Lock(), 0, False
        self._closed = False
        if not self.store.durable:
            _log.warning("the store is %s: nothing outlives this process", url)

    # starting and finding

    def start(
        self,
        workflow: Workflow[P, R],
        *args: Any,
        key: str | None = None,
        run_id: str | None = None,
        trace_id: str = "",
        **kwargs: Any,
    ) -> Answer[RunHandle[R]]:
        """Start a run; when this is answered the run is durable, and lasts.

        The same `key` with the same arguments answers with the same run, with other arguments it
        is refused (`KeyTaken`). A `run_id` of your own has 8 to 128 letters, digits or `._:-`.
        """
        run_id = None if run_id is None else checked_id(run_id)
        return Answer(self.portal, self._start(workflow, args, kwargs, key, run_id, trace_id))

    def call(
        self, workflow: Workflow[P, R], *args: Any, key: str | None = None, **kwargs: Any
    ) -> R:
        """Start a run, work on it here if nobody does, and return its result. Blocking."""
        with self._at_work():
            return self.start(workflow, *args, key=key, **kwargs).wait().result().wait()

    def get(self, run_id: str) -> Answer[RunHandle[Any]]:
        """Return a run that exists; raise `NoSuchRun` for one that does not."""
        return Answer(self.portal, self._get(self._handle(run_id)))

    def runs(
        self,
        *,
        status: str | Iterable[str] | None = None,
        limit: int = PAGE_RUNS,
        before: str | None = None,
    ) -> Answer[list[Record]]:
        """Return runs, the newest first; `before` is the last id of the page before."""
        return Answer(self.portal, self._runs(status, limit, before))

    # the run's own methods, by its id

    def status(self, run_id: str) -> Answer[str]:
        """Return a run's status."""
        return self._handle(run_id).status()

    def record(self, run_id: str) -> Answer[Record]:
        """Return a run as it is now."""
        return self._handle(run_id).record()

    def result(self, run_id: str, within: Duration | None = None) -> Answer[Any]:
        """Wait for a run's end and return its result."""
        return self._handle(run_id).result(within)

    def events(self, run_id: str, after: int = 0, *, follow: bool = False) -> Answers[Recorded]:
        """Return a run's events in order."""
        return self._handle(run_id).events(after, follow=follow)

    def explain(self, run_id: str) -> Answer[Explanation]:
        """Say why a run is where it is, and what happens next."""
        return self._handle(run_id).explain()

    def cancel(self, run_id: str, reason: str = "", *, grace: Duration = GRACE_S) -> Answer[str]:
        """Ask a run to stop, and return its status then."""
        return self._handle(run_id).cancel(reason, grace=grace)

    def signal(
        self, run_id: str, name: str, payload: Any = None, *, id: str | None = None
    ) -> Answer[bool]:
        """Tell a run something by name."""
        return self._handle(run_id).signal(name, payload, id=id)

    def approve(
        self, run_id: str, gate: str | None = None, answer: Any = True, *, by: str = ""
    ) -> Answer[bool]:
        """Answer an approval of a run."""
        return self._handle(run_id).approve(gate, answer, by=by)

    def reject(
        self, run_id: str, gate: str | None = None, note: str = "", *, by: str = ""
    ) -> Answer[bool]:
        """Say no to an approval of a run."""
        return self._handle(run_id).reject(gate, note, by=by)

    # working

    async def __aenter__(self) -> Self:
        """Start to work: claim runs and watch the clock, on this event loop."""
        if self._crew is not None:
            raise Closed("this app is at work already")
        self._crew = _Crew(self)
        try:
            await self._crew.start()
        except BaseException:
            self._crew = None
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Drain: claim nothing more, give back what is in hand, close the store."""
        try:
            await self._end_work()
        finally:
            await asyncio.to_thread(self.close)

    def __enter__(self) -> Self:
        """Start to work on an event loop of its own."""
        self.portal.run(self.__aenter__())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Drain and close."""
        try:
            self.portal.run(self._end_work())
        finally:
            self.close()

    def drain(self) -> None:
        """Claim nothing more; what is in hand goes on to its next boundary. From any thread."""
        if self._crew is not None:
            self._crew.drain()

    def abort(self) -> None:
        """Give back everything in hand now. From any thread."""
        if self._crew is not None:
            self._crew.abort()

    async def idle(self) -> None:
        """Wait until the workers have stopped."""
        if self._crew is not None:
            await self._crew.stopped()

    def close(self) -> None:
        """Close the store. Safe to call twice; what was asked before is worked off."""
        if self._closed:
            return
        self._closed = True
        if self._writer is not None:
            self._writer.close()
        self.store.close()
        self.portal.close()

    # for handles and workers

    @property
    def writer(self) -> Writer:
        """The thread before the door; started when something is first asked of it."""
        with self._lock:
            if self._closed:
                raise Closed("the app is closed; nothing was written")
            if self._writer is None:
                door = Door(self.store, self.surroundings)
                door.listeners.append(self._hear)
                self._writer = Writer(door)
            return self._writer

    @contextlib.contextmanager
    def watching(self, run_id: str) -> Iterator[asyncio.Event]:
        """Give an event that is set whenever this process changes the run's state."""
        key, watcher = (self.tenant, run_id), (asyncio.get_running_loop(), asyncio.Event())
        with self._lock:
            self._watched.setdefault(key, []).append(watcher)
        try:
            yield watcher[1]
        finally:
            with self._lock:
                self._watched[key].remove(watcher)
                if not self._watched[key]:
                    del self._watched[key]

    # behind them

    def _handle(self, run_id: str) -> RunHandle[Any]:
        return RunHandle(self, run_id)

    @contextlib.contextmanager
    def _at_work(self) -> Iterator[None]:
        """Be at work for as long as anybody calls: the first to come begins, the last one ends."""
        with self._calling:
            if self._calls == 0 and self._crew is None:
                self.portal.run(self.__aenter__())
                self._called_up = True
            self._calls += 1
        try:
            yield
        finally:
            with self._calling:
                self._calls -= 1
                if self._calls == 0 and self._called_up:
                    self._called_up = False
                    self.portal.run(self._end_work())

    async def _start(
        self,
        workflow: Workflow[P, R],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        key: str | None,
        run_id: str | None,
        trace_id: str,
    ) -> RunHandle[R]:
        if not isinstance(workflow, Workflow):
            rule = "start takes a function decorated with @workflow"
            raise BadName("workflow", repr(workflow), rule)
        payload = workflow.pack_input(args, kwargs)
        deadline = None
        if workflow.deadline_us is not None:
            deadline = self.surroundings.now() + workflow.deadline_us
        create = c.Create(
            workflow.name,
            workflow.queue,
            workflow.priority,
            digest(payload),
            deadline=deadline,
            trace_id=checked_text(trace_id, "trace_id"),
            key=None if key is None else checked_name(key, "key"),
        )
        ask = Start(self.tenant, run_id, "standard", create, payload, self.actor)
        started: Started = await self.writer.ask(ask)
        return RunHandle(
            self, started.run_id, created=not started.attached, returns=workflow.returns
        )

    async def _get(self, handle: RunHandle[Any]) -> RunHandle[Any]:
        await handle.status()
        return handle

    async def _runs(
        self, status: str | Iterable[str] | None, limit: int, before: str | None
    ) -> list[Record]:
        checked_count(limit, "limit", 1, PAGE_RUNS)
        if before is not None:
            checked_text(before, "before")
        states = None if status is None else _states(status)
        listing = self.store.listing
        runs = await asyncio.to_thread(
            lambda: listing(self.tenant, before=before, limit=limit, states=states)
        )
        return [record(run) for run in runs]

    async def _end_work(self) -> None:
        crew, self._crew = self._crew, None
        if crew is not None:
            await crew.end()

    def _hear(self, changes: list[Change]) -> None:
        """Tell watchers and workers; called on the door's thread after each commit."""
        if self._watched:
            with self._lock:
                wanted = [w for c in changes for w in self._watched.get(c.key, ())]
            for loop, event in wanted:
                with contextlib.suppress(RuntimeError):  # its loop is closed: nobody watches
                    loop.call_soon_threadsafe(event.set)
        if self._crew is not None:
            self._crew.hear(changes)


class _Crew:
    """The loops of one app while it is at work: a worker a queue, and the sweeper."""

    def __init__(self, app: App) -> None:
        self._loop = asyncio.get_running_loop()
        self._workers = [
            Worker(app.writer, app.registry, queue=queue, at_most=app.at_most, name=app.name)
            for queue in app.registry.queues()
        ]
        self._sweeper = Sweeper(app.writer)
        self._tasks: list[asyncio.Task[None]] = []
        self._sweeping: asyncio.Task[None] | None = None

    async def start(self) -> None:
        for worker in self._workers:
            await worker.register()
        self._tasks = [asyncio.create_task(worker.run()) for worker in self._workers]
        self._sweeping = asyncio.create_task(self._sweeper.run())

    async def end(self) -> None:
        try:
            await asyncio.gather(*(worker.finish_draining() for worker in self._workers))
            await asyncio.gather(*self._tasks)
        finally:
            self._sweeper.stop()
            if self._sweeping is not None:
                await self._sweeping

    async def stopped(self) -> None:
        await asyncio.gather(*self._tasks)

    def drain(self) -> None:
        for worker in self._workers:
            self._loop.call_soon_threadsafe(worker.drain)

    def abort(self) -> None:
        for worker in self._workers:
            self._loop.call_soon_threadsafe(worker.abort)

    def hear(self, changes: list[Change]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the crew has gone home
            self._loop.call_soon_threadsafe(self._route, changes)

    def _route(self, changes: list[Change]) -> None:
        claimable: list[int] = []
        for change in changes:
            run = change.run
            if run.claim_at is not None:
                claimable.append(run.claim_at)
            if change.foreign:
                for worker in self._workers:
                    worker.hear(run)
            if run.due_at is not None:
                self._sweeper.hear(run)
        if claimable:
            for worker in self._workers:
                worker.wake_at(min(claimable))


def _who() -> str:
    """Name whoever speaks through this app, for the log."""
    try:
        return f"user:{getpass.getuser()}"
    except (KeyError, OSError):  # a container's user may have no name
        return "user"


def _states(status: str | Iterable[str]) -> list[State]:
    asked = [status] if isinstance(status, str) else list(status)
    unknown = [s for s in asked if s not in ALL]
    if unknown:
        raise BadName("status", unknown[0], "one of " + ", ".join(ALL))
    return [s for s in ALL if s in asked]
