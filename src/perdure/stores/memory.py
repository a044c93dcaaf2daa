"""Runs in dictionaries: for tests and simulation. The shortest true description of a store.

Nothing here outlives the process. Rows and log keep the same promise as on disk: what is read
back has gone through the codec, and a row may lag behind its log.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from perdure.core.errors import Closed, Unsound
from perdure.core.events import Entry
from perdure.core.run import Run
from perdure.store import (
    Changes,
    Claimable,
    Key,
    Loaded,
    LogRow,
    Payloads,
    Row,
    RunKey,
    Stamp,
    Taken,
    Worker,
)
from perdure.stores.rows import present, read_entry


class MemoryStore:
    """Everything in this process, for as long as it lives."""

    url = "memory://"
    durable = False

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.rows: dict[RunKey, Run] = {}
        self.nudges: set[RunKey] = set()
        self.log: dict[RunKey, dict[int, LogRow]] = {}
        self.data: dict[RunKey, Payloads] = {}
        self.taken: dict[Key, Taken] = {}
        self.known: dict[str, Worker] = {}
        self._closed = False

    def begin(self) -> MemoryGroup:
        """Open a group; the lock is held until it ends."""
        if self._closed:
            raise Closed("the memory store is closed")
        self.lock.acquire()
        return MemoryGroup(self)

    def find(self, tenant: str, run_id: str) -> Loaded | None:
        """Return the present of a run and its row."""
        with self.lock:
            run = self.rows.get((tenant, run_id))
            if run is None:
                return None
            row = Row(run, run.claim_rank, run.claim_at, run.due_at)
            return self.present(run)._replace(row=row)

    def entries(
        self, tenant: str, run_id: str, after: int = 0, limit: int | None = None
    ) -> list[Entry]:
        """Return rows of a run's log, in order."""
        with self.lock:
            rows = [r for r in self._log_of((tenant, run_id)) if r.last_seq > after]
        return [read_entry(row) for row in rows[:limit]]

    def payloads(self, tenant: str, run_id: str) -> Payloads | None:
        """Return a run's payloads."""
        with self.lock:
            return self.data.get((tenant, run_id))

    def listing(
        self, tenant: str, *, before: str | None, limit: int, states: Iterable[str] | None
    ) -> list[Run]:
        """Return a page of runs, newest id first."""
        wanted = None if states is None else set(states)
        with self.lock:
            ids = sorted((i for t, i in self.rows if t == tenant), reverse=True)
            runs = [self.rows[tenant, i] for i in ids if before is None or i < before]
        return [run for run in runs if wanted is None or run.state in wanted][:limit]

    def workers(self) -> list[Worker]:
        """Return the workers that are registered."""
        with self.lock:
            return list(self.known.values())

    def hold(self, worker: str) -> None:
        """Nothing to lock: the workers of this store live and die with it."""

    def close(self) -> None:
        """Refuse new groups; readers may still look."""
        self._closed = True

    def present(self, run: Run) -> Loaded:
        """Fold the log's later rows into a row."""
        log = self._log_of((run.tenant, run.id))
        return present(run, [row for row in log if row.seq > run.version])

    def _log_of(self, key: RunKey) -> list[LogRow]:
        return list(self.log.get(key, {}).values())


class MemoryGroup:
    """One transaction: what is written waits here until it is committed."""

    # one process, so nobody else can have written
    proof = 0

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._changes: Changes | None = None
        self._known = dict(store.known)

    def keys(self, wanted: Sequence[Key]) -> dict[Key, Taken]:
        """Return those of the keys that are taken."""
        return {key: self._store.taken[key] for key in wanted if key in self._store.taken}

    def stamps(self, runs: Sequence[RunKey]) -> dict[RunKey, Stamp]:
        """Return the stamp of each row that is there."""
        rows = self._store.rows
        return {key: Stamp(rows[key].version, rows[key].token) for key in runs if key in rows}

    def load(self, runs: Sequence[RunKey]) -> dict[RunKey, Loaded]:
        """Return the present of each run that is there."""
        rows = self._store.rows
        return {key: self._store.present(rows[key]) for key in runs if key in rows}

    def claimable(
        self, worker: str, queue: str, workflows: Sequence[str], now: int, limit: int
    ) -> list[Claimable]:
        """Return runs to claim, the first in claim order first."""
        claimant = self._known.get(worker)
        if claimant is None or claimant.dead:
            return []
        rows = [
            run
            for run in self._store.rows.values()
            if run.claim_at is not None
            and run.claim_at <= now
            and run.queue == queue
            and run.workflow in workflows
        ]
        rows.sort(key=lambda run: (run.claim_rank, run.claim_at or 0, run.id))
        return [Claimable(run, self._store.data[run.tenant, run.id].input) for run in rows[:limit]]

    def due(self, now: int, limit: int) -> list[RunKey]:
        """Return runs that time alone changes by now."""
        rows = self._store.rows.items()
        dues = sorted((run.due_at, key) for key, run in rows if run.due_at is not None)
        return [key for at, key in dues if at <= now][:limit]

    def lost(self, now: int, by: str) -> dict[str, list[RunKey]]:
        """Return the workers whose lease is past, each with the runs it held."""
        gone = [
            w.worker
            for w in self._known.values()
            if w.worker != by and (w.dead or w.lease_until <= now)
        ]
        return {worker: self._held_by(worker) for worker in gone}

    def nudged(self, worker: str) -> list[RunKey]:
        """Return the runs of a worker to which somebody else has spoken."""
        rows = self._store.rows
        return sorted(key for key in self._store.nudges if rows[key].worker == worker)

    def beat(self, worker: Worker) -> bool:
        """Renew the lease of a registered worker; False when it has been found dead."""
        before = self._known.get(worker.worker)
        if before is None or before.dead:
            return False
        self._known[worker.worker] = replace(before, lease_until=worker.lease_until)
        return True

    def write(self, changes: Changes) -> None:
        """Check what a database would check; keep the rest for the commit."""
        for change in changes.rows:
            row = self._store.rows.get((change.run.tenant, change.run.id))
            if (None if row is None else row.version) != change.was:
                raise Unsound(change.run.id, change.run.state, "a row changed under the group")
        for written in changes.log:
            entry = LogRow(*written)
            if entry.seq in self._store.log.get((entry.tenant, entry.run_id), {}):
                raise Unsound(entry.run_id, entry.was, f"event {entry.seq} is there already")
        for key, taken in changes.keys:
            if key in self._store.taken:
                raise Unsound(taken.run_id, "", f"the {key.kind} key '{key.key}' is taken already")
        for worker in changes.joined:
            if worker.worker in self._known:
                raise Unsound("", "", f"worker {worker.worker} is registered already")
        self._changes = changes

    def commit(self) -> None:
        """Put everything in its place."""
        self._store.known = self._known
        if self._changes is not None:
            self._apply(self._changes)
        self._store.lock.release()

    def rollback(self) -> None:
        """Forget what was written."""
        self._changes = None
        self._store.lock.release()

    def _apply(self, changes: Changes) -> None:
        store = self._store
        for change in changes.rows:
            key = (change.run.tenant, change.run.id)
            store.rows[key] = change.run
            (store.nudges.add if change.nudged else store.nudges.discard)(key)
        for entry in changes.log:
            row = LogRow(*entry)
            store.log.setdefault((row.tenant, row.run_id), {})[row.seq] = row
        for tenant, run_id, payload in changes.inputs:
            store.data[tenant, run_id] = Payloads(payload, None, None)
        for tenant, run_id, result, error in changes.outcomes:
            if (data := store.data.get((tenant, run_id))) is not None:
                store.data[tenant, run_id] = Payloads(data.input, result, error)
        store.taken.update(changes.keys)
        store.known.update({worker.worker: worker for worker in changes.joined})
        for worker in changes.buried:
            known = store.known.pop(worker, None)
            if known is not None and self._held_by(worker):
                store.known[worker] = replace(known, dead=True, lease_until=0)

    def _held_by(self, worker: str) -> list[RunKey]:
        return [key for key, run in self._store.rows.items() if run.worker == worker]
