"""A SQLite file and what may be wrong with it, or with the moment."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing

import pytest

from perdure.core import errors
from perdure.core.errors import Closed, Damaged, StoreError
from perdure.stores import sqlite
from perdure.stores.sqlite import SqliteStore
from perdure.stores.turnstile import LifeLocks, Turnstile
from tests.stores.world import (
    NOW,
    T,
    birth,
    change,
    changes,
    looking,
    put,
    put_new,
    started,
    worker,
)


def handles():
    return len(os.listdir("/proc/self/fd"))


needs_proc = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="no /proc here")


# Opening


def test_a_new_file_is_migrated_and_lasts(path, opened):
    """What one store wrote the next one finds, with the schema it left."""
    first = opened()
    put_new(first, birth())
    first.close()
    assert opened().find(T, "run-0001").run == birth()[0]
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("select value from meta where name = 'schema'").fetchone() == ("1",)
        assert db.execute("pragma journal_mode").fetchone() == ("wal",)


def test_a_file_of_a_newer_perdure_is_refused(path, opened):
    """With both numbers, and without a change to the file."""
    opened().close()
    change(path, "update meta set value = '99' where name = 'schema'")
    with pytest.raises(StoreError, match=r"newer perdure \(schema 99, this one knows 1\)"):
        SqliteStore(path)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("select value from meta").fetchall() == [("99",)]


def test_a_file_that_is_no_database_is_refused(path):
    """And stays as it is, byte for byte."""
    prose = b"Dear diary, today I opened a store.\n" * 200
    with open(path, "wb") as file:
        file.write(prose)
    with pytest.raises(StoreError, match="is not a SQLite database"):
        SqliteStore(path)
    with open(path, "rb") as file:
        assert file.read() == prose


def test_a_missing_folder_is_named(tmp_path):
    """Nothing is made where nobody asked for a folder."""
    with pytest.raises(StoreError, match=r"the folder .*nowhere does not exist; make it first"):
        SqliteStore(str(tmp_path / "nowhere" / "runs.db"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only to root")
def test_a_folder_that_may_only_be_read_is_named(tmp_path):
    """SQLite writes beside its file, so the folder matters and not the file alone."""
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(StoreError, match="writable"):
            SqliteStore(str(tmp_path / "runs.db"))
    finally:
        tmp_path.chmod(0o700)


def test_a_folder_is_no_file(tmp_path):
    """A path that leads to a folder is refused like any other that cannot be used."""
    (tmp_path / "runs.db").mkdir()
    with pytest.raises(StoreError, match="cannot be used"):
        SqliteStore(str(tmp_path / "runs.db"))


def test_an_old_sqlite_is_refused(path, monkeypatch):
    """With its version and the one that is needed."""
    monkeypatch.setattr(sqlite.sqlite3, "sqlite_version_info", (3, 37, 2))
    with pytest.raises(StoreError, match=r"perdure needs 3\.38 or newer"):
        SqliteStore(path)


@needs_proc
def test_a_store_that_could_not_be_opened_keeps_no_file_open(path, opened):
    """Whoever tries again every second does not run out of files."""
    opened().close()
    change(path, "update meta set value = '99' where name = 'schema'")
    before = handles()
    for _ in range(3):
        with pytest.raises(StoreError):
            SqliteStore(path)
    assert handles() == before


def test_a_migration_that_breaks_leaves_nothing(path, monkeypatch):
    """It is one transaction: the next one to open begins where this one began."""
    steps = sqlite.migrations("sqlite")
    broken = [(1, [*steps[0][1], "create nonsense"])]
    monkeypatch.setattr(sqlite, "migrations", lambda dialect: broken)
    with pytest.raises(StoreError, match="cannot be used"):
        SqliteStore(path)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("select count(*) from sqlite_master").fetchone() == (0,)
    monkeypatch.setattr(sqlite, "migrations", lambda dialect: steps)
    SqliteStore(path).close()


# Closing


@needs_proc
def test_a_closed_store_keeps_no_file_open(path):
    """Not its connections, not the turnstile's, not the locks of its workers."""
    before = handles()
    store = SqliteStore(path)
    store.hold("W1")
    store.close()
    store.close()
    assert handles() == before


def test_a_closed_store_refuses_readers_too(opened):
    """With a reason of its own, not with the driver's."""
    store = opened()
    store.close()
    for look in (store.workers, lambda: store.find(T, "x"), lambda: store.entries(T, "x")):
        with pytest.raises(Closed):
            look()


def test_the_last_one_out_leaves_one_file(tmp_path, path, opened):
    """The log of SQLite itself is folded in, so that the file can be copied."""
    store = opened()
    put_new(store, birth())
    store.close()
    assert not os.path.exists(path + "-wal")
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("select count(*) from runs").fetchone() == (1,)


# Writing


def test_a_full_disk_refuses_the_group_and_not_the_next_one(opened):
    """The group leaves nothing, the turnstile is free again, and a smaller group is taken."""
    store = opened()
    pages = store._writer.execute("pragma page_count").fetchone()[0]
    store._writer.execute(f"pragma max_page_count = {pages + 4}")
    run, created = birth("run-huge", trace_id="x" * 100_000)
    with pytest.raises(sqlite3.OperationalError, match="full"):
        put_new(store, (run, created))
    assert store.entries(T, "run-huge") == []
    put_new(store, birth("run-tiny"))
    assert store.find(T, "run-tiny").row_version == 1


def test_a_write_lock_held_by_a_shell_is_waited_for_and_then_refused(path, opened):
    """The turnstile is left again, so that the next group finds it open."""
    store = opened()
    store._writer.execute("pragma busy_timeout = 1")
    with closing(sqlite3.connect(path, isolation_level=None)) as shell:
        shell.execute("begin immediate")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            store.begin()
        shell.execute("rollback")
    put_new(store, birth())
    assert store.find(T, "run-0001") is not None


def test_a_reader_can_do_nothing_but_read(opened):
    """The second connection refuses to write, whatever it is asked."""
    store = opened()
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        store._reader.execute("delete from runs")


def test_the_schema_bears_witness(opened):
    """A run that is held and claimable at once, or over and held, is refused by the table."""
    store = opened()
    run, created = birth()
    put_new(store, (run, created))
    for wrong in ("worker = 'W1'", "finished_at = 1", "priority = 10", "attempt = 0"):
        with pytest.raises(sqlite3.IntegrityError):
            store._writer.execute(f"update runs set {wrong} where id = ?", (run.id,))


def test_the_view_shows_a_row_an_event(path, opened):
    """For people with a database shell: sequence numbers run on through the rows of the log."""
    store = opened()
    run, created = birth()
    _, claimed = started(run)
    put_new(store, (run, created))
    put(store, log=[claimed])
    with closing(sqlite3.connect(path)) as db:
        shown = db.execute("select seq, type, was from events order by seq").fetchall()
    assert shown == [(1, "run.created", "unborn"), (2, "run.started", "queued")]


# Damage


@pytest.mark.parametrize(
    ("column", "value"), [("body", "{no json"), ("body", '{"tries":"x"}'), ("profile", "nobody")]
)
def test_a_row_that_cannot_be_read_is_named(path, opened, column, value):
    """Whoever reads it learns which run it is and why, and not only that some JSON is wrong."""
    store = opened()
    put_new(store, birth())
    change(path, f"update runs set {column} = ?", value)
    looks = [
        lambda: store.find(T, "run-0001"),
        lambda: store.listing(T, before=None, limit=9, states=None),
    ]
    for look in looks:
        with pytest.raises(Damaged) as refused:
            look()
        assert (refused.value.run_id, refused.value.what) == ("run-0001", "the row")
    assert isinstance(refused.value, errors.StoreError)
    assert store.payloads(T, "run-0001") is not None


# Locks


def test_a_lock_of_one_s_own_is_never_waited_for(path, opened):
    """A worker's second lock of its file would wait for its first, for ever."""
    store = opened()
    store.hold("W1")
    store.hold("W1")
    put(store, joined=[worker()])
    with looking(store) as group:
        assert group.lost(NOW, "W2") == {}


def test_a_worker_whose_lock_is_free_is_lost_at_once(opened):
    """Whoever gets the lock knows that the process is gone, however long its lease would last."""
    store, other = opened(), opened()
    other.hold("W1")
    put(other, joined=[worker()])
    with looking(store) as group:
        assert group.lost(NOW, "W2") == {}
    other.close()
    with looking(store) as group:
        assert list(group.lost(NOW, "W2")) == ["W1"]


def test_a_worker_without_a_lock_lives_by_its_lease(opened):
    """The lock proves death and not life: where there is none, nothing is proved."""
    store = opened()
    put(store, joined=[worker()])
    with looking(store) as group:
        assert group.lost(NOW, "W2") == {}


def test_the_lock_of_a_forgotten_worker_is_removed(path, opened):
    """Only once its row is gone for good: a rolled back group leaves the proof where it is."""
    store = opened()
    store.hold("W1")
    put(store, joined=[worker()])
    group = store.begin()
    group.write(changes(buried=["W1"]))
    group.rollback()
    assert os.listdir(path + ".workers") == ["W1"]
    put(store, buried=["W1"])
    assert os.listdir(path + ".workers") == []


def test_locks_are_let_go_twice_without_harm(path):
    """Closing what is closed touches no file that has got the same number since."""
    turnstile, lives = Turnstile(path), LifeLocks(path)
    lives.hold("W1")
    turnstile.close()
    lives.close()
    with open(path, "w") as first, open(path) as second:
        turnstile.close()
        lives.close()
        assert first.write("still open") == 10
        assert second.read() == ""
