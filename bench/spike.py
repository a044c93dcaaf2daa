"""The bound of the hot path: the least that a durable engine of this shape can do.

Runs wait in a SQLite file. A claim hands a batch of them to this process, each makes its steps one
after another, and a step returns when its result is on the disk. What that takes is here: a pure
`decide` and `evolve` over frozen structs, JSON, a token that must fit, one thread that writes, one
transaction for all that has gathered meanwhile, a row of the log for each command, an update of the
run's own row at its claim and its end. What an engine does besides is not: types, replay, retries,
timeouts, waits, cancelling, leases, recovery, tenants, limits, callbacks, refusing one command.

    python bench/spike.py RUNS STEPS IN_FLIGHT    one line of JSON; TMPDIR says on which disk
"""

import asyncio
import os
import sqlite3
import sys
import tempfile
import threading
import time
from collections import deque
from dataclasses import dataclass
from functools import reduce

from msgspec import Struct, json
from msgspec.structs import replace

SCHEMA = """pragma journal_mode = wal; pragma synchronous = full;
create table runs (tenant int, id text, profile text default 'standard',
    workflow text default 'five', queue text default 'q', priority int default 5, state text,
    version int, token int default 0, worker text, open text, claim_at int, due_at int,
    losses int default 0, created_at int, updated_at int, primary key (tenant, id)) without rowid;
create table log (tenant int, run text, seq int, at int, actor text, command_id blob, events text,
    primary key (tenant, run, seq)) without rowid;
create index claimable on runs (queue, workflow, priority, claim_at) where claim_at is not null;
create index due on runs (due_at) where due_at is not null;
create index held on runs (worker) where worker is not null"""
CREATE = """with recursive n (i) as (select 0 union all select i + 1 from n where i + 1 < ?)
    insert into runs (tenant, id, state, version, claim_at, created_at, updated_at)
    select 1, printf('01J%023d', i), 'queued', 1, 0, 0, 0 from n"""
CREATED = "insert into log select 1, id, 1, 0, 'api', x'00', '[]' from runs"
FIND = """select id from runs where tenant = 1 and queue = 'q' and workflow = 'five'
    and claim_at is not null and claim_at <= ? order by priority, claim_at limit ?"""
CLAIM = """update runs set state = 'running', token = token + 1, worker = ?, claim_at = null,
    version = version + 1, updated_at = ?, open = '[]' where tenant = 1 and id = ?
    returning id, version, token"""
UPDATE = """update runs set version = ?, state = ?, open = ?, updated_at = ?, worker =
    case when state = 'running' then worker end where tenant = 1 and id = ? and version = ?"""
APPEND = "insert into log values (1, ?, ?, ?, ?, ?, ?)"
LOGGED = "select count(*), sum(json_array_length(events)) from log where seq > 1"

IN_STEP = {("running", "step.started"): "running", ("running", "step.succeeded"): "running"}
LAW = IN_STEP | {("running", "run.succeeded"): "succeeded"}
WORKER, CLAIM_BATCH = "w1", 128
to_json = json.Encoder().encode


class Event(Struct, frozen=True):
    type: str
    at: int
    step: str | None = None
    nth: int = 0
    output: bytes | None = None


class Run(Struct, frozen=True):
    id: str
    state: str
    version: int
    token: int
    stored: int  # the version that its row has; the log runs ahead of it
    open: tuple[Event, ...] = ()  # the starts of steps that have not ended


class Command(Struct, frozen=True):  # a step has returned; without one, the run itself
    run: str
    token: int
    output: bytes
    step: str | None = None
    nth: int = 0


Claimed = list[tuple[str, int]]  # ids and tokens; none in the answer to a command
Asked = tuple[asyncio.Future[Claimed], Command | int]  # a number claims up to so many runs


def decide(run: Run, command: Command, now: int) -> tuple[Event, ...]:
    if command.token != run.token or run.state != "running":
        raise ValueError(run.id)
    step, nth, output = command.step, command.nth, command.output
    if step is None:
        return (Event("run.succeeded", now, output=output),)
    return Event("step.started", now, step, nth), Event("step.succeeded", now, step, nth, output)


def evolve(run: Run, event: Event) -> Run:
    """Fold one event into the run."""
    if event.type == "step.started":
        still = (*run.open, event)
    else:
        still = tuple(o for o in run.open if o.step != event.step or o.nth != event.nth)
    return replace(run, state=LAW[run.state, event.type], version=run.version + 1, open=still)


def entry(run: str, seq: int, now: int, events: tuple[Event, ...]) -> tuple[object, ...]:
    """Make the row of the log that keeps what one command made happen."""
    return run, seq, now, WORKER, os.urandom(16), to_json(events).decode()


class Door(threading.Thread):
    """The one writer: what has gathered in its queue is the next group, one transaction."""

    def __init__(self, db: sqlite3.Connection, group: int, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(daemon=True)
        self.db, self.group, self.loop = db, group, loop
        self.data_version = db.execute("pragma data_version").fetchone()
        self.queue: deque[Asked] = deque()
        self.wake, self.stopped = threading.Condition(), False
        self.held: dict[str, Run] = {}  # the present of what was claimed
        self.groups = self.commands = self.row_writes = 0

    def ask(self, what: Command | int) -> asyncio.Future[Claimed]:
        """Queue it (on the loop's thread only); the answer comes when it is on the disk."""
        future: asyncio.Future[Claimed] = self.loop.create_future()
        self.queue.append((future, what))
        if len(self.queue) == 1:  # otherwise the writer is up already
            with self.wake:
                self.wake.notify()
        return future

    def run(self) -> None:
        """Commit group after group until stopped; a failure stops the loop too."""
        try:
            while not self.stopped:
                with self.wake:
                    self.wake.wait_for(lambda: self.queue, 0.05)
                if group := [self.queue.popleft() for _ in range(min(self.group, len(self.queue)))]:
                    self.loop.call_soon_threadsafe(settle, group, self.commit(group))
        except BaseException:
            self.loop.call_soon_threadsafe(self.loop.stop)
            raise

    def commit(self, group: list[Asked]) -> list[Claimed]:
        """Decide, fold and write a group; answer each of it."""
        now = time.time_ns() // 1000
        runs: dict[str, Run] = {}
        log: list[tuple[object, ...]] = []
        for _, what in group:
            if not isinstance(what, int):
                run = runs.get(what.run) or self.held[what.run]
                events = decide(run, what, now)
                log.append(entry(run.id, run.version + 1, now, events))
                runs[run.id] = reduce(evolve, events, run)
        self.db.execute("begin immediate")
        if self.db.execute("pragma data_version").fetchone() != self.data_version:
            raise RuntimeError("another connection has written")
        answers = [self.claim(what, now, log) if isinstance(what, int) else [] for _, what in group]
        ended = [run for run in runs.values() if run.state != "running"]
        self.write(ended, log, now)
        self.held.update(runs)
        self.row_writes += len(ended) + sum(map(len, answers))
        self.groups, self.commands = self.groups + 1, self.commands + len(group)
        return answers

    def claim(self, wanted: int, now: int, log: list[tuple[object, ...]]) -> Claimed:
        found = self.db.execute(FIND, (now, wanted)).fetchall()
        rows = [self.db.execute(CLAIM, (WORKER, now, run)).fetchone() for (run,) in found]
        for run, version, token in rows:
            self.held[run] = Run(run, "running", version, token, stored=version)
            log.append(entry(run, version, now, (Event("run.started", now),)))
        return [(run, token) for run, _, token in rows]

    def write(self, ended: list[Run], log: list[tuple[object, ...]], now: int) -> None:
        rows = [(r.version, r.state, to_json(r.open), now, r.id, r.stored) for r in ended]
        if rows and self.db.executemany(UPDATE, rows).rowcount != len(rows):
            raise RuntimeError("a row was not as it had been left")
        self.db.executemany(APPEND, log)
        self.db.execute("commit")


def settle(group: list[Asked], answers: list[Claimed]) -> None:
    """Answer a whole group in one turn of the loop."""
    for (future, _), answer in zip(group, answers, strict=True):
        future.set_result(answer)


async def body(number: int) -> int:  # what the user would write
    return number


async def work(door: Door, runs: int, steps: int, in_flight: int) -> tuple[float, float]:
    """Take all runs to their ends, so many at a time; return the seconds and the CPU seconds."""
    begun, cpu, free = time.perf_counter(), time.process_time(), asyncio.Semaphore(in_flight)

    async def carry(run: str, token: int) -> None:
        for number in range(steps):
            await door.ask(Command(run, token, to_json(await body(number)), "s", number))
        await door.ask(Command(run, token, b"10"))
        del door.held[run]
        free.release()

    while runs > 0:
        wanted, most = 0, min(runs, CLAIM_BATCH)
        while wanted < most and not (wanted and free.locked()):
            await free.acquire()
            wanted += 1
        for run, token in await door.ask(wanted):
            runs -= 1
            door.loop.create_task(carry(run, token))  # what it waits for keeps it
    for _ in range(in_flight):  # until the last has ended
        await free.acquire()
    return time.perf_counter() - begun, time.process_time() - cpu


@dataclass(frozen=True)
class Drained:
    """What a drain took; the rows that created the runs are not in it."""

    seconds: float
    steps: int
    runs: int
    groups: int  # each is one commit
    commands: int  # a claim of many runs is one
    log_rows: int
    row_writes: int  # updates of rows of runs
    events: int
    cpu_s: float


def drain(path: str, runs: int, steps: int, in_flight: int, group: int = 256) -> Drained:
    """Fill a new file with runs and time how this process takes them to their ends."""
    sys.setswitchinterval(0.0005)  # at 5 ms the writer would wait for the loop after each commit
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    db.executescript(SCHEMA)
    db.execute(CREATE, (runs,))
    db.execute(CREATED)
    with asyncio.Runner() as runner:
        door = Door(db, group, runner.get_loop())
        door.start()
        seconds, cpu_s = runner.run(work(door, runs, steps, in_flight))
    door.stopped = True
    door.join()
    log_rows, events = db.execute(LOGGED).fetchone()
    db.close()
    counts = door.groups, door.commands, log_rows, door.row_writes, events
    return Drained(seconds, runs * steps, runs, *counts, cpu_s)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(to_json(drain(f"{folder}/runs.db", *map(int, sys.argv[1:4]))).decode())
