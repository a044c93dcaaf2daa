"""`perdure work`: a process that works on runs until it is told to stop.

The first signal drains: what runs goes on to its next boundary and is given back. The second one
gives everything back at once; the bodies that are cut off run again elsewhere. A third one finds
nobody at home and ends the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from typing import Final

import click

from perdure.app import App
from perdure.cli.apps import load_app
from perdure.cli.paper import clean

# A thread that computes holds up the others for a tenth of what Python does by default.
_SWITCH_INTERVAL_S: Final = 0.0005
_CUT_OFF: Final = 1
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


@click.command()
@click.argument("where", metavar="MODULE:APP")
def work(where: str) -> int:
    """Work on the runs of an app until told to stop.

    SIGTERM or Ctrl-C lets the bodies that run finish and gives the runs back; once more, and
    they are cut off and run again elsewhere. The exit code is 0, or 1 when they were cut off.
    """
    speak_on_stderr()
    app = load_app(where)
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    asyncio.run(_Shift(app).work())
    return 0


class _Shift:
    """One worker process from its first line to its last."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._told = asyncio.Event()
        self._signals = 0

    async def work(self) -> None:
        """Work until told to stop and nothing is in hand any more, or told twice."""
        names = ", ".join(self._app.registry.all_names())
        async with self._app as app:
            self._listen()
            say(f"at work on {app.store.url}, workflows {names}, process {os.getpid()}")
            idle = asyncio.create_task(app.idle())
            told = asyncio.create_task(self._told.wait())
            await asyncio.wait({idle, told}, return_when=asyncio.FIRST_COMPLETED)
            told.cancel()
            await idle
        say("stopped")
        if self._signals > 1:
            # a body on a thread, which nobody can stop, may go on; its run was given back
            sys.stderr.flush()
            os._exit(_CUT_OFF)

    def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._hear, number)

    def _hear(self, number: int) -> None:
        self._signals += 1
        name = signal.Signals(number).name
        if self._signals == 1:
            say(f"{name}: finishing what runs; once more cuts it off")
            self._app.drain()
            self._told.set()
            return
        say(f"{name} again: giving everything back now")
        self._app.abort()
        loop = asyncio.get_running_loop()
        for each in _SIGNALS:
            loop.remove_signal_handler(each)
            signal.signal(each, signal.SIG_DFL)


def say(text: str) -> None:
    """Say one line on stderr, where the log goes too."""
    with contextlib.suppress(BrokenPipeError):  # whoever listened has gone; the work goes on
        click.echo(f"perdure: {clean(text)}", err=True)


def speak_on_stderr() -> None:
    """Let warnings of the engine be lines like the command's own."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("perdure: %(message)s"))
    log = logging.getLogger("perdure")
    log.addHandler(handler)
    log.propagate = False
