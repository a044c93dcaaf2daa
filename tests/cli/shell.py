"""Real processes of the command, and waiting for what they do."""

import json
import os
import pty
import queue
import select
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

PERDURE = [sys.executable, "-m", "perdure"]
SOON_S = 20.0
LOOK_AGAIN_S = 0.02
# makes the terminal on stdin the one of this session, as a shell in a window has it
OWN_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "os.execv(sys.argv[1], sys.argv[1:])"
)


def environment(**more: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k not in {"NO_COLOR", "PERDURE_DEBUG"}}
    return {**kept, "PERDURE_STORE": "sqlite:///runs.db", "COLUMNS": "100", **more}


def until(what: str, condition: Callable[[], object]) -> None:
    """Wait for a condition; fail when it does not come soon."""
    deadline = time.monotonic() + SOON_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(LOOK_AGAIN_S)


class Shell:
    """A folder with a user's app in it, where commands are typed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[Process] = []
        shutil.copy(Path(__file__).with_name("shop.py"), folder / "shop.py")

    def __call__(
        self, *arguments: str, stdin: str = "", **more: str
    ) -> subprocess.CompletedProcess:
        return subprocess.run(
            [*PERDURE, *arguments],
            cwd=self.folder,
            env=environment(**more),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=SOON_S,
            check=False,
        )

    def said(self, *arguments: str, stdin: str = "", **more: str) -> str:
        """What a command that must do well prints."""
        done = self(*arguments, stdin=stdin, **more)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def json(self, *arguments: str):
        return json.loads(self.said(*arguments, "--json"))

    def refused(self, *arguments: str, code: int, **more: str) -> str:
        """What a command that must fail so says on stderr: never a traceback."""
        done = self(*arguments, **more)
        assert done.returncode == code, (done.stdout, done.stderr)
        assert done.stderr.startswith("error: ")
        assert "Traceback" not in done.stderr
        return done.stderr

    def begin(self, *arguments: str) -> "Process":
        process = Process([*PERDURE, *arguments], self.folder)
        self.started.append(process)
        return process

    def start(self, workflow: str, arguments: str = "{}", *more: str) -> str:
        return self.said("run", "shop:app", workflow, arguments, *more).strip()

    def status(self, run_id: str) -> str:
        return self.json("show", run_id)["run"]["status"]

    def reaches(self, run_id: str, status: str) -> None:
        """Wait until a run is in a status; ask the library, which is quicker than a process."""
        from perdure import App

        app = App(f"sqlite:///{self.folder / 'runs.db'}", create=False)
        try:
            until(f"the run is {status}", lambda: app.status(run_id).wait() == status)
        finally:
            app.close()

    def file(self, name: str) -> str:
        path = self.folder / name
        return path.read_text() if path.exists() else ""

    def close(self) -> None:
        for process in self.started:
            process.end()


class Process:
    """A command that goes on, with what it says on stderr line by line."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._process.stderr:
            self._lines.put(line)

    def says(self, words: str) -> str:
        """Wait for a line on stderr with these words in it."""
        while True:
            line = self._lines.get(timeout=SOON_S)
            if words in line:
                return line

    def hears(self, number: int) -> None:
        self._process.send_signal(number)

    def ends(self) -> tuple[int, str]:
        """Wait for its end; return its code and what it printed, if we listen."""
        printed = "" if self._process.stdout.closed else self._process.stdout.read()
        return self._process.wait(SOON_S), printed

    def said(self) -> str:
        """Wait for its end; return what it said on stderr and nobody has waited for."""
        self._reader.join(SOON_S)
        return "".join(self._lines.queue)

    def prints(self) -> str:
        """Wait for its next line on stdout."""
        return self._process.stdout.readline()

    def stops_listening(self) -> None:
        """Close our end of its stdout."""
        self._process.stdout.close()

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._reader.join()
        self._process.stdout.close()
        self._process.stderr.close()


class Terminal:
    """A command on a terminal of its own: what it draws, and keys for it."""

    def __init__(self, *arguments: str, folder: Path, **more: str) -> None:
        self._ours, theirs = pty.openpty()
        self._process = subprocess.Popen(
            [sys.executable, "-c", OWN_TERMINAL, *PERDURE, *arguments],
            cwd=folder,
            env=environment(TERM="xterm-256color", LINES="40", **more),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self.drawn = ""

    def shows(self, words: str) -> None:
        """Wait until these words were drawn."""
        while words not in self.drawn and self._read():
            continue
        assert words in self.drawn, self.drawn[-2000:]

    def press(self, key: str) -> None:
        os.write(self._ours, key.encode())

    def ends(self) -> int:
        """Read to its end and return its code."""
        while self._read():
            continue
        os.close(self._ours)
        return self._process.wait(SOON_S)

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def _read(self) -> bool:
        """Take in what was drawn; False when there will be nothing more."""
        ready, _, _ = select.select([self._ours], [], [], SOON_S)
        try:
            piece = os.read(self._ours, 65536) if ready else b""
        except OSError:  # the last process has closed its end
            return False
        self.drawn += piece.decode(errors="replace")
        return bool(piece)
