"""What can be seen of the demo at a moment: the run's events, its workers, the marks of its bodies.

Everything is read from outside, as any other process could: from the store and from one file.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

from perdure.app import App
from perdure.cli.steps import Step, steps_of
from perdure.core.events import Recorded
from perdure.core.explain import Explanation
from perdure.core.record import recorded

PLAN = ("reserve", "invoice", "charge", "release payment", "ship", "receipt")
GATE = "release payment"
VICTIM = "charge"


class Mark(NamedTuple):
    """What a body left behind when it began or finished, in which process, under which key."""

    step: str
    what: str
    pid: int
    key: str


class Scene:
    """The demo as it stands. `look` brings it up to date."""

    def __init__(self, app: App, run_id: str, marks: Path) -> None:
        self.app, self.run_id = app, run_id
        self.began = time.monotonic()
        self.events: list[Recorded] = []
        self.steps: dict[str, Step] = {}
        self.marks: list[Mark] = []
        # when a body was first seen to have begun, in a process
        self.begun: dict[tuple[str, int], float] = {}
        self.pids: dict[str, int] = {}
        # the process that was killed, and when, by the clock the events go by
        self.killed: int | None = None
        self.killed_at = 0
        self.told = ""
        self.explanation: Explanation
        self._file = marks
        self.look()

    @property
    def elapsed(self) -> float:
        """Seconds since the demo began."""
        return time.monotonic() - self.began

    def has_killed(self, pid: int) -> None:
        """Remember that a process was killed just now."""
        self.killed, self.killed_at = pid, time.time_ns() // 1000

    def look(self) -> None:
        """Look again."""
        app = self.app
        # a worker registers before it speaks, so whoever speaks below is known here
        seen = self.events[-1].seq if self.events else 0
        entries = app.store.entries(app.tenant, self.run_id, seen)
        self.pids.update((worker.worker, worker.pid) for worker in app.store.workers())
        if entries:
            self.events.extend(event for entry in entries for event in recorded(entry))
            self.steps = {step.id: step for step in steps_of(self.events)}
        self.explanation = app.explain(self.run_id).wait()
        self.marks = read_marks(self._file)
        for mark in self.marks:
            self.begun.setdefault((mark.step, mark.pid), self.elapsed)

    def running(self, step: str) -> int | None:
        """Return the process in which a body runs now: it has begun, not finished, not died."""
        pids = [mark.pid for mark in self.marks if mark.step == step and mark.what == "began"]
        finished = {m.pid for m in self.marks if m.step == step and m.what == "finished"}
        alive = [pid for pid in pids if pid not in finished and pid != self.killed]
        return alive[-1] if alive else None

    def who(self, actor: str) -> str:
        """Return who speaks, as a person reads it."""
        if actor in self.pids:
            return f"process {self.pids[actor]}"
        return "you" if actor == self.app.actor else actor

    def has(self, kind: str, step: str | None = None) -> bool:
        """Say whether an event has happened, of this step if one is named."""
        return any(
            e.type == kind and step in {None, getattr(e.event, "step", None)} for e in self.events
        )


def read_marks(path: Path) -> list[Mark]:
    """Read the marks that bodies left; a line that is being written is not there yet."""
    whole = [line for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
    marks = []
    for line in whole:
        step, what, pid, key = line.split()
        marks.append(Mark(step, what, int(pid), key))
    return marks
