"""A small world for the door: clock and dice in the test's hand, a store one can look into."""

from __future__ import annotations

import random
from typing import Any

import msgspec

from perdure.core import commands as c
from perdure.core.payload import digest, pack
from perdure.core.run import Run
from perdure.engine import Door, Surroundings
from perdure.engine.asks import Beat, Claimed, Do, Done, Start, Sweep, Take
from perdure.store import Changes, Worker

T = "acme"
S = 1_000_000
ONE = msgspec.Raw(b"1")


class Clock:
    """Time stands still until it is told to pass. `jumps` moves the wall clock alone."""

    def __init__(self) -> None:
        self.wall, self.steady = 1_700_000_000 * S, 1_000.0
        self.dice = random.Random(7)

    def passes(self, seconds: float) -> None:
        self.jumps(seconds)
        self.steady += seconds

    def jumps(self, seconds: float) -> None:
        self.wall += int(seconds * S)

    def surroundings(self) -> Surroundings:
        return Surroundings(lambda: self.wall, lambda: self.steady, self.dice.randbytes)


class Watched:
    """A store that remembers what was written, and refuses to write certain runs."""

    def __init__(self, store: Any) -> None:
        self.store, self.written, self.refuses = store, [], set()
        self.begun = 0

    def begin(self) -> WatchedGroup:
        self.begun += 1
        return WatchedGroup(self, self.store.begin())

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    @property
    def last(self) -> Changes:
        return self.written[-1]


class WatchedGroup:
    """A group of such a store."""

    def __init__(self, watched: Watched, group: Any) -> None:
        self._watched, self._group = watched, group

    def write(self, changes: Changes) -> None:
        bad = self._watched.refuses & {row[1] for row in changes.log}
        if bad:
            raise OSError(f"the disk does not like {sorted(bad)}")
        self._group.write(changes)
        self._watched.written.append(changes)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._group, name)


class World:
    """A door over a store, and the asks that tests make."""

    def __init__(self, store: Any, clock: Clock) -> None:
        self.store, self.clock = Watched(store), clock
        self.door = Door(self.store, clock.surroundings())

    # asks

    def start(self, key: str | None = None, value: Any = 1, **said: Any) -> Start:
        payload = pack({"n": value}, "the input")
        run_id, profile = said.pop("run_id", None), said.pop("profile", "standard")
        workflow, tenant = said.pop("workflow", "w"), said.pop("tenant", T)
        create = c.Create(workflow, "q", 5, digest(payload), key=key, **said)
        return Start(tenant, run_id, profile, create, payload, "me")

    def beat(self, worker: str, lease_s: float = 10.0) -> Beat:
        until = self.clock.wall + int(lease_s * S)
        return Beat(Worker(worker, "name", "host", 1, self.clock.wall, until))

    # what tests do with them

    def started(self, **said: Any) -> str:
        return self.door.call(self.start(**said)).run_id

    def registered(self, worker: str, lease_s: float = 10.0) -> bool:
        self.store.hold(worker)
        return self.door.call(self.beat(worker, lease_s))

    def claims(self, worker: str, limit: int = 10) -> list[Claimed]:
        return self.door.call(Take(worker, "q", ("w",), limit))

    def held(self, worker: str, **said: Any) -> Run:
        """Start a run and have a new worker claim it."""
        self.registered(worker)
        run_id = self.started(**said)
        return next(it.run for it in self.claims(worker) if it.run.id == run_id)

    def do(self, run_id: str, command: c.Command) -> Done:
        return self.door.call(asks(run_id, command))

    def step(self, run: Run, name: str, output: msgspec.Raw = ONE) -> Done:
        return self.do(run.id, succeed(run, name, output))

    def sweeps(self, worker: str = "") -> Any:
        return self.door.call(Sweep(worker, 100))

    # what tests look at

    def run(self, run_id: str) -> Run:
        return self.store.find(T, run_id).run

    def types(self, run_id: str) -> list[str]:
        entries = self.store.entries(T, run_id)
        return [event.__struct_config__.tag for entry in entries for event in entry.events]


def succeed(run: Run, name: str, output: msgspec.Raw = ONE) -> c.SucceedStep:
    """Return the report of a short step by the run's holder."""
    return c.SucceedStep(run.token, c.Call(name), run.updated_at, output)


def asks(run_id: str, command: c.Command) -> Do:
    """Return the ask of a command, with the payload that an end brings for its run's data."""
    output = command.output if isinstance(command, c.Finish) else None
    error = pack(command.error, "the error") if isinstance(command, c.Fail) else None
    return Do(T, run_id, command, "me", None, output, error)


def finish(run: Run) -> c.Finish:
    """Return the report of a workflow that has returned."""
    return c.Finish(run.token, ONE, digest(ONE))


def signal(run_id: str, name: str = "go", key: str | None = None) -> Do:
    """Return an ask that anybody may make."""
    return Do(T, run_id, c.Signal(name, ONE), "somebody", key)
