"""The log first, the row when it must: what each command writes, counted."""

from __future__ import annotations

import msgspec
import pytest

from perdure.core import commands as c
from perdure.core.events import Failure
from perdure.core.limits import TAIL_BYTES, TAIL_ROWS
from perdure.engine.asks import Do
from tests.engine.world import T, asks, finish, signal, succeed


def written(world) -> tuple[int, int]:
    """Return how many rows of runs and of the log the last group wrote."""
    return len(world.store.last.rows), len(world.store.last.log)


def test_a_step_is_one_row_of_the_log_and_no_row_of_a_run(world):
    """Its start and its result are one command; the present is the row with the log folded in."""
    run = world.held("W")
    for n in range(5):
        done = world.step(run, f"s{n}")
        assert written(world) == (0, 1)
    found = world.store.find(T, run.id)
    assert found.run == done.run
    assert (found.row_version, found.tail_rows) == (run.version, 5)


def test_a_step_is_two_statements_to_the_database(ours):
    """Begin and commit left aside: the file's count of commits is read, one row is inserted."""
    run = ours.held("W")
    ours.step(run, "first")
    seen = []
    ours.store.store._writer.set_trace_callback(seen.append)
    changes = ours.store.store._writer.total_changes
    ours.step(run, "second")
    assert [line.split()[0].lower() for line in seen] == ["begin", "pragma", "insert", "commit"]
    assert ours.store.store._writer.total_changes - changes == 1


def test_every_so_many_rows_the_row_catches_up(world):
    """So that whoever must read the run need not fold a long tail."""
    run = world.held("W")
    rows = []
    for n in range(2 * TAIL_ROWS):
        world.step(run, f"s{n}")
        rows.append(len(world.store.last.rows))
    assert [n + 1 for n, count in enumerate(rows) if count] == [TAIL_ROWS, 2 * TAIL_ROWS]
    assert world.store.find(T, run.id).tail_rows == 0


def test_a_heavy_tail_is_folded_in_earlier(world):
    """Bytes count as well as rows."""
    run = world.held("W")
    heavy = msgspec.Raw(b'"' + b"x" * (TAIL_BYTES // 3) + b'"')
    rows = []
    for n in range(4):
        world.step(run, f"s{n}", heavy)
        rows.append(len(world.store.last.rows))
    assert rows == [0, 0, 1, 0]


HEADS = {
    "suspended": lambda run: c.Suspend(run.token, ("go",), c.Wait("go", "signal", "go")),
    "released": lambda run: c.Release(run.token),
    "finished": finish,
    "failed": lambda run: c.Fail(run.token, Failure("OOPS")),
}


@pytest.mark.parametrize("name", HEADS)
def test_what_anybody_asks_a_row_for_is_always_current(world, name):
    """A run that leaves its worker's hands is written; its tail is folded in with it."""
    run = world.held("W")
    world.step(run, "a")
    world.do(run.id, HEADS[name](run))
    assert written(world) == (1, 1)
    found = world.store.find(T, run.id)
    assert (found.row_version, found.tail_rows) == (found.run.version, 0)


def test_what_another_says_is_written_to_the_row(world):
    """A signal leaves the head alone, and yet the row shows that somebody has spoken."""
    run = world.held("W")
    world.step(run, "a")
    world.door.call(signal(run.id))
    assert written(world) == (1, 1)
    world.step(run, "b")
    assert written(world) == (0, 1)


def test_a_group_of_steps_and_an_end_is_one_row(world):
    """What was log-only a moment ago is carried by the end."""
    run = world.held("W")
    world.step(run, "first")
    reports = [Do(T, run.id, succeed(run, f"s{n}"), "W") for n in range(3)]
    world.door.commit([*reports, asks(run.id, finish(run))])
    assert written(world) == (1, 4)


def test_a_claim_needs_the_row_alone(world):
    """A tail exists only while a run is held, so whoever claims finds none."""
    run = world.held("W")
    for n in range(3):
        world.step(run, f"s{n}")
    world.do(run.id, c.Release(run.token))
    (again,) = world.claims("W")
    assert again.run.version == run.version + 8
    assert written(world) == (1, 1)


def test_the_door_counts_what_it_writes(world):
    """Groups are commits, and rows are told from rows of the log: a measurement needs both."""
    run = world.held("W")
    groups, rows = world.door.groups, world.door.row_writes
    for n in range(3):
        world.step(run, f"s{n}")
    world.do(run.id, c.Release(run.token))
    assert (world.door.groups - groups, world.door.row_writes - rows) == (4, 1)
