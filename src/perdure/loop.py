"""Do this again and again until told to stop; sleep longer when there is nothing; wake early."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from perdure.core.errors import Closed
from perdure.core.limits import POLL_LONGEST_S, POLL_SHORTEST_S

_log = logging.getLogger("perdure.loop")


class Loop:
    """One loop. A turn says whether it found anything to do."""

    def __init__(self, name: str, turn: Callable[[], Awaitable[bool]]) -> None:
        self.name, self._turn = name, turn
        self._early = asyncio.Event()
        self._stopping = False
        self._alarm: asyncio.TimerHandle | None = None

    def wake(self) -> None:
        """Take the next turn now."""
        self._early.set()

    def wake_within(self, seconds: float) -> None:
        """Take a turn no later than this, whatever the pause is by then."""
        loop = asyncio.get_running_loop()
        at = loop.time() + max(seconds, 0.0)
        if self._alarm is None or not loop.time() < self._alarm.when() <= at:
            if self._alarm is not None:
                self._alarm.cancel()
            self._alarm = loop.call_at(at, self.wake)

    def stop(self) -> None:
        """Take no further turn."""
        self._stopping = True
        self._early.set()

    async def run(self) -> None:
        """Turn until stopped. An error is logged and the loop goes on, more slowly."""
        pause_s = POLL_SHORTEST_S
        while not self._stopping:
            self._early.clear()
            try:
                busy = await self._turn()
            except Closed:
                return
            except Exception:
                _log.exception("%s: a turn failed; it will be tried again", self.name)
                busy, pause_s = False, POLL_LONGEST_S
            if busy:
                pause_s = POLL_SHORTEST_S
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._early.wait()
                pause_s = POLL_SHORTEST_S
                continue
            pause_s = min(pause_s * 2, POLL_LONGEST_S)
