"""Kill workers and prove that nothing was lost: the short form of `./run chaos`."""

import asyncio
import os
import signal
import subprocess
import sys
import time

import pytest

from perdure.stores import open_store
from perdure.testing.chaos_round import chaos_round, plan

PAUSE_S = 0.01


@pytest.mark.parametrize("workers", [1, 2])
def test_nothing_is_lost_to_kills(tmp_path, workers):
    """Ten kills of one worker, ten of two: every check that the long form makes holds."""
    shown = asyncio.run(
        chaos_round(tmp_path, seed=57, kills=10, workers=workers, say=lambda _: None)
    )
    assert shown.findings == []
    assert shown.tally.kills == 10
    assert shown.tally.runs_interrupted > 0
    assert shown.tally.steps > shown.tally.runs > 50


def test_the_seed_chooses_the_moments():
    """The same seed gives the same moments, another one others; both at once counts as two."""
    assert plan(1, 50, 2) == plan(1, 50, 2) != plan(2, 50, 2)
    assert sum(2 if moment.both else 1 for moment in plan(1, 50, 2)) == 50
    assert not any(moment.both for moment in plan(1, 50, 1))


@pytest.mark.parametrize("stopped", [False, True])
def test_no_worker_outlives_who_started_it(tmp_path, stopped):
    """A controlling process that is killed takes its workers along, even one that is stopped."""
    program = (
        "import sys, time, pathlib\n"
        "from perdure.testing.crew import Crew\n"
        f"hand = Crew('sqlite:///{tmp_path}/runs.db', pathlib.Path('{tmp_path}')).hire()\n"
        "sys.stdin.readline()\n"
        f"{'hand.pause()' if stopped else ''}\n"
        "print('ready', flush=True)\n"
        "sys.stdin.readline()\n"
    )
    controller = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    store = open_store(f"sqlite:///{tmp_path}/runs.db")
    with controller:
        until(store.workers)
        [worker] = store.workers()
        controller.stdin.write("go on\n")
        controller.stdin.flush()
        assert controller.stdout.readline() == "ready\n"
        assert not store.lives.is_dead(worker.worker)
        controller.kill()
    try:
        until(lambda: store.lives.is_dead(worker.worker))
    except AssertionError:
        os.kill(worker.pid, signal.SIGKILL)
        raise
    finally:
        store.close()


def until(true, within_s=10.0):
    end = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < end
        time.sleep(PAUSE_S)
