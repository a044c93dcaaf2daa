"""What every store must do, asked of each: memory in one process, SQLite through two handles."""

from __future__ import annotations

import sqlite3

import msgspec
import pytest

from perdure.core import events as e
from perdure.core.errors import Closed, Damaged, Unsound
from perdure.core.events import Failure
from perdure.store import Key, Payloads, RowChange, Stamp, Taken
from tests.stores.world import (
    INPUT,
    NOW,
    S,
    T,
    birth,
    changes,
    goes_on,
    looking,
    put,
    put_new,
    started,
    step,
    worker,
)

REFUSED = (Unsound, sqlite3.IntegrityError)
KEY = Key(T, "start", "w", "order:42")


def held(store, run_id="run-0001", name="W1", steps=0, **said):
    """Put a run that a worker holds, with so many rows of tail; return its row and its present."""
    run, created = birth(run_id, **said)
    row, claimed = started(run, name)
    present, tail = row, []
    for number in range(steps):
        present, entry = step(present, f"s#{number}")
        tail.append(entry)
    put(
        store,
        rows=[RowChange(row, None, nudged=False)],
        log=[created, claimed, *tail],
        inputs=[(run.tenant, run.id, INPUT)],
        joined=[worker(name)],
    )
    return row, present


# One group


def test_a_group_is_there_as_a_whole(store, other):
    """After the commit its row, log, input, key and worker are seen through every handle."""
    run, created = birth()
    put_new(store, (run, created), keys=[(KEY, Taken(run.id, "d"))], joined=[worker()])
    assert other.find(T, run.id).run == run
    assert [entry.command_id for entry in other.entries(T, run.id)] == ["c.1"]
    assert other.payloads(T, run.id) == Payloads(INPUT, None, None)
    assert other.workers() == [worker()]
    with looking(other) as group:
        assert group.keys([KEY]) == {KEY: Taken(run.id, "d")}


def test_a_rollback_leaves_nothing(store, other):
    """What a group wrote before it was rolled back is nowhere, a beat included."""
    run, created = birth()
    put(store, joined=[worker("W0")])
    group = store.begin()
    assert group.beat(worker("W0", NOW + 99 * S))
    group.write(
        changes(
            joined=[worker("W1")],
            rows=[RowChange(run, None, nudged=False)],
            log=[created],
            inputs=[(T, run.id, INPUT)],
            keys=[(KEY, Taken(run.id, "d"))],
        )
    )
    group.rollback()
    assert other.find(T, run.id) is None
    assert other.entries(T, run.id) == []
    assert other.payloads(T, run.id) is None
    assert other.workers() == [worker("W0")]
    with looking(other) as group:
        assert group.keys([KEY]) == {}
        assert group.due(NOW + 1000 * S, 10) == []


def test_readers_see_only_what_is_committed(store, other):
    """While a group is open, its own store and another handle read what was there before."""
    run, created = birth()
    group = store.begin()
    group.write(changes(rows=[RowChange(run, None, nudged=False)], log=[created]))
    seen = store.find(T, run.id), other.find(T, run.id), store.entries(T, run.id)
    group.commit()
    assert seen == (None, None, [])
    assert store.find(T, run.id).run == other.find(T, run.id).run == run


def test_a_row_of_another_version_refuses_the_whole_write(store, other):
    """One stale row in a group, and nothing of the group is written."""
    put_new(store, birth("run-0001"), birth("run-0002"))
    stale = other.find(T, "run-0001").run
    taken, claimed = started(stale)
    put(store, rows=[RowChange(taken, 1, nudged=False)], log=[claimed])

    fresh = started(other.find(T, "run-0002").run, "W2")
    late = started(stale, "W2")
    with pytest.raises(REFUSED):
        put(
            other,
            rows=[RowChange(run, 1, nudged=False) for run, _ in (fresh, late)],
            log=[row for _, row in (fresh, late)],
        )
    assert store.find(T, "run-0001").run == taken
    assert store.find(T, "run-0002").run.version == 1
    assert len(store.entries(T, "run-0002")) == 1


def test_the_log_refuses_a_second_append_from_the_same_boundary(store, other):
    """Whatever else fails: two owners who both believe in version 2 cannot both go on from it."""
    row, _ = held(store)
    _, mine = step(row, "mine#1")
    _, theirs = step(row, "theirs#1")
    put(store, log=[mine])
    with pytest.raises(REFUSED):
        put(other, log=[theirs])
    assert [entry.events[0].step for entry in other.entries(T, row.id, 2)] == ["mine#1"]


def test_a_run_is_created_once(store, other):
    """A second row of one id is refused, and the first stays as it was."""
    put_new(store, birth(workflow="first"))
    with pytest.raises(REFUSED):
        put_new(other, birth(workflow="second"))
    assert store.find(T, "run-0001").run.workflow == "first"


def test_the_same_run_id_may_live_in_two_tenants(store):
    """The tenant comes first in every key: nothing of one is seen or hit by the other."""
    put_new(store, birth(tenant="a", workflow="mine"), birth(tenant="b", workflow="theirs"))
    assert store.find("a", "run-0001").run.workflow == "mine"
    assert store.find("b", "run-0001").run.workflow == "theirs"
    assert [run.tenant for run in store.listing("a", before=None, limit=9, states=None)] == ["a"]
    assert len(store.entries("b", "run-0001")) == 1


def test_a_taken_key_refuses_the_whole_write(store, other):
    """A key has one owner for good; the run of the second comer is not there either."""
    put_new(store, birth("run-0001"), keys=[(KEY, Taken("run-0001", "d"))])
    with pytest.raises(REFUSED):
        put_new(other, birth("run-0002"), keys=[(KEY, Taken("run-0002", "d"))])
    assert store.find(T, "run-0002") is None
    with looking(store) as group:
        assert group.keys([KEY])[KEY].run_id == "run-0001"


@pytest.mark.parametrize("part", ["tenant", "kind", "scope", "key"])
def test_a_key_is_all_of_its_parts(store, part):
    """A key that differs in one part only is another key, and free."""
    put_new(store, birth(), keys=[(KEY, Taken("run-0001", "d"))])
    near = KEY._replace(**{part: "signal" if part == "kind" else "another"})
    with looking(store) as group:
        assert group.keys([near, KEY]) == {KEY: Taken("run-0001", "d")}


# What is there


def test_the_present_is_the_row_with_the_log_folded_in(store, other):
    """A row may lag: `find` and `load` answer alike, and say how far it lags."""
    row, present = held(store, steps=3)
    found = other.find(T, row.id)
    with looking(other) as group:
        loaded = group.load([(T, row.id), (T, "absent")])
    assert found.run == present
    assert found.row.run == row
    assert (found.row_version, found.tail_rows) == (2, 3)
    assert found.tail_bytes == sum(len(step(row, f"s#{n}")[1].events) for n in range(3))
    assert list(loaded) == [(T, row.id)]
    assert loaded[T, row.id][:4] == found[:4]


def test_the_row_shows_the_columns_it_is_found_by(store):
    """Whoever compares a row with the log sees what the indexes see."""
    run, _ = birth(priority=3, deadline=NOW + 60 * S)
    put_new(store, birth(priority=3, deadline=NOW + 60 * S))
    row = store.find(T, run.id).row
    assert (row.claim_rank, row.claim_at, row.due_at) == (7, NOW, NOW + 60 * S)


def test_what_is_absent_is_not_answered(store):
    """Absent runs have no present, no stamp, no payloads and no log."""
    with looking(store) as group:
        assert group.load([(T, "absent")]) == {}
        assert group.stamps([(T, "absent")]) == {}
    assert store.find(T, "absent") is None
    assert store.payloads(T, "absent") is None
    assert store.entries(T, "absent") == []


def test_a_stamp_is_of_the_row_and_not_of_the_log(store, other):
    """An append alone leaves the stamp as it is: equal stamps mean that nobody else has spoken."""
    row, _ = held(store, steps=2)
    with looking(other) as group:
        assert group.stamps([(T, row.id)]) == {(T, row.id): Stamp(2, 1)}


def test_a_written_row_ends_the_tail(store):
    """Once the row is written with the tail folded in, nothing of it is left."""
    row, present = held(store, steps=2)
    put(store, rows=[RowChange(present, row.version, nudged=False)])
    found = store.find(T, row.id)
    assert (found.run, found.row.run, found.tail_rows, found.tail_bytes) == (present, present, 0, 0)


def test_every_part_of_a_run_comes_back(store):
    """Open steps, untaken signals, the asked-for stop and all counters survive the row."""
    run, created = birth(deadline=NOW + 99 * S, trace_id="trace", attempt=2)
    run, claimed = started(run)
    run, rest = goes_on(
        run,
        e.StepStarted(NOW, "a#1", NOW, digest="d", max_attempts=3, timeout=5),
        e.StepRetryScheduled(NOW, "a#1", Failure("X", "y"), 1, NOW + S),
        e.SignalReceived(NOW, "hello", msgspec.Raw(b"[1]")),
        e.RunCancelRequested(NOW, NOW + 10 * S, "enough"),
    )
    put(store, rows=[RowChange(run, None, nudged=False)], log=[created, claimed, rest])
    assert store.find(T, run.id).row.run == run


def test_a_payload_comes_back_byte_for_byte(store):
    """Order, spaces, escapes and great integers are the writer's business."""
    payload = msgspec.Raw('{"b": 1,  "a":"\\u00e9 ☃", "n":9223372036854775807, "f":1e2}'.encode())
    run, created = birth()
    put(
        store,
        rows=[RowChange(run, None, nudged=False)],
        log=[created],
        inputs=[(T, run.id, payload)],
    )
    put(store, outcomes=[(T, run.id, payload, None)])
    assert store.payloads(T, run.id) == Payloads(payload, payload, None)
    put(store, outcomes=[(T, run.id, None, payload)])
    assert store.payloads(T, run.id) == Payloads(payload, None, payload)


# The log


@pytest.mark.parametrize(
    ("after", "limit", "first_events"),
    [
        (0, None, [1, 2, 3, 5, 7]),
        (2, None, [3, 5, 7]),
        (3, None, [3, 5, 7]),  # the row of 3 and 4 holds an event after 3
        (4, 1, [5]),
        (0, 2, [1, 2]),
        (7, None, [7]),
        (8, None, []),
        (99, None, []),
    ],
)
def test_entries_begin_with_the_row_that_holds_the_next_event(store, after, limit, first_events):
    """In order, from the row of the event after a number on, at most so many; no other run's."""
    held(store, steps=3)
    held(store, "run-0002", "W2", steps=1)
    assert [it.seq for it in store.entries(T, "run-0001", after, limit)] == first_events


def test_entries_say_who_did_what_and_when(store):
    """A row of the log comes back with all that was written."""
    row, present = held(store, steps=1)
    last = store.entries(T, row.id)[-1]
    assert (last.tenant, last.run_id, last.seq, last.last_seq) == (T, row.id, 3, 4)
    assert (last.at, last.was, last.actor, last.command_id) == (NOW, "running", "me", "c.1")
    assert present.version == last.last_seq
    assert [type(event) for event in last.events] == [e.StepStarted, e.StepSucceeded]


def test_a_row_of_the_log_that_is_no_json_is_named(store):
    """Nobody gets a half-read log: the error says which row of which run, and why."""
    run, created = birth()
    put_new(store, (run, created._replace(events='[{"type":"run.never"}]')))
    with pytest.raises(Damaged) as refused:
        store.entries(T, run.id)
    assert (refused.value.run_id, refused.value.what) == (run.id, "the log's row 1 to 1")


# Who wants a worker


def claimed_ids(store, *workflows, queue="q", now=NOW, limit=10, name="W0"):
    with looking(store) as group:
        return [it.run.id for it in group.claimable(name, queue, workflows, now, limit)]


@pytest.fixture
def at_work(store):
    """A worker is registered, so that something may be claimed."""
    put(store, joined=[worker("W0")])


def test_claims_come_by_rank_then_by_time(store, at_work):
    """Urgent ones first, begun before new ones of their priority, then the longest waiting."""
    put_new(
        store,
        birth("run-late", claim_at=NOW - 1),
        birth("run-early", claim_at=NOW - 2),
        birth("run-urgent", claim_at=NOW, priority=0),
        birth("run-idle", claim_at=NOW - 9, priority=9),
    )
    run, created = birth("run-begun")
    run, claimed = started(run)
    run, released = goes_on(run, e.RunReleased(NOW, NOW))
    put(
        store,
        rows=[RowChange(run, None, nudged=False)],
        log=[created, claimed, released],
        inputs=[(T, run.id, INPUT)],
    )
    order = ["run-urgent", "run-begun", "run-early", "run-late", "run-idle"]
    assert claimed_ids(store, "w") == order
    assert claimed_ids(store, "w", limit=2) == order[:2]


def test_no_workflow_stands_behind_another(store, at_work):
    """The order goes over all workflows of a worker, in whichever order it names them."""
    put_new(
        store,
        birth("run-a1", workflow="a", claim_at=NOW - 3),
        birth("run-a2", workflow="a", claim_at=NOW - 1),
        birth("run-b1", workflow="b", claim_at=NOW - 2),
        birth("run-b2", workflow="b", priority=0),
        birth("run-c1", workflow="c", priority=9),
    )
    order = ["run-b2", "run-a1", "run-b1", "run-a2", "run-c1"]
    assert claimed_ids(store, "a", "b", "c") == claimed_ids(store, "c", "b", "a") == order
    assert claimed_ids(store, "a", "b", "c", limit=3) == order[:3]


def test_only_what_may_be_claimed_now_and_here_is_claimable(store, at_work):
    """Not an unknown workflow, another queue, a later moment, or a run that somebody holds."""
    put_new(
        store,
        birth("run-unknown", workflow="x"),
        birth("run-elsewhere", queue="gpu"),
        birth("run-tomorrow", claim_at=NOW + 1),
        birth("run-here"),
    )
    held(store, "run-held")
    assert claimed_ids(store, "w") == ["run-here"]
    assert claimed_ids(store) == []
    assert claimed_ids(store, "w", now=NOW + 1) == ["run-here", "run-tomorrow"]
    assert claimed_ids(store, "w", queue="gpu") == ["run-elsewhere"]
    assert claimed_ids(store, "w", limit=0) == []


def test_a_claimable_run_comes_with_its_input(store, at_work):
    """A claim needs the row alone: it is current, for nobody holds the run."""
    run, created = birth()
    put_new(store, (run, created))
    with looking(store) as group:
        (it,) = group.claimable("W0", "q", ["w"], NOW, 1)
    assert (it.run, it.input) == (run, INPUT)


def test_nothing_is_claimable_for_a_worker_that_nobody_would_miss(store):
    """One that never registered, or was found dead: its runs would never be freed."""
    put_new(store, birth())
    held(store, "run-held", "W1")
    assert claimed_ids(store, "w", name="W1") == ["run-0001"]
    put(store, buried=["W1"])
    assert claimed_ids(store, "w", name="W1") == []
    assert claimed_ids(store, "w", name="W9") == []


# What time does


def test_due_runs_come_the_first_to_be_due_first(store):
    """Those whose moment is here, at most so many."""
    put_new(
        store,
        birth("run-second", deadline=NOW + 2),
        birth("run-first", deadline=NOW + 1),
        birth("run-third", deadline=NOW + 3),
        birth("run-never"),
    )
    with looking(store) as group:
        assert group.due(NOW, 10) == []
        assert group.due(NOW + 2, 10) == [(T, "run-first"), (T, "run-second")]
        assert group.due(NOW + 9, 1) == [(T, "run-first")]


def beat(store, *workers):
    group = store.begin()
    answers = [group.beat(each) for each in workers]
    group.commit()
    return answers


def test_a_worker_is_lost_when_its_lease_is_past(store, other):
    """With the runs it held; whoever looks does not find itself."""
    held(store, "run-0001", "W1")
    held(store, "run-0002", "W2")
    beat(store, worker("W1", NOW + 5), worker("W2", NOW + 9))
    with looking(other) as group:
        assert group.lost(NOW + 4, "W2") == {}
        assert group.lost(NOW + 5, "W2") == {"W1": [(T, "run-0001")]}
        assert group.lost(NOW + 9, "W2") == {"W1": [(T, "run-0001")]}
        assert set(group.lost(NOW + 9, "")) == {"W1", "W2"}


def test_a_beat_renews_the_lease_and_nothing_else(store, other):
    """Name, host and start are those of the registration."""
    put(store, joined=[worker("W1", NOW + 1)])
    pretender = msgspec.structs.replace(worker("W1", NOW + 7), name="other", pid=99)
    assert beat(other, pretender) == [True]
    assert store.workers() == [worker("W1", NOW + 7)]


def test_a_beat_registers_nobody(store):
    """Who was found dead and forgotten learns it by its next beat, and stays forgotten."""
    assert beat(store, worker()) == [False]
    assert store.workers() == []


def test_a_worker_registers_once(store, other):
    """Its name is fresh: a second registration under it is refused with all that came with it."""
    put(store, joined=[worker("W1", NOW + 1)])
    with pytest.raises(REFUSED):
        put_new(other, birth(), joined=[worker("W1", NOW + 7)])
    assert store.workers() == [worker("W1", NOW + 1)]
    assert store.find(T, "run-0001") is None


def test_the_beat_of_a_dead_worker_is_refused(store, other):
    """Found dead while it held a run, it stays dead, and its row stays while it holds anything."""
    row, _ = held(store)
    put(store, buried=["W1"])
    (left,) = other.workers()
    assert (left.dead, left.lease_until) == (True, 0)
    assert beat(other, worker("W1", NOW + 99 * S)) == [False]
    with looking(store) as group:
        assert group.lost(NOW, "W2") == {"W1": [(T, row.id)]}


def test_a_dead_worker_that_holds_nothing_is_forgotten(store):
    """In the very group that frees its last run."""
    row, _ = held(store)
    freed, released = goes_on(row, e.RunInterrupted(NOW, "W1", "gone"))
    put(store, rows=[RowChange(freed, 2, nudged=False)], log=[released], buried=["W1"])
    assert store.workers() == []


def test_burying_a_stranger_changes_nothing(store):
    """A worker that never registered leaves no trace when it leaves."""
    put(store, buried=["nobody"])
    assert store.workers() == []


def test_a_nudge_stays_until_the_row_is_written_without(store, other):
    """The holder finds the runs somebody else spoke to, and only its own."""
    row, _ = held(store)
    held(store, "run-0002", "W2")
    told, signal = goes_on(row, e.SignalReceived(NOW, "hello", INPUT))
    put(other, rows=[RowChange(told, 2, nudged=True)], log=[signal])
    with looking(store) as group:
        assert group.nudged("W1") == [(T, row.id)]
        assert group.nudged("W2") == []
    put(store, rows=[RowChange(told, 3, nudged=False)])
    with looking(store) as group:
        assert group.nudged("W1") == []


# Lists


def test_a_listing_turns_its_pages_backwards(store):
    """Newest id first; the last id of a page begins the next; nothing twice and nothing missing."""
    ids = [f"run-{number:04}" for number in range(7)]
    put_new(store, *(birth(run_id) for run_id in ids), birth("run-other", tenant="b"))
    seen, before = [], None
    while page := store.listing(T, before=before, limit=3, states=None):
        seen.append([run.id for run in page])
        before = page[-1].id
    assert [len(page) for page in seen] == [3, 3, 1]
    assert [run_id for page in seen for run_id in page] == ids[::-1]


def test_a_listing_keeps_to_the_states_asked_for(store):
    """One, several or none of them; the page is full of what was asked for."""
    put_new(store, birth("run-0001"), birth("run-0003"))
    held(store, "run-0002")

    def listed(*states):
        return [it.id for it in store.listing(T, before=None, limit=2, states=states)]

    assert listed("queued") == ["run-0003", "run-0001"]
    assert listed("running") == ["run-0002"]
    assert listed("queued", "running") == ["run-0003", "run-0002"]
    assert listed("failed") == listed() == []


def test_a_listing_shows_rows_as_they_are_stored(store):
    """The head of a held run is current, its body may lag."""
    row, present = held(store, steps=2)
    (shown,) = store.listing(T, before=None, limit=1, states=None)
    assert shown == row
    assert shown.head == present.head


# Other handles


def test_one_s_own_commit_leaves_the_proof_as_it_is(store):
    """Nobody else has spoken, so what is cached need not be read again."""
    with looking(store) as group:
        before = group.proof
    put_new(store, birth())
    with looking(store) as group:
        assert group.proof == before


def test_the_commit_of_another_handle_changes_the_proof(opened):
    """Also one that only renews a lease; a look alone changes nothing."""
    store, other = opened(), opened()
    proofs = []
    put(store, joined=[worker()])
    renewed = worker("W1", NOW + 99 * S)
    for write in (lambda: None, lambda: beat(other, renewed), lambda: put_new(other, birth())):
        write()
        with looking(store) as group:
            proofs.append(group.proof)
        with looking(other):
            assert store.workers() is not None
    with looking(store) as group:
        assert group.proof == proofs[2]
    assert len(set(proofs)) == 3


def test_closing_twice_is_closing_once(store):
    """A closed store refuses a group with a reason, and closes again without one."""
    store.close()
    store.close()
    with pytest.raises(Closed):
        store.begin()
