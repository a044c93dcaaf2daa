"""Both stores, so that one suite can ask them for the same promise."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from perdure.stores.memory import MemoryStore
from perdure.stores.sqlite import SqliteStore


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "runs.db")


@pytest.fixture
def opened(path):
    """Opens the same file again and again, as another process would, and closes all at the end."""
    with ExitStack() as closed:

        def again():
            store = SqliteStore(path)
            closed.callback(store.close)
            return store

        yield again


@pytest.fixture(params=["memory", "sqlite"])
def both(request, opened):
    """A store, and a second handle on the same runs (in memory there is but one)."""
    if request.param == "sqlite":
        return opened(), opened()
    store = MemoryStore()
    return store, store


@pytest.fixture
def store(both):
    return both[0]


@pytest.fixture
def other(both):
    return both[1]
