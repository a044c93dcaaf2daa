"""One group: many asks, one transaction, each accepted or refused on its own.

The way of a command: lock and load what is not cached, decide, fold, write. Commands of one run
follow each other here and end in at most one new version of its row; a command that changes
nothing that anybody asks a row for only appends to the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from perdure import profiles
from perdure.core import commands as c
from perdure.core.codec import encode_events
from perdure.core.decide import decide
from perdure.core.errors import Damaged, KeyTaken, NoSuchRun, Refused, RunExists
from perdure.core.events import AnyEvent
from perdure.core.law import fold
from perdure.core.limits import TAIL_BYTES, TAIL_ROWS
from perdure.core.run import unborn
from perdure.core.states import HELD
from perdure.engine.asks import (
    Answer,
    Ask,
    Beat,
    Change,
    Claimed,
    Do,
    Done,
    Leave,
    Outcome,
    Start,
    Started,
    Sweep,
    Swept,
    Take,
)
from perdure.store import Changes, Group, Key, Loaded, RowChange, RunKey, Taken, Worker

if TYPE_CHECKING:
    from perdure.engine.door import Door


class Seat:
    """A run in a group: as it was found, and as the commands so far have left it.

    The seats of the runs that this door's workers hold are kept between groups: they are the
    cache. `log_only` says that the row may lag behind: nothing has touched the run's head, and
    nobody else has spoken.
    """

    __slots__ = (
        "appended",
        "foreign",
        "found",
        "log_only",
        "proof",
        "row_version",
        "run",
        "tail_bytes",
        "tail_rows",
    )

    def __init__(self, loaded: Loaded, *, new: bool = False) -> None:
        self.found = self.run = loaded.run
        self.row_version = None if new else loaded.row_version
        self.tail_rows, self.tail_bytes = loaded.tail_rows, loaded.tail_bytes
        self.log_only = self.foreign = False
        self.appended = 0
        self.proof = -1

    def keep(self, proof: int) -> None:
        """Be ready for the next group, after this one was committed."""
        if not self.log_only:
            self.row_version = self.run.version
            self.tail_rows = self.tail_bytes = 0
        self.found = self.run
        self.proof = proof
        self.log_only, self.foreign, self.appended = True, False, 0


class Work:
    """The asks of one group, worked off inside one transaction."""

    def __init__(self, door: Door, group: Group, now: int) -> None:
        self.door, self.group, self.now = door, group, now
        self.seats: dict[RunKey, Seat] = {}
        self.taken: dict[Key, Taken] = {}
        self.changes = Changes([], [], [], [], [], [], [])
        # workers of this door that left
        self.gone: list[str] = []
        self.heard: list[Change] = []

    # what is needed is locked and loaded before anything is decided

    def prepare(self, asks: Sequence[Ask]) -> None:
        """Seat every run the asks name, and look up every key."""
        runs: list[RunKey] = []
        keys: list[Key] = []
        for ask in asks:
            if type(ask) is Do:
                runs.append((ask.tenant, ask.run_id))
                if ask.key is not None:
                    keys.append(_signal_key(ask))
            elif type(ask) is Start:
                if ask.run_id is not None:
                    runs.append((ask.tenant, ask.run_id))
                if ask.create.key is not None:
                    keys.append(_start_key(ask))
        self.seat(runs)
        if keys:
            self.taken = self.group.keys(keys)

    def seat(self, wanted: Iterable[RunKey]) -> None:
        """Seat runs: from the cache when nobody else can have spoken, else from the store."""
        cache, proof = self.door.cache, self.group.proof
        doubted: list[RunKey] = []
        unknown: list[RunKey] = []
        for key in wanted:
            if key in self.seats:
                continue
            seat = cache.get(key)
            if seat is None:
                unknown.append(key)
            elif seat.proof == proof:
                self.seats[key] = seat
            else:
                doubted.append(key)
        if doubted:
            stamps = self.group.stamps(doubted)
            for key in doubted:
                seat = cache[key]
                if stamps.get(key) == (seat.row_version, seat.found.token):
                    seat.proof = proof
                    self.seats[key] = seat
                else:
                    unknown.append(key)
        if unknown:
            for key, loaded in self.group.load(unknown).items():
                self.seats[key] = Seat(loaded)

    # the asks

    def answer(self, asks: Sequence[Ask]) -> list[Outcome]:
        """Work off the asks in order; one that is refused leaves the others untouched."""
        outcomes = []
        for ask in asks:
            try:
                answer = self._do(ask) if type(ask) is Do else self._answer(ask)
            except Refused as refusal:
                outcomes.append(Outcome(None, refusal))
            else:
                outcomes.append(Outcome(answer, None))
        return outcomes

    def _answer(self, ask: Ask) -> Answer:
        match ask:
            case Do():
                return self._do(ask)
            case Start():
                return self._start(ask)
            case Take():
                return self._take(ask)
            case Sweep():
                return self._sweep(ask)
            case Beat():
                return self._beat(ask.worker)
            case Leave():
                self.changes.buried.append(ask.worker)
                self.gone.append(ask.worker)
                return True

    def _do(self, ask: Do) -> Done:
        seat = self.seats.get((ask.tenant, ask.run_id))
        if seat is None:
            raise NoSuchRun(ask.run_id)
        key = None if ask.key is None else _signal_key(ask)
        if key is not None and key in self.taken:
            return Done(seat.run, [])
        events = decide(seat.run, ask.command, self.now)
        if not events:
            return Done(seat.run, [])
        self.adopt(seat, events, ask.actor, owner=isinstance(ask.command, c.Owned))
        if key is not None:
            self.take_key(key, Taken(ask.run_id, ""))
        if ask.output is not None or ask.error is not None:
            self.changes.outcomes.append((ask.tenant, ask.run_id, ask.output, ask.error))
        return Done(seat.run, events)

    def _start(self, ask: Start) -> Started:
        key = None if ask.create.key is None else _start_key(ask)
        if key is not None and key in self.taken:
            return _attach(ask, self.taken[key])
        run_id = ask.run_id or self.door.surroundings.new_id()
        if (ask.tenant, run_id) in self.seats:
            raise RunExists(run_id)
        run = unborn(ask.tenant, run_id, profiles.get(ask.profile))
        seat = Seat(Loaded(run, 0, 0, 0), new=True)
        self.adopt(seat, decide(run, ask.create, self.now), ask.actor, owner=False)
        self.seats[ask.tenant, run_id] = seat
        self.changes.inputs.append((ask.tenant, run_id, ask.input))
        if key is not None:
            self.take_key(key, Taken(run_id, ask.create.input_digest))
        return Started(run_id, attached=False)

    def _beat(self, worker: Worker) -> bool:
        """The first beat registers; a later one renews, or learns that it was found dead."""
        if worker.worker in self.door.local:
            return self.group.beat(worker)
        self.changes.joined.append(worker)
        return True

    def _take(self, ask: Take) -> list[Claimed]:
        claimed = []
        command = c.Claim(ask.worker)
        for run, payload in self.group.claimable(
            ask.worker, ask.queue, ask.workflows, self.now, ask.limit
        ):
            key = (run.tenant, run.id)
            seat = self.seats.get(key)
            if seat is None:
                seat = self.seats[key] = Seat(Loaded(run, run.version, 0, 0))
            if seat.run.claim_at is None or seat.run.claim_at > self.now:
                continue  # an ask before this one, in the same group, has changed it
            self.adopt(seat, decide(seat.run, command, self.now), ask.worker, owner=True)
            claimed.append(Claimed(seat.run, payload))
        return claimed

    def _sweep(self, ask: Sweep) -> Swept:
        due = self.group.due(self.now, ask.limit)
        lost = {} if self.door.recovery_held() else self.group.lost(self.now, ask.worker)
        nudged = [key for worker in sorted(self.door.local) for key in self.group.nudged(worker)]
        self._seat_readable([*due, *nudged, *(key for keys in lost.values() for key in keys)])
        ticked = sum(self._tick(key, c.Tick()) for key in due)
        for worker, keys in lost.items():
            ticked += sum(self._tick(key, c.Tick(lost=worker)) for key in keys)
            self.changes.buried.append(worker)
        for key in nudged:
            # written with its next change, or now: the row must lose its mark
            seat = self.seats.get(key)
            if seat is not None:
                seat.log_only, seat.foreign = False, True
        return Swept(ticked, tuple(lost))

    def _seat_readable(self, keys: list[RunKey]) -> None:
        """Seat what can be read: one damaged run must not keep the clock from all others."""
        try:
            self.seat(keys)
        except Damaged:
            for key in keys:
                try:
                    self.seat([key])
                except Damaged as damage:
                    self.door.log.warning("the clock passes over a run: %s", damage)

    def _tick(self, key: RunKey, command: c.Tick) -> int:
        seat = self.seats.get(key)
        if seat is None or seat.run.over:
            return 0  # unreadable, or an ask before this one, in the same group, has ended it
        try:
            events = decide(seat.run, command, self.now)
            if events:
                self.adopt(seat, events, "engine", owner=False)
        except Refused as refusal:
            self.door.log.warning("tick of run %s refused: %s", key[1], refusal)
            return 0
        return 1 if events else 0

    def take_key(self, key: Key, taken: Taken) -> None:
        """Take a key for good, also against later asks of this group."""
        self.taken[key] = taken
        self.changes.keys.append((key, taken))

    def adopt(self, seat: Seat, events: Sequence[AnyEvent], actor: str, *, owner: bool) -> None:
        """Fold accepted events into a seat and put them on the log."""
        before = seat.run
        after = fold(before, events)
        text = encode_events(events)
        self.changes.log.append(
            (
                before.tenant,
                before.id,
                before.version + 1,
                after.version,
                after.updated_at,
                before.state,
                actor,
                self.door.command_id(),
                text,
            )
        )
        seat.run = after
        seat.appended += 1
        seat.tail_rows += 1
        seat.tail_bytes += len(text)
        if not owner:
            seat.foreign = True
        if seat.log_only and (
            not owner
            or after.head != before.head
            or seat.tail_rows >= TAIL_ROWS
            or seat.tail_bytes >= TAIL_BYTES
        ):
            seat.log_only = False

    # the end of the group

    def finish(self) -> None:
        """Complete what is to be written, and note which runs others may want to know of."""
        for key, seat in self.seats.items():
            if not (seat.appended or seat.foreign):
                continue
            if not seat.log_only:
                self.changes.rows.append(RowChange(seat.run, seat.row_version, self._nudges(seat)))
            if seat.foreign or seat.run.state != seat.found.state:
                self.heard.append(Change(key, seat.run, seat.foreign))

    def _nudges(self, seat: Seat) -> bool:
        """Whether the holder sits behind another door and must be told through the row."""
        return seat.foreign and seat.run.state in HELD and seat.run.worker not in self.door.local


def _signal_key(ask: Do) -> Key:
    return Key(ask.tenant, "signal", ask.run_id, ask.key or "")


def _start_key(ask: Start) -> Key:
    scope = ask.create.workflow if "workflow" in _key_scope(ask.profile) else ""
    return Key(ask.tenant, "start", scope, ask.create.key or "")


def _key_scope(profile: str) -> tuple[str, ...]:
    return profiles.get(profile).policies.key_scope


def _attach(ask: Start, taken: Taken) -> Started:
    """The same key: the same run if the input is the same, else the profile's policy."""
    conflict = profiles.get(ask.profile).policies.key_conflict
    if taken.digest != ask.create.input_digest and conflict == "refuse":
        raise KeyTaken(ask.create.key or "", taken.run_id, ask.create.input_digest, taken.digest)
    return Started(taken.run_id, attached=True)
