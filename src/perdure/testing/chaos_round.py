"""One round of the chaos proof: workers at work, killed at planned moments, then the reckoning."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from perdure.app import App
from perdure.core.events import Entry
from perdure.core.limits import BEAT_S, GRACE_S, LEASE_S, POLL_LONGEST_S, START_VISIBLE_AFTER_S
from perdure.testing.chaos_checks import (
    Finding,
    Watch,
    check_answers,
    check_end,
    check_log,
    check_marks,
    check_recovery,
    check_returned,
)
from perdure.testing.crew import Crew, Hand, Kill
from perdure.testing.tally import Tally, tally
from perdure.testing.traffic import LOOK_S, Traffic
from perdure.verify import verify_store

# a body may run for a while before its start is on record, and be stopped then
PATIENCE_S = START_VISIBLE_AFTER_S + LEASE_S + POLL_LONGEST_S
RECOVERY_S = LEASE_S / 2
MOST_OPEN = 80
END_S = 60.0
Say = Callable[[str], None]
Since: TypeAlias = Literal["birth", "claim"]


# how likely, of what is left to choose from; since when; from and to how many seconds after that
_WAYS: Final[tuple[tuple[float, Since, float, float], ...]] = (
    (0.12, "birth", 0.0, 0.3),
    (0.12, "claim", 1.2, 2.8),
    (0.50, "claim", 0.0, 0.05),
    (1.00, "claim", 0.0, 0.4),
)


class Moment(NamedTuple):
    """When to kill: so long after the worker's birth, or after it first claimed something.

    `both`: all of them; `after_leave`: another one is told to end in good order just before.
    """

    since: Since
    delay_s: float
    both: bool
    after_leave: bool


class Round(NamedTuple):
    """What one round has shown."""

    seed: int
    tally: Tally
    findings: list[Finding]
    logs: dict[str, list[Entry]]


def plan(seed: int, kills: int, workers: int) -> list[Moment]:
    """Draw the moments: most right after a claim, when groups are in flight, some far from it.

    Now and then a worker lives long enough for the start of a slow step to go on record, and
    sometimes all workers die at once, which counts as so many kills.
    """
    chance = random.Random(seed)
    moments: list[Moment] = []
    left = kills
    while left > 0:
        both = workers > 1 and left >= workers and chance.random() < 0.1
        left -= workers if both else 1
        after_leave = chance.random() < 0.06
        for share, since, first_s, last_s in _WAYS:
            if chance.random() < share:
                delay_s = chance.uniform(first_s, last_s)
                moments.append(Moment(since, delay_s, both, after_leave))
                break
    return moments


async def chaos_round(
    folder: Path, *, seed: int, kills: int, workers: int, stops: int = 0, say: Say
) -> Round:
    """Run one round in a folder of its own and say what it has shown."""
    began = time.monotonic()
    chaos = Chaos(folder, seed, workers, say)
    try:
        async with asyncio.TaskGroup() as group:
            beside = [group.create_task(work) for work in (chaos.traffic.feed(), chaos.look_on())]
            for _ in range(workers):
                chaos.crew.hire()
            await chaos.kill_all(plan(seed, kills, workers))
            for _ in range(stops):
                await chaos.stop_past_lease()
            for task in beside:
                task.cancel()
        await chaos.settle()
        return await asyncio.to_thread(chaos.reckon, time.monotonic() - began)
    finally:
        await chaos.close()


class Chaos:
    """The controlling side of a round."""

    def __init__(self, folder: Path, seed: int, workers: int, say: Say) -> None:
        self.seed, self.workers, self.say = seed, workers, say
        url = f"sqlite:///{folder.absolute() / 'runs.db'}"
        self.app = App(url)
        self.crew = Crew(url, folder)
        self.traffic = Traffic(self.app, Watch(PATIENCE_S), seed, MOST_OPEN)
        self.kills: list[Kill] = []
        self.stopped: list[int] = []
        self.findings: list[Finding] = []

    async def look_on(self) -> None:
        """Look at all open runs, again and again."""
        while True:
            await self.traffic.look()
            await asyncio.sleep(LOOK_S)

    async def close(self) -> None:
        """Leave no process behind, and close the file."""
        self.crew.disband()
        await self.traffic.close()
        await asyncio.to_thread(self.app.close)

    # killing

    async def kill_all(self, moments: list[Moment]) -> None:
        """Kill at each of the moments, and hire somebody new."""
        for moment in moments:
            if moment.after_leave:
                self.crew.let_go(self.crew.hands[0])
                self.crew.hire()
            victim = self.crew.hands[0]
            if moment.since == "birth":
                await asyncio.sleep(max(0.0, victim.born_at + moment.delay_s - time.monotonic()))
            else:
                await self._until_claimed(victim)
                await asyncio.sleep(moment.delay_s)
            for hand in list(self.crew.hands) if moment.both else [victim]:
                await self._kill(hand)
                self.crew.hire()
            self.say(f"{self.workers} at work, {len(self.kills)} killed")

    async def _kill(self, hand: Hand) -> None:
        known = await asyncio.to_thread(self.app.store.workers)
        names = tuple(worker.worker for worker in known if worker.pid == hand.pid)
        at = self.app.surroundings.now()
        self.kills.append(Kill(hand.pid, at, names, self.crew.kill(hand)))

    async def _until_claimed(self, hand: Hand, within_s: float = 3.0) -> None:
        """Wait until a worker has claimed a run; one that finds nothing is killed as it is."""
        await _until(lambda: self._claims_of(hand) > 0, within_s, 0.003)

    # stopping

    async def stop_past_lease(self) -> None:
        """Stop a worker until another has taken over all it held, then let it go on.

        It must notice, register anew, and work again; what it still reports is refused.
        """
        hand, names = await self._stop_outside_a_commit()
        self.stopped.append(hand.pid)
        self.say(f"{self.workers} at work, {len(self.stopped)} stopped past the lease")
        if not await _until(lambda: not self._names_of(hand) & names, 2 * PATIENCE_S):
            self.findings.append(Finding(f"stopped worker {names} was never found dead"))
        claims = self._claims_of(hand)
        hand.resume()
        if not await _until(
            lambda: self._names_of(hand) - names and self._claims_of(hand) > claims,
            2 * BEAT_S + POLL_LONGEST_S,
        ):
            what = f"worker {names} went on, is registered as {self._names_of(hand)}"
            what += f", and has claimed {self._claims_of(hand) - claims} runs since"
            self.findings.append(Finding(what))

    async def _stop_outside_a_commit(self) -> tuple[Hand, set[str]]:
        """Stop a worker that holds runs; one stopped inside a commit holds up everybody's."""
        while True:
            for hand in self.crew.hands:
                await self._until_claimed(hand)
                await asyncio.sleep(self.traffic.chance.uniform(0.0, LOOK_S))
                names = self._names_of(hand)
                hand.pause()
                await asyncio.sleep(LOOK_S)  # until somebody has looked what it holds
                held = [run for run in self.traffic.open.values() if run.worker in names]
                if held and not self.crew.is_writing(hand):
                    return hand, names
                hand.resume()

    def _claims_of(self, hand: Hand) -> int:
        self.crew.look()
        return self.crew.claims.get(hand.pid, 0)

    def _names_of(self, hand: Hand) -> set[str]:
        known = self.app.store.workers()
        return {worker.worker for worker in known if worker.pid == hand.pid and not worker.dead}

    # the end

    async def settle(self) -> None:
        """Start nothing more, and wait until all is over or something is found to stand still."""
        until = time.monotonic() + END_S
        while time.monotonic() < until and not self.traffic.findings:
            await asyncio.sleep(LOOK_S)
            busy = self.traffic.busy  # looked at first: what was asked before is seen below
            await self.traffic.look()
            if not busy and not self.traffic.open and not self._dead_are_listed():
                break
        for hand in list(self.crew.hands):
            self.crew.let_go(hand)
        await _until(self.crew.all_left, GRACE_S + POLL_LONGEST_S)
        bad = [it for it in map(Hand.ended, self.crew.leaving) if it not in {0, -signal.SIGTERM}]
        self.findings += [Finding(f"a worker that was asked to end ended with {it}") for it in bad]

    def _dead_are_listed(self) -> bool:
        alive = {hand.pid for hand in (*self.crew.hands, *self.crew.leaving)}
        return any(worker.pid not in alive for worker in self.app.store.workers())

    def reckon(self, took_s: float) -> Round:
        """Check everything that was promised."""
        store, tenant, traffic = self.app.store, self.app.tenant, self.traffic
        self.crew.look()
        found = [*self.findings, *traffic.findings]
        logs = {}
        for promise in traffic.promises.values():
            loaded, paid = store.find(tenant, promise.run), store.payloads(tenant, promise.run)
            result = None
            if paid is not None and paid.result is not None:
                result = msgspec.json.decode(paid.result)
            found += check_end(promise, None if loaded is None else loaded.run, result)
            logs[promise.run] = store.entries(tenant, promise.run)
            found += check_log(promise.run, logs[promise.run])
        figures = tally(
            logs,
            self.kills,
            workers=self.workers,
            left=len(self.crew.leaving) - self.workers,
            stops=len(self.stopped),
            took_s=took_s,
        )
        found += check_marks(self.crew.marks, self.stopped)
        found += check_returned(self.crew.marks, logs)
        found += check_answers([*traffic.answers, *traffic.clerk.answers])
        found += check_recovery(figures.recovery_longest_s, RECOVERY_S)
        found += [Finding(f"verify: {it}") for it in verify_store(store, tenant).findings]
        found += [Finding(f"a worker said: {line}") for line in self.crew.complaints()]
        found += [Finding(f"worker {it.worker} is still registered") for it in store.workers()]
        return Round(self.seed, figures, found, logs)


async def _until(true: Callable[[], object], within_s: float, pause_s: float = LOOK_S) -> bool:
    """Wait until something is true, for so long at most; say whether it is."""
    until = time.monotonic() + within_s
    while not (is_so := true()) and time.monotonic() < until:  # noqa: ASYNC110 - processes make it true
        await asyncio.sleep(pause_s)
    return bool(is_so)
