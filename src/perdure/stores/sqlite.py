"""Runs in a SQLite file: the embedded default, for one machine and several processes.

WAL with `synchronous=FULL`, so that what is acknowledged is on disk. One connection writes and
checkpoints, behind the turnstile; another one reads and can do nothing else.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from heapq import merge
from itertools import groupby, islice
from typing import Any

import msgspec

from perdure.core.errors import Closed, Damaged, StoreError, Unsound
from perdure.core.events import Entry
from perdure.core.run import Run
from perdure.store import (
    Changes,
    Claimable,
    Key,
    Loaded,
    Payloads,
    Row,
    RunKey,
    Stamp,
    Taken,
    Worker,
)
from perdure.stores.rows import present, read_entry, read_run, write_birth, write_run
from perdure.stores.sql import migrations, queries
from perdure.stores.turnstile import LifeLocks, Turnstile

FLOOR = (3, 38)
_SQL = queries("sqlite")
_json = msgspec.json.Encoder()
_log = logging.getLogger("perdure.store")

# SQLite keeps the locks of a process in its memory. A forked child inherits that and not the locks:
# on a file that was open here it would write under locks it only believes in, and what it
# commits is lost when its parent closes. So such a file is closed to it for good.
_open_files: list[tuple[int, int] | None] = []
_inherited: set[tuple[int, int] | None] = set()
os.register_at_fork(after_in_child=lambda: _inherited.update(_open_files))
_FORKED = (
    "this process was forked while {} was open, and SQLite cannot be used across a fork; "
    "open the store after forking, or start the process with 'spawn' or as a program of its own"
)


class SqliteStore:
    """One file, one writing and one reading connection of this process."""

    durable = True

    def __init__(self, path: str) -> None:
        _check_version()
        self.path = os.path.abspath(path)
        self.url = "sqlite:///" + path
        self._pid = os.getpid()
        self._reading = threading.Lock()
        self._closed = False
        with _explained(self.path), ExitStack() as undo:
            if _identity(self.path) in _inherited:
                raise StoreError(_FORKED.format(self.path))
            self._turnstile = Turnstile(self.path)
            undo.callback(self._turnstile.close)
            with self._turnstile:
                self._open()
            self._file = _identity(self.path)
            _open_files.append(self._file)
            undo.pop_all()
        self.lives = LifeLocks(self.path)

    def _open(self) -> None:
        """Open both connections, or neither."""
        with ExitStack() as undo:
            self._writer = _connect(self.path)
            undo.callback(self._writer.close)
            self._writer.execute("pragma journal_mode = wal")
            self._writer.execute("pragma synchronous = full")
            _migrate(self._writer, self.path)
            self._reader = _connect(self.path)
            undo.callback(self._reader.close)
            self._reader.execute("pragma query_only = on")
            self._reader.execute("pragma wal_autocheckpoint = 0")
            undo.pop_all()

    def begin(self) -> SqliteGroup:
        """Open a group: pass the turnstile and take SQLite's write lock."""
        self._refuse_misuse()
        self._turnstile.enter()
        try:
            return SqliteGroup(self._writer, self._turnstile, self.lives)
        except BaseException:
            self._turnstile.leave()
            raise

    def find(self, tenant: str, run_id: str) -> Loaded | None:
        """Return the present of a run, row and log of one moment."""
        with self._snapshot() as read:
            row = read.execute(_SQL["run"], (tenant, run_id)).fetchone()
            if row is None:
                return None
            run = read_run(row)
            wanted = _json.encode([(tenant, run_id, run.version)]).decode()
            tail = read.execute(_SQL["tails"], (wanted,)).fetchall()
            loaded = present(run, tail)
        return loaded._replace(row=Row(run, *row[19:22]))

    def entries(
        self, tenant: str, run_id: str, after: int = 0, limit: int | None = None
    ) -> list[Entry]:
        """Return rows of a run's log, in order."""
        most = -1 if limit is None else limit
        asked = {"tenant": tenant, "run": run_id, "after": after, "limit": most}
        with self._snapshot() as read:
            rows = read.execute(_SQL["entries"], asked).fetchall()
        return [read_entry(row) for row in rows]

    def payloads(self, tenant: str, run_id: str) -> Payloads | None:
        """Return a run's payloads."""
        with self._snapshot() as read:
            row = read.execute(_SQL["payloads"], (tenant, run_id)).fetchone()
        return None if row is None else Payloads(_raw(row[0]), _maybe(row[1]), _maybe(row[2]))

    def listing(
        self, tenant: str, *, before: str | None, limit: int, states: Iterable[str] | None
    ) -> list[Run]:
        """Return a page of runs; a held run's body may lag, its head never does."""
        chosen = None if states is None else _json.encode(list(states)).decode()
        asked = {"tenant": tenant, "before": before or "\x7f", "states": chosen, "limit": limit}
        with self._snapshot() as read:
            rows = read.execute(_SQL["listing"], asked).fetchall()
        return [read_run(row) for row in rows]

    def workers(self) -> list[Worker]:
        """Return the workers that are registered."""
        with self._snapshot() as read:
            return [_worker(row) for row in read.execute(_SQL["workers"])]

    def hold(self, worker: str) -> None:
        """Lock the worker's file, so that others can tell that its process is gone."""
        self.lives.hold(worker)

    def close(self) -> None:
        """Close both connections, inside the turnstile: the last one out checkpoints.

        A forked child only looks away: its turnstile and its connections are its parent's.
        """
        if self._closed:
            return
        self._closed = True
        if os.getpid() != self._pid:
            return
        with self._reading, self._turnstile:
            self._reader.close()
            self._writer.close()
        _open_files.remove(self._file)
        self.lives.close()
        self._turnstile.close()

    @contextmanager
    def _snapshot(self) -> Iterator[sqlite3.Connection]:
        self._refuse_misuse()
        with self._reading:
            self._refuse_misuse()
            with _explained(self.path):
                self._reader.execute("begin")
                try:
                    yield self._reader
                finally:
                    if self._reader.in_transaction:  # after some errors SQLite has ended it itself
                        self._reader.execute("commit")

    def _refuse_misuse(self) -> None:
        if self._closed:
            raise Closed(f"the store {self.url} is closed")
        if os.getpid() != self._pid:
            raise StoreError(_FORKED.format(self.path))


class SqliteGroup:
    """One `begin immediate … commit`."""

    def __init__(self, writer: sqlite3.Connection, turnstile: Turnstile, lives: LifeLocks) -> None:
        self._db, self._turnstile, self._lives = writer, turnstile, lives
        self._dropped: list[str] = []
        writer.execute("begin immediate")
        # SQLite's own count of commits by other connections to this file
        self.proof: int = writer.execute("pragma data_version").fetchone()[0]

    def keys(self, wanted: Sequence[Key]) -> dict[Key, Taken]:
        """Return those of the keys that are taken."""
        rows = self._db.execute(_SQL["taken_keys"], (_json.encode(wanted).decode(),))
        return {Key(*row[:4]): Taken(row[4], row[5]) for row in rows}

    def stamps(self, runs: Sequence[RunKey]) -> dict[RunKey, Stamp]:
        """Return the stamp of each row that is there."""
        rows = self._db.execute(_SQL["stamps"], (_json.encode(runs).decode(),))
        return {(row[0], row[1]): Stamp(row[2], row[3]) for row in rows}

    def load(self, runs: Sequence[RunKey]) -> dict[RunKey, Loaded]:
        """Return the present of each run that is there."""
        rows = self._db.execute(_SQL["runs"], (_json.encode(runs).decode(),)).fetchall()
        found = {(row[0], row[1]): read_run(row) for row in rows}
        wanted = _json.encode([(*key, run.version) for key, run in found.items()]).decode()
        log = self._db.execute(_SQL["tails"], (wanted,))
        tails = {key: list(rows) for key, rows in groupby(log, key=lambda row: (row[0], row[1]))}
        return {key: present(run, tails.get(key, ())) for key, run in found.items()}

    def claimable(
        self, worker: str, queue: str, workflows: Sequence[str], now: int, limit: int
    ) -> list[Claimable]:
        """Return runs to claim: rank by rank over all the workflows, a seek a workflow and rank."""
        found: list[Claimable] = []
        if self._db.execute(_SQL["alive"], (worker,)).fetchone() is None:
            return found
        ranks: dict[str, int] = {}
        rank, passed = -1, list(workflows)
        while len(found) < limit:
            for workflow in passed:
                row = self._db.execute(_SQL["next_rank"], (queue, workflow, rank)).fetchone()
                if row is not None:
                    ranks[workflow] = row[0]
            if not ranks:
                break
            rank = min(ranks.values())
            passed = [workflow for workflow, its in ranks.items() if its == rank]
            for workflow in passed:
                del ranks[workflow]
            found.extend(self._claimable(queue, passed, rank, now, limit - len(found)))
        return found

    def _claimable(
        self, queue: str, workflows: Sequence[str], rank: int, now: int, limit: int
    ) -> Iterator[Claimable]:
        """Return runs of one rank, the first to be due first; no more rows are read than taken."""
        # no limit in the statement: it is read row by row, and what cannot be read does not count
        cursors = [
            self._db.execute(_SQL["claimable"], (queue, workflow, rank, now))
            for workflow in workflows
        ]
        rows: Iterable[Any] = cursors[0]  # nearly always there is one, and its query is ordered
        if len(cursors) > 1:
            rows = merge(*cursors, key=lambda row: (row[13], row[1]))
        try:
            yield from islice(_readable(rows), limit)
        finally:
            for cursor in cursors:
                cursor.close()

    def due(self, now: int, limit: int) -> list[RunKey]:
        """Return runs that time alone changes by now."""
        return [(row[0], row[1]) for row in self._db.execute(_SQL["due"], (now, limit))]

    def lost(self, now: int, by: str) -> dict[str, list[RunKey]]:
        """Return the workers whose lease is past or whose process has left its lock."""
        gone = [
            worker
            for row in self._db.execute(_SQL["workers"]).fetchall()
            if (worker := _worker(row)).worker != by
            and (worker.dead or worker.lease_until <= now or self._lives.is_dead(worker.worker))
        ]
        return {w.worker: self._runs("held_by", w.worker) for w in gone}

    def nudged(self, worker: str) -> list[RunKey]:
        """Return the runs of a worker to which another process has spoken."""
        return self._runs("nudged", worker)

    def beat(self, worker: Worker) -> bool:
        """Renew the lease of a registered worker; False when it has been found dead."""
        renewed = self._db.execute(_SQL["beat"], (worker.lease_until, worker.worker))
        return renewed.rowcount == 1

    def write(self, changes: Changes) -> None:
        """Write a group, each kind of row with one statement."""
        db = self._db
        if new := [c for c in changes.rows if c.was is None]:
            db.executemany(_SQL["insert_run"], [write_run(c) + write_birth(c.run) for c in new])
        if old := [c for c in changes.rows if c.was is not None]:
            done = db.executemany(_SQL["update_run"], [(*write_run(c), c.was) for c in old])
            if done.rowcount != len(old):
                raise Unsound(old[0].run.id, old[0].run.state, "a row changed under the group")
        if changes.log:
            db.executemany(_SQL["insert_log"], changes.log)
        if changes.inputs:
            db.executemany(_SQL["insert_input"], [(t, r, _text(p)) for t, r, p in changes.inputs])
        if changes.outcomes:
            rows = [(_text(a), _text(b), t, r) for t, r, a, b in changes.outcomes]
            db.executemany(_SQL["set_outcome"], rows)
        if changes.keys:
            db.executemany(_SQL["insert_key"], [(*key, *taken) for key, taken in changes.keys])
        for w in changes.joined:
            row = (w.worker, w.name, w.host, w.pid, w.started_at, w.lease_until)
            db.execute(_SQL["register"], row)
        for worker in changes.buried:
            db.execute(_SQL["bury"], (worker,))
            if db.execute(_SQL["drop_worker"], (worker,)).rowcount:
                self._dropped.append(worker)

    def commit(self) -> None:
        """Commit, and let the next writer in whether that worked or not."""
        self._db.execute("commit")
        self._turnstile.leave()
        # not before: if we die with the row still there, the file must still prove its death
        for worker in self._dropped:
            self._lives.forget(worker)

    def rollback(self) -> None:
        """Undo; SQLite may have done so itself when a disk was full."""
        try:
            if self._db.in_transaction:
                self._db.execute("rollback")
        finally:
            self._turnstile.leave()

    def _runs(self, question: str, worker: str) -> list[RunKey]:
        return [(row[0], row[1]) for row in self._db.execute(_SQL[question], (worker,))]


def _readable(rows: Iterable[Any]) -> Iterator[Claimable]:
    """Return the runs of rows; one that is damaged must not keep a queue from all others."""
    for row in rows:
        try:
            yield Claimable(read_run(row), _raw(row[19]))
        except Damaged as damage:
            _log.warning("a claim passes over a run: %s", damage)


def _identity(path: str) -> tuple[int, int] | None:
    """Return what tells files apart whatever their path; None for one that is not there."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _connect(path: str) -> sqlite3.Connection:
    return sqlite3.connect(
        path, timeout=5.0, isolation_level=None, check_same_thread=False, cached_statements=64
    )


def _check_version() -> None:
    if sqlite3.sqlite_version_info < FLOOR:
        floor = ".".join(map(str, FLOOR))
        raise StoreError(
            f"this Python's SQLite is {sqlite3.sqlite_version}; perdure needs {floor} or newer"
        )


def _migrate(db: sqlite3.Connection, path: str) -> None:
    """Bring the schema to this version, one transaction a migration."""
    db.execute("begin immediate")
    try:
        known = db.execute(_SQL["has_meta"]).fetchone()[0]
        row = db.execute(_SQL["schema_version"]).fetchone() if known else None
        at = 0 if row is None else int(row[0])
        steps = migrations("sqlite")
        if at > steps[-1][0]:
            raise StoreError(
                f"{path} was written by a newer perdure (schema {at}, this one knows "
                f"{steps[-1][0]}); install that version or a later one"
            )
        for number, statements in steps:
            if number > at:
                for statement in statements:
                    db.execute(statement)
                db.execute(_SQL["set_schema_version"], (str(number),))
    except BaseException:
        db.execute("rollback")
        raise
    db.execute("commit")


@contextmanager
def _explained(path: str) -> Iterator[None]:
    """Turn what the driver says into what to do about it."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if "not a database" in str(error) or "malformed" in str(error):
            raise StoreError(f"{path} is not a SQLite database, or is damaged: {error}") from error
        raise StoreError(f"{path} cannot be used: {error}") from error
    except OSError as error:
        folder = os.path.dirname(path)
        if not os.path.isdir(folder):
            raise StoreError(f"the folder {folder} does not exist; make it first") from error
        raise StoreError(
            f"{path} cannot be used: {error.strerror}; is its folder there and writable?"
        ) from error


def _raw(text: str) -> msgspec.Raw:
    return msgspec.Raw(text.encode())


def _maybe(text: str | None) -> msgspec.Raw | None:
    return None if text is None else _raw(text)


def _text(payload: msgspec.Raw | None) -> str | None:
    return None if payload is None else bytes(payload).decode()


def _worker(row: Sequence[Any]) -> Worker:
    return Worker(row[0], row[1], row[2], row[3], row[4], row[5], bool(row[6]))
