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
from perdure.engine import REAL, Surroundings
from perdure.stores import open_store
from perdure.verify import verify_store

PAUSE_S = 0.004
PATIENCE_S = 10.0


class Teller:
    """What a story needs of the world: an app over a store, answers, and patience."""

    def __init__(self, colour: str, url: str) -> None:
        self.colour, self.url = colour, url
        self._apps: list[App] = []

    def tell(self, story: Any) -> None:
        """Run a story to its end; then what it has left behind must be sound."""
        self._tell(story)
        for app in self._apps:
            store = app.store if self.url == "memory://" else open_store(self.url)
            for tenant in {app.tenant for app in self._apps}:
                report = verify_store(store, tenant)
                assert report.sound, report
            store.close()

    def _tell(self, story: Any) -> None:
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

    async def stream(self, answers: Any) -> Any:
        """Have a stream, one by one."""
        if self.colour == "async":
            async for each in answers:
                yield each
        else:
            for each in answers:
                yield each

    @contextlib.asynccontextmanager
    async def app(self, *workflows: Any, **options: Any) -> Any:
        """Have an app at work."""
        app = self._new(workflows, options)
        if self.colour == "async":
            async with app:
                yield app
        else:
            with app:
                yield app

    @contextlib.contextmanager
    def idle_app(self, *workflows: Any, **options: Any) -> Any:
        """Have an app that only asks and looks."""
        app = self._new(workflows, options)
        try:
            yield app
        finally:
            app.close()

    def _new(self, workflows: Any, options: Any) -> App:
        self._apps.append(App(self.url, workflows, **options))
        return self._apps[-1]

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

    async def sees(self, ask: Any, holds: Any) -> Any:
        """Ask again until the answer is as it should be."""
        end = time.monotonic() + PATIENCE_S
        while not holds(answer := await self(ask())):
            assert time.monotonic() < end, answer
            await self.a_moment()
        return answer

    async def becomes(self, run: Any, *statuses: str) -> None:
        """Wait until a run has one of these statuses."""
        over = {*TERMINAL, *statuses}
        record = await self.sees(run.record, lambda it: it.status in over or it.state in over)
        assert record.status in statuses, await self.all(run.events())

    async def types(self, run: Any) -> list[str]:
        """Return the types of a run's events."""
        return [event.type for event in await self.all(run.events())]


class Clock:
    """The real time, and what the story adds to it."""

    def __init__(self) -> None:
        self._later_s = 0.0

    def surroundings(self) -> Surroundings:
        return Surroundings(
            lambda: REAL.now() + int(self._later_s * 1_000_000),
            lambda: REAL.monotonic() + self._later_s,
            REAL.entropy,
        )

    def passes(self, seconds: float) -> None:
        """Let time pass, all at once."""
        self._later_s += seconds


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
