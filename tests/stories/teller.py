"""Tells a story in either colour: a story says `await it(answer)`, and never knows which one it is.

In the async colour that awaits. In the blocking colour it calls `wait()`, and the story's own
coroutine never waits for anything: it is run to its end by hand, without an event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from typing import Any

from perdure import App
from perdure.core.states import TERMINAL

PAUSE_S = 0.004
PATIENCE_S = 10.0


class Teller:
    """What a story needs of the world: an app over a store, answers, and patience."""

    def __init__(self, colour: str, url: str) -> None:
        self.colour, self.url = colour, url

    def tell(self, story: Any) -> None:
        """Run a story to its end."""
        if self.colour == "async":
            asyncio.run(story)
            return
        try:
            story.send(None)
        except StopIteration:
            return
        story.close()
        raise AssertionError("a blocking story has awaited something by itself")

    async def __call__(self, answer: Any) -> Any:
        """Have an answer."""
        return await answer if self.colour == "async" else answer.wait()

    async def all(self, answers: Any) -> list[Any]:
        """Have a whole stream."""
        if self.colour == "async":
            return [each async for each in answers]
        return list(answers)

    @contextlib.asynccontextmanager
    async def app(self, *workflows: Any, **options: Any) -> Any:
        """Have an app at work."""
        app = App(self.url, workflows, **options)
        if self.colour == "async":
            async with app:
                yield app
        else:
            with app:
                yield app

    @contextlib.contextmanager
    def idle_app(self, *workflows: Any, **options: Any) -> Any:
        """Have an app that only asks and looks."""
        app = App(self.url, workflows, **options)
        try:
            yield app
        finally:
            app.close()

    # patience

    async def a_moment(self) -> None:
        """Let others go on."""
        if self.colour == "async":
            await asyncio.sleep(PAUSE_S)
        else:
            threading.Event().wait(PAUSE_S)

    async def until(self, look: Any) -> None:
        """Wait until what one looks at is true."""
        end = time.monotonic() + PATIENCE_S
        while not look():
            assert time.monotonic() < end, "waited in vain"
            await self.a_moment()

    async def becomes(self, run: Any, *statuses: str) -> str:
        """Wait until a run has one of these statuses."""
        end = time.monotonic() + PATIENCE_S
        while (status := await self(run.status())) not in statuses:
            late = time.monotonic() > end or (await self(run.record())).state in TERMINAL
            assert not late, f"{status}: {await self.all(run.events())}"
            await self.a_moment()
        return status

    async def types(self, run: Any) -> list[str]:
        """Return the types of a run's events."""
        return [event.type for event in await self.all(run.events())]


class Gate:
    """Something a step waits for, on the loop or on a thread, until the story opens it."""

    def __init__(self) -> None:
        self._open, self._reached = threading.Event(), threading.Event()
        self._sleepers: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    def open(self) -> None:
        """Let everybody pass, now and later."""
        self._open.set()
        for loop, event in self._sleepers:
            with contextlib.suppress(RuntimeError):  # its loop is closed: nobody waits there
                loop.call_soon_threadsafe(event.set)

    def reached(self) -> bool:
        """Say whether somebody stands before it, or has."""
        return self._reached.is_set()

    def wait(self) -> None:
        """Wait on a thread."""
        self._reached.set()
        assert self._open.wait(PATIENCE_S)

    async def passed(self) -> None:
        """Wait on an event loop."""
        event = asyncio.Event()
        self._sleepers.append((asyncio.get_running_loop(), event))
        self._reached.set()
        if not self._open.is_set():
            await event.wait()
