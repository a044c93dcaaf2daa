"""A world over each store, and a second one on the same file."""

from __future__ import annotations

import pytest

from perdure.stores.memory import MemoryStore
from perdure.stores.sqlite import SqliteStore
from perdure.verify import verify_store
from tests.engine.world import Clock, T, World


def is_sound(store):
    """Whatever a test has done, what is stored must be what has happened."""
    report = verify_store(store, T)
    assert report.sound, report


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(params=["memory", "sqlite"])
def world(request, clock, tmp_path):
    """A door over an empty store, in memory and in a file."""
    store = MemoryStore() if request.param == "memory" else SqliteStore(str(tmp_path / "runs.db"))
    yield World(store, clock)
    is_sound(store)
    store.close()


@pytest.fixture
def ours(clock, tmp_path):
    """A door over a file."""
    world = World(SqliteStore(str(tmp_path / "runs.db")), clock)
    yield world
    is_sound(world.store.store)
    world.store.close()


@pytest.fixture
def theirs(ours, clock, tmp_path):
    """Another door over the same file, as another process has it."""
    world = World(SqliteStore(str(tmp_path / "runs.db")), clock)
    yield world
    world.store.close()
