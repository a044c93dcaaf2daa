"""The counts that the benchmark claims, exact, and its scripts at a size that takes a second."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.core.limits import TAIL_ROWS

BENCH = Path(__file__).parent.parent / "bench"
EARLY, LATE = 10, 2_000


def measured(script: str, *arguments: int) -> dict:
    """Run a script of bench/ in a process of its own, as `./run bench` does."""
    done = subprocess.run(
        [sys.executable, BENCH / script, *map(str, arguments)],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def counts() -> dict:
    return measured("counts.py", LATE + 30)


def test_a_late_step_costs_what_an_early_one_does(counts):
    """At step 2,000 a step takes the statements and rows of step 10, and its bytes within 2 %."""
    early, late = counts["early"], counts["late"]
    assert (early["step"], late["step"]) == (EARLY, LATE)
    assert (late["statements"], late["rows"]) == (early["statements"], early["rows"])
    assert 0.98 < counts["bytes_ratio"] < 1.02


def test_a_step_appends_one_row(counts):
    """A step is one statement that writes one row of the log."""
    assert counts["early"]["statements"] == counts["early"]["rows"] == 1


def test_the_row_follows_every_64th_step(counts):
    """The run's own row is written once in 64 steps, and at no other."""
    assert counts["run_rows"] == counts["steps"] // TAIL_ROWS


def test_a_full_house_shares_its_commits():
    """At 256 in flight a step costs at most a twentieth of a commit, one log row, no run row."""
    took = measured("drain.py", 600, 5, 256)
    assert took["groups"] / took["steps"] <= 0.05
    assert took["log_rows"] == took["runs"] * 7  # the claim, five steps, the end
    assert took["row_writes"] == took["runs"] * 2  # the claim and the end


def test_the_bare_path_runs():
    """What the engine is measured against does the same work and says how much."""
    took = measured("spike.py", 100, 5, 64)
    assert took["log_rows"] == 700
    assert took["events"] == 1_200
