"""Several real processes on one SQLite file: they take turns, and they notice who is gone."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import threading
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from perdure.stores.turnstile import Turnstile
from perdure.verify import verify_store
from tests.stores.world import NOW, T, World, birth, looking, put_new

ROOT = Path(__file__).parents[2]
BEGIN = """
import os, sys
from perdure.core import commands as c
from perdure.core.errors import StoreError
from perdure.stores.sqlite import SqliteStore
from tests.stores.world import INPUT, NOW, T, World, birth, changes, put, put_new, worker
path, number = sys.argv[1], int(sys.argv[2])
def say(word):
    print(word, flush=True)
def wait():
    sys.stdin.readline()
"""


@pytest.fixture
def processes(path):
    """Starts Python processes that say `ready` and wait for a word; none outlives its test."""
    with ExitStack() as ended:

        def start(*bodies):
            crew = [
                subprocess.Popen(
                    [sys.executable, "-c", BEGIN + body, path, str(number)],
                    cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                )
                for number, body in enumerate(bodies)
            ]  # fmt: skip
            for process in crew:
                ended.enter_context(process)
                ended.callback(process.kill)
            for process in crew:
                assert process.stdout.readline() == "ready\n"
            return crew

        yield start


def go(process):
    process.stdin.write("go\n")
    process.stdin.flush()


def all_end_well(crew):
    for process in crew:
        go(process)
    assert [process.wait() for process in crew] == [0] * len(crew)


# Opening and writing at once


def test_many_processes_open_an_empty_path_at_once(processes, opened):
    """One of them migrates, all of them open, and each finds room for its run."""
    body = """
say("ready")
wait()
store = SqliteStore(path)
put_new(store, birth(f"run-000{number}"))
store.close()
"""
    all_end_well(processes(*[body] * 6))
    listed = opened().listing(T, before=None, limit=9, states=None)
    assert [run.id for run in listed] == [f"run-000{number}" for number in range(5, -1, -1)]


def test_processes_take_turns_with_one_run(processes, opened):
    """Each through a door of its own: nothing is lost, nothing twice, and the log is sound."""
    here = World(opened())
    run_id = here.start()
    body = f"""
world = World(SqliteStore(path), seed=number + 1)
say("ready")
wait()
for turn in range(25):
    world.do({run_id!r}, c.Signal(f"{{number}}.{{turn}}", INPUT))
world.store.close()
"""
    all_end_well(processes(*[body] * 4))
    names = [signal.name for signal in here.store.find(T, run_id).run.signals]
    assert sorted(names) == sorted(f"{number}.{turn}" for number in range(4) for turn in range(25))
    assert str(verify_store(here.store, T)) == "1 run, 101 log rows, 101 events: sound."


def test_whoever_has_just_written_stands_at_the_end(path):
    """While one works another waits at the door proper, and goes in before the first one again."""
    with closing(Turnstile(path)) as first, closing(Turnstile(path)) as second:
        order = []

        def come_in():
            with second:
                order.append("second")

        with first:
            order.append("first")
            waiting = threading.Thread(target=come_in)
            waiting.start()
            wait_until_locked(path + ".turn")  # so it stands before the lock `write`
        with first:
            order.append("first again")
        waiting.join()
    assert order == ["first", "second", "first again"]


def wait_until_locked(path):
    while not is_locked(path):
        continue


def is_locked(path):
    with open(path) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


# Who is gone


def test_a_killed_process_is_found_by_its_lock(processes, opened):
    """Long before its lease is past, and with the runs it held; a living one is not."""
    body = """
world = World(SqliteStore(path))
run_id = world.start(run_id=f"run-000{number}")
name = f"W{number}"
world.store.hold(name)
world.claim(run_id, name)
say("ready")
wait()
"""
    (killed,) = processes(body)
    (alive,) = processes(body.replace("{number}", "7"))
    store = opened()
    with looking(store) as group:
        assert group.lost(NOW, "me") == {}
    killed.kill()
    killed.wait()
    with looking(store) as group:
        assert group.lost(NOW, "me") == {"W0": [(T, "run-0000")]}
    all_end_well([alive])


def test_a_child_that_outlives_its_parent_keeps_none_of_its_locks(processes, opened):
    """Killed in the middle of a group: its worker is lost, and the turnstile is open."""
    body = """
store = SqliteStore(path)
store.hold("W1")
put(store, joined=[worker("W1")])
store.begin()
if os.fork() == 0:
    say("ready")
    wait()
    os._exit(0)
os.close(0)
os.waitpid(-1, 0)
"""
    (parent,) = processes(body)
    parent.kill()
    parent.wait()
    store = opened()
    with looking(store) as group:
        assert list(group.lost(NOW, "me")) == ["W1"]
    put_new(store, birth())
    parent.stdin.close()  # the child was reading from it all the while


def test_a_forked_child_is_refused_and_harms_nobody(processes, path, opened):
    """Readers, groups and a store of its own are refused; its `close` unlocks nothing."""
    body = """
store = SqliteStore(path)
put_new(store, birth())
group = store.begin()
child = os.fork()
if child == 0:
    refused = 0
    for use in (store.begin, store.workers, lambda: store.find(T, "x"), lambda: SqliteStore(path)):
        try:
            use()
        except StoreError as error:
            refused += "open the store after forking" in str(error)
    store.close()
    os._exit(0 if refused == 4 else 1)
status = os.waitpid(child, 0)[1]
say("ready")
wait()
group.write(changes(joined=[worker()]))
group.commit()
store.close()
sys.exit(status)
"""
    (parent,) = processes(body)
    assert is_locked(path + ".write")
    all_end_well([parent])
    store = opened()
    assert [it.worker for it in store.workers()] == ["W1"]
    assert store.find(T, "run-0001") is not None


def test_a_store_that_was_closed_before_the_fork_is_forgotten(processes, opened):
    """Parent and child may each open the file after they have parted."""
    body = """
SqliteStore(path).close()
child = os.fork()
store = SqliteStore(path)
put_new(store, birth("run-child" if child == 0 else "run-parent"))
store.close()
if child == 0:
    os._exit(0)
status = os.waitpid(child, 0)[1]
say("ready")
wait()
sys.exit(status)
"""
    all_end_well(processes(body))
    listed = opened().listing(T, before=None, limit=9, states=None)
    assert [run.id for run in listed] == ["run-parent", "run-child"]
