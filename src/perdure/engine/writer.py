"""The writer: one thread for a process, a queue before it, groups of what has gathered.

Nothing is delayed on purpose: a group is what came in while the last one was being committed.
Answers go back a whole group at a time, one hop a loop, because waking another thread costs more
than deciding a command.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from concurrent.futures import Future
from typing import Any, TypeAlias

from perdure.core.errors import Closed, LimitExceeded
from perdure.core.limits import GROUP_COMMANDS, QUEUE_COMMANDS
from perdure.engine.asks import Answer, Ask, Beat, Outcome
from perdure.engine.door import Door

_CLOSED = "the app is closed; nothing was written"
_Waiter: TypeAlias = "asyncio.Future[Any] | Future[Any]"


class Writer:
    """Puts asks before the door from any thread and any event loop."""

    def __init__(self, door: Door) -> None:
        self.door = door
        self._queue: deque[tuple[Ask, _Waiter, asyncio.AbstractEventLoop | None]] = deque()
        self._wake = threading.Condition()
        self._asleep = self._closing = self._ended = False
        self._thread = threading.Thread(target=self._run, name="perdure-writer", daemon=True)
        self._thread.start()

    def ask(self, ask: Ask, loop: asyncio.AbstractEventLoop | None = None) -> asyncio.Future[Any]:
        """Ask from the running event loop; the answer is there once it is committed.

        Who asks often says which loop that is: before Python 3.12 finding out costs a system call.
        """
        if loop is None:
            loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._put(ask, future, loop)
        return future

    def call(self, ask: Ask) -> Answer:
        """Ask from a thread without an event loop, and wait."""
        future: Future[Answer] = Future()
        self._put(ask, future, None)
        return future.result()

    def close(self) -> None:
        """Work off what was asked and stop; later asks are refused."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        self._thread.join()

    def _put(self, ask: Ask, waiter: _Waiter, loop: asyncio.AbstractEventLoop | None) -> None:
        if self._closing:
            raise Closed(_CLOSED)
        if isinstance(ask, Beat):
            self._queue.appendleft((ask, waiter, loop))  # a lease must not wait behind the work
        elif len(self._queue) >= QUEUE_COMMANDS:
            raise LimitExceeded("commands waiting at the door", QUEUE_COMMANDS, QUEUE_COMMANDS + 1)
        else:
            self._queue.append((ask, waiter, loop))
        if self._asleep:
            with self._wake:
                self._wake.notify()
        if self._ended:
            self._refuse_rest()

    def _run(self) -> None:
        queue = self._queue
        while True:
            if not queue:
                with self._wake:
                    self._asleep = True
                    # looked at again after `_asleep` is set, so no put can be missed
                    while not queue and not self._closing:
                        self._wake.wait()
                    self._asleep = False
                if not queue:
                    self._ended = True
                    self._refuse_rest()
                    return
            batch = [queue.popleft() for _ in range(min(GROUP_COMMANDS, len(queue)))]
            outcomes = self.door.commit([ask for ask, _, _ in batch])
            self._settle(batch, outcomes)

    def _refuse_rest(self) -> None:
        """Refuse what was asked while the thread was ending: nobody else would ever answer it."""
        with contextlib.suppress(IndexError):  # empty, or another thread refuses too
            while True:
                asked = self._queue.popleft()
                self._settle([asked], [Outcome(None, Closed(_CLOSED))])

    def _settle(
        self,
        batch: list[tuple[Ask, _Waiter, asyncio.AbstractEventLoop | None]],
        outcomes: list[Outcome],
    ) -> None:
        loops: dict[asyncio.AbstractEventLoop, list[tuple[_Waiter, Outcome]]] = {}
        for (_, waiter, loop), outcome in zip(batch, outcomes, strict=True):
            if loop is None:
                _set(waiter, outcome)
            elif loop in loops:
                loops[loop].append((waiter, outcome))
            else:
                loops[loop] = [(waiter, outcome)]
        for loop, answers in loops.items():
            try:
                loop.call_soon_threadsafe(_set_all, answers)
            except RuntimeError:  # the loop was closed while it waited: nobody listens any more
                self.door.log.debug("%d answers for a closed loop", len(answers))


def _set_all(answers: list[tuple[_Waiter, Outcome]]) -> None:
    for waiter, outcome in answers:
        _set(waiter, outcome)


def _set(waiter: _Waiter, outcome: Outcome) -> None:
    if waiter.done():  # the caller was cancelled while it waited
        return
    if outcome.error is not None:
        waiter.set_exception(outcome.error)
    else:
        waiter.set_result(outcome.answer)
