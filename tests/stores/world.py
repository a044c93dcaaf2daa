"""What the tests of stores and of verify share: values to write, and a door with its own clock.

`birth` and `goes_on` make rows and log rows as the door would, without a door; `World` is a door
over a store, with time and identity in the test's hand.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from itertools import count

import msgspec

from perdure import profiles
from perdure.core import commands as c
from perdure.core import events as e
from perdure.core.codec import encode_events
from perdure.core.law import fold
from perdure.core.payload import digest
from perdure.core.run import Run, unborn
from perdure.engine import Door, Surroundings
from perdure.engine.asks import Beat, Do, Leave, Start, Sweep, Take
from perdure.store import Changes, LogRow, RowChange, Worker

T = "acme"
NOW = 1_700_000_000_000_000
S = 1_000_000
INPUT = msgspec.Raw(b'{"n":1}')


# Values, as a door would make them


def birth(run_id="run-0001", tenant=T, **said):
    """A run that was just created, and the row of the log that says so."""
    said = {"workflow": "w", "queue": "q", "priority": 5, "claim_at": NOW} | said
    event = e.RunCreated(NOW, input_digest=digest(INPUT), **said)
    return goes_on(unborn(tenant, run_id, profiles.get("standard")), event)


def started(run, worker="W1"):
    return goes_on(run, e.RunStarted(NOW, worker, run.token + 1))


def step(run, name="a#1", output=b"1"):
    return goes_on(
        run, e.StepStarted(NOW, name, NOW), e.StepSucceeded(NOW, name, msgspec.Raw(output))
    )


def goes_on(run: Run, *events):
    """The run after a command, and the command's row of the log."""
    after = fold(run, events)
    text = encode_events(events)
    row = LogRow(
        run.tenant, run.id, run.version + 1, after.version, NOW, run.state, "me", "c.1", text
    )
    return after, row


def changes(**parts):
    return Changes(**{field: [] for field in Changes._fields} | parts)


def worker(name="W1", lease_until=NOW + 10 * S):
    return Worker(name, "worker", "host", 1, NOW, lease_until)


@contextmanager
def looking(store):
    """A group that writes nothing."""
    group = store.begin()
    try:
        yield group
    finally:
        group.rollback()


def put(store, **parts):
    """Commit one group, or raise and leave nothing of it."""
    group = store.begin()
    try:
        group.write(changes(**parts))
        group.commit()
    except BaseException:
        group.rollback()
        raise


def put_new(store, *births, **parts):
    """Commit runs that were just created, with their inputs."""
    put(
        store,
        rows=[RowChange(run, None, nudged=False) for run, _ in births],
        log=[row for _, row in births],
        inputs=[(run.tenant, run.id, INPUT) for run, _ in births],
        **parts,
    )


# A door


class World:
    """A door over a store. Its clock stands until `later` moves it; its ids count up."""

    def __init__(self, store, seed=0):
        self.store, self.clock, self.counter = store, NOW, count(seed * 1_000_000 + 1)
        self.door = Door(
            store,
            Surroundings(
                lambda: self.clock,
                lambda: self.clock / S,
                lambda size: next(self.counter).to_bytes(size, "big"),
            ),
        )

    def later(self, seconds=1.0):
        self.clock += int(seconds * S)
        return self

    def start(self, profile="standard", run_id=None, **said):
        """Start a run of a workflow that no other run has, and return its id."""
        self.later()
        create = c.Create(f"w{next(self.counter)}", "q", 5, digest(INPUT), **said)
        return self.door.call(Start(T, run_id, profile, create, INPUT, "me")).run_id

    def register(self, name):
        assert self.door.call(Beat(worker(name, self.clock + 10 * S)))

    def claim(self, run_id, name=None):
        """Let a worker claim the run; without a name one that is new."""
        name = name or f"W{next(self.counter)}"
        self.later().register(name)
        workflow = self.store.find(T, run_id).run.workflow
        (claimed,) = self.door.call(Take(name, "q", (workflow,), 1))
        assert claimed.run.id == run_id

    def do(self, run_id, command, **said):
        self.later()
        return self.door.call(Do(T, run_id, command, "me", **said))

    def token(self, run_id):
        return self.store.find(T, run_id).run.token

    def steps(self, run_id, *names, output=b"1"):
        """Perform steps, ten of them in one group."""
        token, result = self.token(run_id), msgspec.Raw(output)
        for first in range(0, len(names), 10):
            self.later()
            commands = [
                c.SucceedStep(token, c.Call(name, "d"), self.clock, result)
                for name in names[first : first + 10]
            ]
            asks = [Do(T, run_id, command, "me") for command in commands]
            assert [outcome.error for outcome in self.door.commit(asks)] == [None] * len(asks)

    def finish(self, run_id):
        result = msgspec.Raw(b'"done"')
        self.do(run_id, c.Finish(self.token(run_id), result, digest(result)), output=result)

    def fail(self, run_id):
        failure = e.Failure("BOOM", "it broke")
        error = msgspec.Raw(msgspec.json.encode(failure))
        self.do(run_id, c.Fail(self.token(run_id), failure), error=error)

    def suspend(self, run_id, kind, name, until=None):
        """Open a wait and let go of the run."""
        wait = c.Wait(name, kind, name, until)
        self.do(run_id, c.Suspend(self.token(run_id), (name,), wait))

    def leave(self, name):
        self.door.call(Leave(name))

    def sweep(self, name="the sweeper"):
        return self.door.call(Sweep(name, 100))


# A shell


def change(path, statement, *values, rows=1):
    """Change a file as a person with a database shell would, checks switched off."""
    with closing(sqlite3.connect(path)) as db:
        db.execute("pragma ignore_check_constraints = on")
        assert db.execute(statement, values).rowcount == rows, statement
        db.commit()
