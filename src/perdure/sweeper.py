"""THE CLOCK: what is due gets its tick, what lost its worker is freed."""

from __future__ import annotations

import logging

from perdure.core.limits import CLAIM_RUNS
from perdure.core.run import Run
from perdure.engine import Writer
from perdure.engine.asks import Sweep, Swept
from perdure.loop import Loop

_log = logging.getLogger("perdure.sweeper")


class Sweeper:
    """Asks the door, again and again, to do what time has done."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._loop = Loop("sweeper", self._sweep)

    async def run(self) -> None:
        """Sweep until stopped."""
        await self._loop.run()

    def stop(self) -> None:
        """Stop after this turn."""
        self._loop.stop()

    def hear(self, run: Run) -> None:
        """A run has changed: be there when it is due."""
        if run.due_at is not None:
            now = self._writer.door.surroundings.now()
            self._loop.wake_within((run.due_at - now) / 1_000_000)

    async def _sweep(self) -> bool:
        # in nobody's name: a worker of this process whose lease is past is as lost as any other
        swept: Swept = await self._writer.ask(Sweep("", CLAIM_RUNS))
        for worker in swept.lost:
            _log.warning("worker %s is gone; its runs are free again", worker)
        return swept.ticked > 0
