"""One method, two colours: await an answer in async code, or `wait()` for it in blocking code."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator
from typing import Any, Generic, TypeVar

from perdure.core.errors import Closed, NotInRun

T = TypeVar("T")


class Portal:
    """An event loop on a thread of its own, for callers that have none. Made when first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there and wait for it."""
        if asyncio._get_running_loop() is not None:  # noqa: SLF001 - the public one raises
            work.close()
            raise NotInRun("wait() would block the event loop it runs in; write 'await' instead")
        try:
            loop = self._running()
        except Closed:
            work.close()
            raise
        future = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise

    def close(self) -> None:
        """Stop the loop, if there is one."""
        with self._lock:
            loop, thread, self._loop = self._loop, self._thread, None
            self._closed = True
        if loop is not None and thread is not None:
            asyncio.run_coroutine_threadsafe(_wind_up(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._closed:
                raise Closed("the app is closed; nothing was asked")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="perdure-portal", daemon=True
                )
                self._thread.start()
            return self._loop


class Answer(Generic[T]):
    """What a method will answer: `await` it, or call `wait()` where there is no event loop."""

    __slots__ = ("_portal", "_work")

    def __init__(self, portal: Portal, work: Coroutine[Any, Any, T]) -> None:
        self._portal, self._work = portal, work

    def __await__(self) -> Generator[Any, None, T]:
        return self._work.__await__()

    def wait(self) -> T:
        """Block until the answer is there, and return it."""
        return self._portal.run(self._work)


class Answers(Generic[T]):
    """A stream: `async for` it, or iterate over it where there is no event loop."""

    def __init__(self, portal: Portal, make: Callable[[], AsyncIterator[T]]) -> None:
        self._portal, self._make = portal, make

    def __aiter__(self) -> AsyncIterator[T]:
        return self._make()

    def __iter__(self) -> Iterator[T]:
        stream = self._make()
        while True:
            try:
                yield self._portal.run(_next(stream))
            except StopAsyncIteration:
                return


async def _next(stream: AsyncIterator[T]) -> T:
    return await anext(stream)


async def _wind_up() -> None:
    """End what nobody waits for any more: a loop that stops under it would complain."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()
