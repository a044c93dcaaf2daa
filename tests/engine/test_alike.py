"""One random history, told to a door in memory and to two doors on one file: the answers agree.

In memory one door hears everything. On the file each of two workers has a door of its own, so
what one of them says is foreign to the other, and caches, proofs and marks must not show.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from perdure.core import commands as c
from perdure.core.events import Failure
from perdure.engine.asks import Do, Sweep, Take
from perdure.stores.memory import MemoryStore
from perdure.stores.sqlite import SqliteStore
from perdure.verify import verify_store
from tests.engine.world import ONE, Clock, S, T, World, asks, finish, signal

WORKERS = ("W0", "W1")
SEEDS = range(10)
ASKS = 200


class History:
    """What happens, drawn by a seed, and the worlds in which it happens."""

    def __init__(self, seed, path):
        self.chance, self.clock = random.Random(seed), Clock()
        self.memory = World(MemoryStore(), self.clock)
        self.doors = [World(SqliteStore(path), self.clock) for _ in WORKERS]
        self.alive = {worker: worker for worker in WORKERS}
        self.starts = self.names = 0
        self.told: set[str] = set()  # of these steps the group at hand says something already
        self.went: Counter[str] = Counter()
        for worker in WORKERS:
            self.registers(worker)

    def registers(self, worker):
        """Let a worker begin under a new name, in every world."""
        self.alive[worker] = f"{worker}.{self.chance.random():.8f}"
        for world in (self.memory, self.of(worker)):
            world.registered(self.alive[worker])

    def of(self, worker):
        return self.doors[WORKERS.index(worker)]

    def happens(self):
        """Let something happen everywhere, and compare what came of it."""
        if self.chance.random() < 0.3:
            self.clock.passes(self.chance.choice((0.5, 2, 4)))
        worker = self.chance.choice(WORKERS)
        if self.chance.random() < 0.2:
            self.beats(worker)
        self.told.clear()
        group = [self.anything(worker) for _ in range(self.chance.choice((1, 1, 2, 5)))]
        answers = [plain(it) for it in self.memory.door.commit(group)]
        assert [plain(it) for it in self.of(worker).door.commit(group)] == answers
        for ask, answer in zip(group, answers, strict=True):
            kind = type(ask.command if isinstance(ask, Do) else ask).__name__
            self.went[f"{kind} {'taken' if answer[0] is None else answer[0]}"] += 1
        for run_id in self.runs():
            assert self.of(worker).run(run_id) == self.memory.run(run_id)

    def runs(self):
        return sorted(run_id for _, run_id in self.memory.store.rows)

    def beats(self, worker):
        """A worker renews its lease, or learns that it was found dead and begins anew."""
        beat = self.memory.beat(self.alive[worker])
        alive = self.memory.door.call(beat)
        assert self.of(worker).door.call(beat) == alive
        self.went[f"Beat {alive}"] += 1
        if not alive:
            self.registers(worker)

    # what may happen

    def anything(self, worker):
        draw = self.chance.random()
        if len(self.runs()) < 4 or draw < 0.08:
            return self.a_start()
        if draw < 0.2:
            return Take(self.alive[worker], "q", ("w",), self.chance.choice((1, 10)))
        if draw < 0.3:
            return Sweep(self.alive[worker], 100)
        run = self.memory.run(self.chance.choice(self.runs()[-6:]))
        if draw < 0.45:
            return self.chance.choice(self.by_anybody(run))
        held = [it for it in self.memory.store.rows.values() if it.worker] or [run]
        run = self.memory.run(self.chance.choice(held).id)
        return asks(run.id, self.chance.choice(self.by_its_holder(run)))

    def a_start(self):
        self.starts += 1
        run_id, key = f"run-{self.starts:04}", self.chance.choice((None, None, "k1", "k2"))
        deadline = self.chance.choice((None, self.clock.wall + 30 * S))
        value = self.chance.choice((1, 1, 2))
        return self.memory.start(run_id=run_id, key=key, value=value, deadline=deadline)

    def fresh(self, name):
        """A name that no step of any run has had: a holder does nothing twice."""
        self.names += 1
        return f"{name}{self.names}"

    def by_anybody(self, run):
        gates = [step.id for step in run.open if step.kind == "approval"] or ["gate"]
        return [
            signal(run.id),
            signal(run.id, key=self.chance.choice(("s1", "s2"))),
            asks(run.id, c.Approve(self.chance.choice(gates), ONE)),
            asks(run.id, c.Reject(self.chance.choice(gates), "no")),
            asks(run.id, c.Cancel("enough", self.chance.choice((1, 60)))),
            asks("no-such-run", c.Cancel()),
        ]

    def by_its_holder(self, run):
        token = run.token - (self.chance.random() < 0.05)
        gate = c.Wait(self.fresh("gate"), "approval", "gate", self.clock.wall + 5 * S)
        go = c.Wait(self.fresh("go"), "signal", "go")
        blocked = tuple(step.id for step in run.open if step.state != "running")
        begun = [step.id for step in run.open if step.kind is None and step.id not in self.told]
        step = self.chance.choice([*begun, self.fresh("step")])
        self.told.add(step)
        waits = [step.id for step in run.open if step.kind] or ["none"]
        ends = [c.Fail(token, Failure("OOPS")), c.ConfirmCancel(token), c.Release(token)] * 2
        return [
            *[c.SucceedStep(token, c.Call(step), self.clock.wall, ONE)] * 3,
            *[c.StartStep(token, c.Call(step), self.clock.wall)] * 2,
            c.FailStep(token, c.Call(step), 1, Failure("OOPS")),
            c.DropStep(token, step),
            c.RetryStep(token, c.Call(step), 1, Failure("OOPS"), self.clock.wall + 2 * S),
            *[c.Elapse(token, self.chance.choice(waits))] * 2,
            *[c.OpenWait(token, self.chance.choice((go, gate)))] * 2,
            c.Suspend(token, (*blocked, gate.id), gate),
            c.Suspend(token, blocked or (gate.id,), None if blocked else gate),
            *[c.ConfirmCancel(token)] * (6 * (run.state == "cancel_requested")),
            self.chance.choice([*ends, finish(run)]),
        ]


def plain(outcome):
    """Return what was answered, or how it was refused, without what each door names by itself."""
    if outcome.error is not None:
        return type(outcome.error).__name__, str(outcome.error)
    return None, outcome.answer


@pytest.fixture(scope="module")
def went():
    return Counter()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_history_is_the_same_in_memory_and_on_disk(seed, tmp_path, went):
    """Every answer, every refusal and every run, after each group; and what is left is sound."""
    history = History(seed, str(tmp_path / "runs.db"))
    for _ in range(ASKS):
        history.happens()
    for world in (history.memory, *history.doors):
        assert verify_store(world.store.store, T).sound
        world.store.close()
    went.update(history.went)


def test_the_histories_went_everywhere(went):
    """Each kind of ask was taken, and those that can be refused were refused as well."""
    kinds = {kind.__name__ for kind in (*c.OwnedCommand.__args__, c.Cancel, c.Signal, c.Approve)}
    kinds |= {"Reject", "Start", "Take", "Sweep"}
    assert {kind for kind in kinds if not went[f"{kind} taken"]} == set()
    refusals = {"Start KeyTaken", "Cancel NoSuchRun", "Cancel NotAllowed", "Signal NotAllowed"}
    refusals |= {"SucceedStep LostLease", "Suspend LostLease", "Beat True", "Beat False"}
    assert {refusal for refusal in refusals if not went[refusal]} == set()
