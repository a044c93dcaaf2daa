"""What may be asked of the door, and what it answers."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import msgspec

from perdure.core.commands import Command, Create
from perdure.core.events import AnyEvent
from perdure.core.run import Run
from perdure.store import RunKey, Worker


class Do(msgspec.Struct, frozen=True, gc=False):
    """Give a command to a run. `key` makes a repeated signal the same signal."""

    tenant: str
    run_id: str
    command: Command
    actor: str
    key: str | None = None
    output: msgspec.Raw | None = None
    error: msgspec.Raw | None = None


class Start(NamedTuple):
    """Create a run, or find the one that has the key already."""

    tenant: str
    run_id: str | None
    profile: str
    create: Create
    input: msgspec.Raw
    actor: str


class Take(NamedTuple):
    """Claim runs of these workflows for a worker."""

    worker: str
    queue: str
    workflows: tuple[str, ...]
    limit: int


class Sweep(NamedTuple):
    """Do what time has done: timers, deadlines, lost workers; find who was spoken to."""

    worker: str
    limit: int


class Beat(NamedTuple):
    """Register a worker; after that renew its lease, as long as nobody has found it dead."""

    worker: Worker


class Leave(NamedTuple):
    """A worker stops in good order and holds nothing any more."""

    worker: str


Ask: TypeAlias = Do | Start | Take | Sweep | Beat | Leave


class Done(msgspec.Struct, frozen=True, gc=False):
    """A command was accepted: the run as it is now, and what happened (nothing, perhaps)."""

    run: Run
    events: list[AnyEvent]


class Started(NamedTuple):
    """A run is there; `attached` when it was there before, under the same key."""

    run_id: str
    attached: bool


class Claimed(msgspec.Struct, frozen=True, gc=False):
    """A run that the worker holds now, with its input."""

    run: Run
    input: msgspec.Raw


class Swept(NamedTuple):
    """How many runs time has changed, and which workers were found gone."""

    ticked: int
    lost: tuple[str, ...]


Answer: TypeAlias = Done | Started | list[Claimed] | Swept | bool


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """What became of one ask: its answer, or why there is none."""

    answer: Answer | None
    error: Exception | None


class Change(msgspec.Struct, frozen=True, gc=False):
    """A run whose head changed, or to which somebody other than its holder has spoken."""

    key: RunKey
    run: Run
    foreign: bool
