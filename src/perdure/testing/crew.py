"""Real worker processes: started, killed without warning, stopped in their tracks, replaced.

Each is in a process group of its own, so that Ctrl-C at the terminal reaches the controlling
process alone. None outlives it: a worker ends when its standard input does, and one that is
stopped is continued by the kernel when its group is orphaned.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from perdure.testing.errand import Mark, read_marks


class Kill(NamedTuple):
    """A worker process that was killed: when, and under which names it had registered."""

    pid: int
    at: int
    workers: tuple[str, ...]
    writing: bool


class Hand:
    """One worker process."""

    def __init__(self, url: str, marks: Path, log: Path) -> None:
        command = [sys.executable, "-m", "perdure.testing.chaos_worker", url, str(marks)]
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=errors, stderr=errors, process_group=0
            )
        self.pid = self._process.pid
        self.born_at = time.monotonic()

    def kill(self) -> None:
        """End it now, as a power cut would; collect it."""
        self._process.kill()
        self._bury()

    def pause(self) -> None:
        """Stop it where it stands; return when it does."""
        self._process.send_signal(signal.SIGSTOP)
        os.waitpid(self.pid, os.WUNTRACED)

    def resume(self) -> None:
        """Let it go on as if nothing had happened."""
        self._process.send_signal(signal.SIGCONT)

    def ask_to_end(self) -> None:
        """Ask it to end in good order."""
        self._process.terminate()

    def ended(self) -> int | None:
        """Return its exit status once it has ended."""
        status = self._process.poll()
        if status is not None:
            self._bury()
        return status

    def _bury(self) -> None:
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()


class Crew:
    """The workers of one file, and the marks that all of them leave."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url, self._database = url, folder / "runs.db"
        self._marks, self._log = folder / "marks", folder / "workers.log"
        self._marks.touch()
        self._read_to = 0
        self.hands: list[Hand] = []
        self.leaving: list[Hand] = []
        self.marks: list[Mark] = []
        self.claims: dict[int, int] = {}

    def hire(self) -> Hand:
        """Start one more."""
        hand = Hand(self._url, self._marks, self._log)
        self.hands.append(hand)
        return hand

    def kill(self, hand: Hand) -> bool:
        """Kill one; say whether it was just writing to the database."""
        writing = self.is_writing(hand)
        hand.kill()
        self.hands.remove(hand)
        return writing

    def let_go(self, hand: Hand) -> None:
        """Ask one to give back what it holds and to end."""
        hand.ask_to_end()
        self.hands.remove(hand)
        self.leaving.append(hand)

    def all_left(self) -> bool:
        """Say whether all that were asked to end have done so."""
        return all(hand.ended() is not None for hand in self.leaving)

    def is_writing(self, hand: Hand) -> bool:
        """Say whether a worker has the right to write, or stands first in line for it."""
        return any(_holder_of(f"{self._database}.{lock}") == hand.pid for lock in ("write", "turn"))

    def look(self) -> None:
        """Read the marks that are new."""
        with self._marks.open("rb") as file:
            file.seek(self._read_to)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._read_to += len(whole)
        new = read_marks(whole.decode())
        self.marks += new
        for mark in new:
            if mark.what == "claimed":
                self.claims[mark.pid] = self.claims.get(mark.pid, 0) + 1

    def complaints(self) -> list[str]:
        """Return what the workers have said that nobody should have to read."""
        text = self._log.read_text(encoding="utf-8", errors="replace")
        return [
            line
            for line in text.splitlines()
            if (" ERROR " in line and "was found dead" not in line) or "Traceback" in line
        ]

    def disband(self) -> None:
        """Kill everybody who is left."""
        for hand in (*self.hands, *self.leaving):
            hand.kill()


def _holder_of(path: str) -> int | None:
    """Return the process that holds a lock file, where the system tells."""
    try:
        number = os.stat(path).st_ino
        locks = Path("/proc/locks").read_text(encoding="ascii")
    except OSError:
        return None
    for line in locks.splitlines():
        words = line.split()
        if "->" not in words and words[5].split(":")[-1] == str(number):
            return int(words[4])
    return None
