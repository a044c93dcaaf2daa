"""A file with several doors to it, and a run that one worker has taken over from another."""

import asyncio

from perdure.context import Live, Scope, approval
from perdure.core import commands as c
from perdure.core.events import TYPE
from perdure.core.limits import LEASE_S
from perdure.core.payload import pack
from perdure.engine import REAL, Door, Surroundings
from perdure.engine.asks import Beat, Do, Start, Sweep, Take
from perdure.store import Worker as Registration
from perdure.stores.sqlite import SqliteStore
from perdure.workflow import inside

S = 1_000_000


class World:
    """One file and any number of doors to it; a clock that stands still until told."""

    def __init__(self, folder):
        self.path, self.now = str(folder / "runs.db"), 1_000 * S
        self.stores = []

    def wall(self):
        return self.now

    def steady(self):
        return self.now / S

    def door(self):
        self.stores.append(SqliteStore(self.path))
        return Door(self.stores[-1], Surroundings(self.wall, self.steady, REAL.entropy))

    def beat(self, door, worker):
        until = self.now + int(LEASE_S * S)
        return door.call(Beat(Registration(worker, "name", "host", 1, self.now, until)))

    def hired(self, worker):
        door = self.door()
        door.store.hold(worker)
        self.beat(door, worker)
        return door

    def start(self, door):
        create = c.Create("w", "q", 5, "")
        return door.call(Start("t", None, "standard", create, pack({}, "it"), "me")).run_id

    def close(self):
        for store in self.stores:
            store.close()


def take(door, worker):
    return [claimed.run for claimed in door.call(Take(worker, "q", ("w",), 9))]


def do(door, run_id, command, actor="me"):
    return door.call(Do("t", run_id, command, actor))


def kinds(door, run_id):
    return [TYPE[type(it)] for row in door.store.entries("t", run_id) for it in row.events]


class Taken:
    """A run that waits for an approval, taken over from a lost worker; its log can be held up."""

    def __init__(self, world):
        lost, self.door = world.hired("one"), world.hired("two")
        run_id = world.start(lost)
        take(lost, "one")
        do(lost, run_id, c.SucceedStep(1, c.Call("a"), 0, pack(1, "it")), "one")
        do(lost, run_id, c.OpenWait(1, c.Wait("ok", "approval", "ok")), "one")
        lost.store.lives.close()
        self.door.call(Sweep("", 9))
        [self.run] = take(self.door, "two")
        self.readable = asyncio.Event()
        self.readable.set()
        self.live = Live(self.run, self.ask, self.log, REAL)
        self.live.task = asyncio.current_task()

    async def ask(self, ask, loop):
        return self.door.call(ask)

    async def log(self, after):
        rows = self.door.store.entries("t", self.run.id, after)
        await self.readable.wait()
        return rows

    def answered(self):
        return do(self.door, self.run.id, c.Approve("ok", pack(True, "it"))).run

    async def asks_again(self):
        inside.set(Scope(self.live, "", asyncio.current_task()))
        async with asyncio.timeout(5.0):
            return await approval("ok", bool)
