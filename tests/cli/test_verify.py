"""`verify`: exit code 0 when all is sound, 1 when something was found, 2 when one cannot look."""

import shutil
import sqlite3
from contextlib import closing


def test_a_sound_store_is_sound(history):
    """Of all runs, and of one."""
    assert history.said("verify").endswith("sound.\n")
    report = history.json("verify")
    assert (report["runs"], report["findings"]) == (len(history.ids), [])
    assert history.json("verify", history.ids["pay"])["runs"] == 1


def test_what_was_tampered_with_is_found(history, shell):
    """A row that says other than its log is a finding, and exit code 1."""
    shutil.copy(history.folder / "runs.db", shell.folder / "runs.db")
    with closing(sqlite3.connect(shell.folder / "runs.db")) as db, db:
        db.execute("update runs set workflow = 'other' where id = ?", [history.ids["queued"]])
    done = shell("verify")
    assert done.returncode == 1
    assert f"run {history.ids['queued']}: head differs" in done.stdout
    assert shell("verify", history.ids["queued"], "--json").returncode == 1
    assert shell("verify", history.ids["pay"]).returncode == 0


def test_where_one_cannot_look_the_code_is_2(history):
    """A run and a store that are not there are no findings."""
    assert "there is no run" in history.refused("verify", "nothing", code=2)
    assert "there is no file" in history.refused("verify", "--store", "sqlite:///no.db", code=2)
