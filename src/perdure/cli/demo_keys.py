"""Single keys from a terminal, without waiting for them; from anything else there are none."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from types import TracebackType
from typing import Any, Self


class Keys:
    """The keyboard, for as long as it is entered. `there` says whether somebody could press one."""

    def __init__(self) -> None:
        self._stdin = -1
        self._before: list[Any] = []
        self.there = False

    def __enter__(self) -> Self:
        try:
            self._stdin = sys.stdin.fileno()
            # in the background, or without a terminal, nobody can press anything
            self.there = os.isatty(self._stdin) and os.tcgetpgrp(self._stdin) == os.getpgrp()
        except (OSError, ValueError, AttributeError):
            self.there = False
        if self.there:
            self._before = termios.tcgetattr(self._stdin)
            tty.setcbreak(self._stdin)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.there:
            termios.tcsetattr(self._stdin, termios.TCSADRAIN, self._before)

    def forget(self) -> None:
        """Forget what was pressed before there was a question."""
        if self.there:
            termios.tcflush(self._stdin, termios.TCIFLUSH)

    def pressed(self) -> str:
        """Return the key that was pressed, in lower case; nothing when none was."""
        if self.there and select.select([self._stdin], [], [], 0)[0]:
            return os.read(self._stdin, 1).decode(errors="replace").lower()
        return ""
