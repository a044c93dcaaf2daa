"""THE PROMISE: what a store must do.

A store keeps rows and a log and knows no status by name: no method completes, fails or retries
anything. Readers may be called from any thread. A `Group` is one transaction; only the door
opens one, from one thread at a time, and what it wrote is there after `commit` as a whole or
not at all. `tests/stores/test_promise.py` is this page as tests, the same for every store.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, Protocol, TypeAlias

import msgspec

from perdure.core.events import Entry
from perdure.core.run import Run

RunKey: TypeAlias = tuple[str, str]  # tenant, run id


class Key(NamedTuple):
    """What must be unique: a start's idempotency key, a signal's id."""

    tenant: str
    kind: Literal["start", "signal"]
    scope: str
    key: str


class Taken(NamedTuple):
    """Who has a key, and with what input."""

    run_id: str
    digest: str


class Stamp(NamedTuple):
    """What tells whether somebody else has spoken: the row's version and token."""

    version: int
    token: int


class Row(NamedTuple):
    """A run's row as it lies in the store, with the columns that are found by but never read."""

    run: Run
    claim_rank: int
    claim_at: int | None
    due_at: int | None


class Loaded(NamedTuple):
    """The present of a run, and how it lay in the store: its row's version, and its tail.

    Only `find` answers with the row itself, for whoever compares the two.
    """

    run: Run
    row_version: int
    tail_rows: int
    tail_bytes: int
    row: Row | None = None


class Claimable(NamedTuple):
    """A run that may be claimed, with its input. Its row is current: nobody holds it."""

    run: Run
    input: msgspec.Raw


class Payloads(NamedTuple):
    """A run's payloads: its input, and its result or its error once it has one."""

    input: msgspec.Raw
    result: msgspec.Raw | None
    error: msgspec.Raw | None


class Worker(msgspec.Struct, frozen=True):
    """A registered worker process. Its lease stands for every run it holds."""

    worker: str
    name: str
    host: str
    pid: int
    started_at: int
    lease_until: int
    dead: bool = False


class LogRow(NamedTuple):
    """One row of the log as it is written."""

    tenant: str
    run_id: str
    seq: int
    last_seq: int
    at: int
    was: str
    actor: str
    command_id: str
    events: str


class RowChange(msgspec.Struct, frozen=True, gc=False):
    """A run's row as it becomes; `was` is the version it must still have (None: a new row)."""

    run: Run
    was: int | None
    nudged: bool


class Changes(NamedTuple):
    """All that one group writes."""

    rows: list[RowChange]
    log: list[tuple[str, str, int, int, int, str, str, str, str]]  # each a `LogRow`
    inputs: list[tuple[str, str, msgspec.Raw]]
    outcomes: list[tuple[str, str, msgspec.Raw | None, msgspec.Raw | None]]
    keys: list[tuple[Key, Taken]]
    joined: list[Worker]
    buried: list[str]


class Group(Protocol):
    """One transaction of the door."""

    # Two groups with the same proof: no other process has written in between.
    proof: int

    def keys(self, wanted: Sequence[Key]) -> dict[Key, Taken]:
        """Return those of the keys that are taken; hold the others until the group ends."""

    def stamps(self, runs: Sequence[RunKey]) -> dict[RunKey, Stamp]:
        """Return the stamp of each row that is there, held until the group ends."""

    def load(self, runs: Sequence[RunKey]) -> dict[RunKey, Loaded]:
        """Return the present of each run that is there: its row with the log's tail folded in."""

    def claimable(
        self, worker: str, queue: str, workflows: Sequence[str], now: int, limit: int
    ) -> list[Claimable]:
        """Return runs to claim, the first in claim order first.

        None for a worker that is not registered or was found dead: nobody would ever free them.
        """

    def due(self, now: int, limit: int) -> list[RunKey]:
        """Return runs that time alone changes by now."""

    def lost(self, now: int, by: str) -> dict[str, list[RunKey]]:
        """Return the workers that are gone (as `by` can tell), each with the runs it held."""

    def nudged(self, worker: str) -> list[RunKey]:
        """Return the runs of a worker to which another process has spoken."""

    def beat(self, worker: Worker) -> bool:
        """Renew the lease of a registered worker; False when it has been found dead."""

    def write(self, changes: Changes) -> None:
        """Write all of it, or raise; a row that has not the version it must have raises."""

    def commit(self) -> None:
        """Make it last; when this returns it is on disk."""

    def rollback(self) -> None:
        """Forget it. May be called after a failed commit."""


class Store(Protocol):
    """A place where runs last."""

    url: str
    durable: bool

    def begin(self) -> Group:
        """Open a group."""

    def find(self, tenant: str, run_id: str) -> Loaded | None:
        """Return the present of a run and its row as stored, row and log of one moment."""

    def entries(
        self, tenant: str, run_id: str, after: int = 0, limit: int | None = None
    ) -> list[Entry]:
        """Return the rows of the log that hold events after a sequence number, in order."""

    def payloads(self, tenant: str, run_id: str) -> Payloads | None:
        """Return a run's payloads."""

    def listing(
        self, tenant: str, *, before: str | None, limit: int, states: Iterable[str] | None
    ) -> list[Run]:
        """Return runs, the newest id first; `before` is the last id of the page before."""

    def workers(self) -> list[Worker]:
        """Return the workers that are registered."""

    def hold(self, worker: str) -> None:
        """Take the lock that proves, as far as this store can, that the worker's process lives."""

    def close(self) -> None:
        """Let go of everything; safe to call twice."""
