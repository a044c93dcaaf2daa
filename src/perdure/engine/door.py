"""The door itself: a group in, answers out, everything committed in between.

It has no thread and no queue, so a simulator can call it turn by turn. It keeps the runs that
its own workers hold, as they were last committed: that is the whole cache.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from perdure.core.errors import PerdureError, StoreError
from perdure.core.limits import LEASE_S
from perdure.core.states import HELD
from perdure.engine.asks import Answer, Ask, Change, Do, Outcome
from perdure.engine.group import Seat, Work
from perdure.engine.surroundings import REAL, Surroundings
from perdure.store import RunKey, Store

# How far the clock may move against the one that never jumps before recovery is put off.
CLOCK_JUMP_S = 1.0


class Door:
    """Works off groups of asks against one store."""

    def __init__(self, store: Store, surroundings: Surroundings = REAL) -> None:
        self.store, self.surroundings = store, surroundings
        self.log = logging.getLogger("perdure.door")
        self.cache: dict[RunKey, Seat] = {}
        self.local: set[str] = set()
        self.listeners: list[Callable[[list[Change]], None]] = []
        # counted for whoever measures: groups are commits
        self.groups = self.commands = self.row_writes = 0
        self._nonce = surroundings.entropy(6).hex()
        self._clocks = (surroundings.now(), surroundings.monotonic())
        self._recover_from = 0.0

    def commit(self, asks: Sequence[Ask]) -> list[Outcome]:
        """Work off the asks in one transaction and return their outcomes, in order."""
        try:
            work, outcomes = self._commit(asks)
        except Exception as error:
            if len(asks) == 1:
                return [Outcome(None, _explained(error))]
            self.log.warning("a group of %d failed and is bisected: %s", len(asks), error)
            return self._bisect(asks)
        self._keep(work)
        self._tell(work.heard)
        return outcomes

    def call(self, ask: Ask) -> Answer:
        """Work off one ask in a group of its own."""
        outcome = self.commit([ask])[0]
        if outcome.error is not None:
            raise outcome.error
        assert outcome.answer is not None, "an ask without an error has an answer"
        return outcome.answer

    def command_id(self) -> str:
        """Return a name for a command that no other command has."""
        self.commands += 1
        return f"{self._nonce}.{self.commands:08x}"

    def recovery_held(self) -> bool:
        """Whether the clock has jumped of late: then no lease is called past for one lease."""
        return self.surroundings.monotonic() < self._recover_from

    def _commit(self, asks: Sequence[Ask]) -> tuple[Work, list[Outcome]]:
        now = self._look_at_clock()
        group = self.store.begin()
        work = Work(self, group, now)
        try:
            work.prepare(asks)
            outcomes = work.answer(asks)
            work.finish()
            group.write(work.changes)
            group.commit()
        except BaseException:
            # the seats have been written on; what is on disk is asked again when it is needed
            for key in work.seats:
                self.cache.pop(key, None)
            group.rollback()
            raise
        self.groups += 1
        self.row_writes += len(work.changes.rows)
        return work, outcomes

    def _keep(self, work: Work) -> None:
        """Keep the runs that are held by this door's own workers, and only those."""
        cache, local, proof = self.cache, self.local, work.group.proof
        local.update(worker.worker for worker in work.changes.joined)
        local.difference_update(work.gone)
        for key, seat in work.seats.items():
            run = seat.run
            if run.worker in local and run.state in HELD:
                seat.keep(proof)
                cache[key] = seat
            else:
                cache.pop(key, None)
        if work.gone:
            for key in [key for key, seat in cache.items() if seat.run.worker not in local]:
                del cache[key]

    def _tell(self, heard: list[Change]) -> None:
        """Tell who listens. What is committed stays so, whatever a listener does."""
        if not heard:
            return
        for listener in self.listeners:
            try:
                listener(heard)
            except Exception:
                self.log.exception("a listener failed; the commit stands")

    def _bisect(self, asks: Sequence[Ask]) -> list[Outcome]:
        """Try each half on its own; the commands of one run stay in one half."""
        runs: dict[object, int] = {}
        for number, ask in enumerate(asks):
            runs.setdefault((ask.tenant, ask.run_id) if isinstance(ask, Do) else number, len(runs))
        half = len(runs) // 2
        if half == 0:
            return [self.commit([ask])[0] for ask in asks]
        first: list[int] = []
        second: list[int] = []
        for number, ask in enumerate(asks):
            name = (ask.tenant, ask.run_id) if isinstance(ask, Do) else number
            (first if runs[name] < half else second).append(number)
        outcomes: dict[int, Outcome] = {}
        for numbers in (first, second):
            outcomes.update(zip(numbers, self.commit([asks[n] for n in numbers]), strict=True))
        return [outcomes[number] for number in range(len(asks))]

    def _look_at_clock(self) -> int:
        now, monotonic = self.surroundings.now(), self.surroundings.monotonic()
        was_now, was_monotonic = self._clocks
        drift = (now - was_now) / 1_000_000 - (monotonic - was_monotonic)
        if abs(drift) > CLOCK_JUMP_S:
            self.log.warning("the clock jumped by %.1f s; recovery waits for one lease", drift)
            self._recover_from = monotonic + LEASE_S
        self._clocks = (now, monotonic)
        return now


def _explained(error: Exception) -> Exception:
    if isinstance(error, PerdureError):
        return error
    explained = StoreError(f"the store did not take it: {error}")
    explained.__cause__ = error
    return explained
