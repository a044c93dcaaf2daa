"""The story the demo tells: a worker is killed while it charges, another one goes on.

The workers are real processes. Whatever happens here, they are ended when the story ends.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self

from perdure.cli.demo_keys import Keys
from perdure.cli.demo_scene import GATE, VICTIM, Scene
from perdure.core.errors import PerdureError
from perdure.core.states import STEP_WAITING

_LOOK_EVERY_S: Final = 0.06
_STARTS_WITHIN_S: Final = 20.0
_STOPS_WITHIN_S: Final = 5.0
# long enough to see that nobody holds the run and nothing is lost
_MOURN_S: Final = 1.4
_PERSON_HAS_S: Final = 20.0
_NOBODY_HAS_S: Final = 2.0


class NotAsTold(PerdureError):
    """The story went another way than it is told."""


class View(Protocol):
    """Where the story is shown."""

    def draw(self, scene: Scene) -> None:
        """Show how things stand."""

    def ask(self, scene: Scene, left_s: float, *, person: bool) -> None:
        """Show the question a person is to answer, and how long it stays."""


class Workers:
    """The worker processes of the demo, ended when it ends."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.all: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self.all:  # in good order it was stopped before
            process.kill()
            process.wait()

    def start(self) -> subprocess.Popen[bytes]:
        """Start `perdure work` on the purchase, exactly as one would in a shell."""
        command = [sys.executable, "-m", "perdure", "work", "perdure.cli.demo_purchase:app"]
        with self._log(len(self.all) + 1).open("wb") as log:
            process = subprocess.Popen(
                command,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C comes to the demo, which ends its workers itself
            )
        self.all.append(process)
        return process

    def assert_alive(self) -> None:
        """Raise when the last worker has ended, with what it said."""
        if self.all and self.all[-1].poll() is not None:
            said = self._log(len(self.all)).read_text(errors="replace").strip()
            raise NotAsTold(f"a worker ended by itself: {said[-400:] or 'it said nothing'}")

    def _log(self, number: int) -> Path:
        return self._folder / f"worker-{number}.log"


class Story:
    """The scenes in their order."""

    def __init__(self, scene: Scene, workers: Workers, view: View, keys: Keys) -> None:
        self.scene, self._workers, self._view, self._keys = scene, workers, view, keys

    def play(self, *, at_once: bool) -> None:
        """Play it to its end; `at_once` answers the approval without asking anybody."""
        scene = self.scene
        first = self._work_until_killed()
        self._tell(f"Process {first} is gone: no cleanup, no goodbye. What it had done is stored.")
        self._pause(_MOURN_S)
        second = self._workers.start().pid
        self._tell(f"Worker 2 is process {second}. It finds the dead worker's lock free.")
        self._until("the run is taken over", lambda: scene.has("run.interrupted"))
        self._tell("It takes the run over. Steps that are done are remembered, not repeated.")
        self._until(
            "the approval is open",
            lambda: GATE in scene.steps and scene.steps[GATE].state == STEP_WAITING,
        )
        yes, by = self._ask(at_once=at_once)
        scene.app.approve(scene.run_id, GATE, answer=yes, by=by).wait()
        self._until("the run is over", lambda: not scene.explanation.possible)
        self._tell("The run is over. Worker 2 is told to stop, and does.")
        self._pause(_LOOK_EVERY_S)
        stop(self._workers.all[-1])

    def _work_until_killed(self) -> int:
        scene = self.scene
        self._tell("The run is stored. No worker is there yet, and it does not mind.")
        self._pause(_MOURN_S / 2)
        worker = self._workers.start()
        self._tell(f"Worker 1 is process {worker.pid}. It will be killed while it charges.")
        self._until("the body of charge has begun", lambda: scene.running(VICTIM) is not None)
        self._tell("The bank is slow. As soon as the start is on record: kill -9.")
        self._until("its start is on record", lambda: scene.has("step.started", VICTIM))
        self._pause(_MOURN_S / 4)
        worker.kill()
        worker.wait()
        scene.has_killed(worker.pid)
        return worker.pid

    def _ask(self, *, at_once: bool) -> tuple[bool, str]:
        """Ask whoever is there for so long; then the answer is yes. Say who gave it, too."""
        person = self._keys.there and not at_once
        patience_s = 0.0 if at_once else _PERSON_HAS_S if person else _NOBODY_HAS_S
        self._tell("The run waits for a person. No process holds it, none needs to run.")
        self._keys.forget()
        asked_at = time.monotonic()
        while (left_s := asked_at + patience_s - time.monotonic()) > 0:
            self.scene.look()
            self._view.ask(self.scene, left_s, person=person)
            key = self._keys.pressed()
            if key in {"y", "n"}:
                self._tell("You said yes." if key == "y" else "You said no.")
                return key == "y", ""
            time.sleep(_LOOK_EVERY_S)
        why = "--yes was given" if at_once else "nobody answered" if person else "nobody is here"
        self._tell(f"The demo said yes by itself: {why}.")
        return True, "the demo"

    def _tell(self, text: str) -> None:
        self.scene.told = text
        self.scene.look()
        self._view.draw(self.scene)

    def _pause(self, seconds: float) -> None:
        """Let a person read."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.scene.look()
            self._view.draw(self.scene)
            time.sleep(min(left, _LOOK_EVERY_S))

    def _until(self, what: str, done: Callable[[], bool]) -> None:
        until = time.monotonic() + _STARTS_WITHIN_S
        while True:
            self.scene.look()
            self._view.draw(self.scene)
            if done():
                return
            self._workers.assert_alive()
            if time.monotonic() > until:
                raise NotAsTold(f"waited {_STARTS_WITHIN_S:.0f} s until {what}, in vain")
            time.sleep(_LOOK_EVERY_S)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ask a process to stop; end it when it does not."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_STOPS_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
