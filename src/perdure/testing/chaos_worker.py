"""A worker process to be killed: `python -m perdure.testing.chaos_worker URL MARKS`.

It ends in good order on SIGTERM. When whoever started it is gone, however that came about, its
standard input ends, and it ends too.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading

from perdure.app import App
from perdure.testing.errand import errand, use_sheet


async def work(url: str, marks: str) -> None:
    """Work on errands until told to stop."""
    use_sheet(marks)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with App(url, workflows=[errand], name=f"chaos {os.getpid()}"):
        await stop.wait()


def _end_with_parent() -> None:
    while os.read(0, 1):
        continue
    os._exit(1)


if __name__ == "__main__":
    logging.basicConfig(format="%(process)d %(levelname)s %(name)s: %(message)s")
    threading.Thread(target=_end_with_parent, daemon=True).start()
    asyncio.run(work(*sys.argv[1:]))
