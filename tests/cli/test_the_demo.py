"""The demo end to end, twice at once: piped with nobody there, and on a terminal with a person."""

import os
import re

import pytest

from tests.cli.shell import Shell


def marks(folder):
    """The marks of the bodies, as (step, began or finished, process, key)."""
    return [line.split() for line in (folder / "marks.txt").read_text().splitlines()]


def test_a_demo_in_a_pipe_tells_the_whole_story(demos):
    """It kills, recovers, answers by itself and says so, and every claim is checked."""
    code, printed = demos.piped
    assert code == 0, printed
    assert "nobody is here" in printed
    for part in ("What happened", "The steps", "Checked", "perdure explain", "Go on"):
        assert f"\n{part}\n" in printed
    assert printed.count("✓ ") >= 7
    assert "✗" not in printed
    assert "\x1b[" not in printed
    assert re.search(r"run\.interrupted .* its worker is gone", printed)
    assert re.search(r"step\.reclaimed +charge", printed)
    assert "21 events: sound." in printed


def test_the_marks_prove_it(demos):
    """The killed body began twice and finished once, under one key; every other one ran once."""
    folder = demos.folder / "piped"
    charge = [mark for mark in marks(folder) if mark[0] == "charge"]
    assert [mark[1] for mark in charge] == ["began", "began", "finished"]
    assert len({mark[3] for mark in charge}) == 1
    assert charge[0][2] != charge[1][2] == charge[2][2]
    others = [mark[:2] for mark in marks(folder) if mark[0] != "charge"]
    names = ("reserve", "invoice", "ship", "receipt")
    assert others == [[name, what] for name in names for what in ("began", "finished")]


def test_a_person_can_say_no(demos):
    """On a terminal the key is heard, another one is not; the purchase takes its other way out."""
    code, drawn = demos.live
    assert code == 0, drawn[-2000:]
    steps = [mark[0] for mark in marks(demos.folder / "live") if mark[1] == "finished"]
    assert steps == ["reserve", "invoice", "charge", "refund"]
    assert "reserve, invoice and refund began once and finished once" in drawn


def test_no_worker_outlives_its_demo(demos):
    """Each process that left a mark is gone."""
    folder = demos.folder
    pids = {int(mark[2]) for name in ("piped", "live") for mark in marks(folder / name)}
    assert len(pids) == 4
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_folder_has_one_demo(demos):
    """A second one is refused before it starts anything."""
    folder = demos.folder
    said = Shell(folder).refused("demo", "--folder", str(folder / "piped"), code=2)
    assert "holds a demo already" in said
