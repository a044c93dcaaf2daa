"""Every story is told four times: async and blocking, in memory and in a file."""

from __future__ import annotations

import inspect

import pytest

from tests.stories.teller import Gate, Teller

COLOURS = ("async", "blocking")


def _url(store: str, tmp_path) -> str:
    return "memory://" if store == "memory" else f"sqlite:///{tmp_path}/runs.db"


@pytest.fixture(params=[f"{c}-{s}" for c in COLOURS for s in ("memory", "sqlite")])
def it(request, tmp_path):
    """Whoever tells the story."""
    colour, store = request.param.split("-")
    return Teller(colour, _url(store, tmp_path))


@pytest.fixture(params=COLOURS)
def lasting(request, tmp_path):
    """The same, where another app must find what the first one has left: in a file."""
    return Teller(request.param, _url("sqlite", tmp_path))


@pytest.fixture
def gate():
    return Gate()


@pytest.fixture
def hasty(monkeypatch):
    """What counts as a long wait is short: a run is put aside for a hundredth of a second."""
    monkeypatch.setattr("perdure.context.WAIT_IN_MEMORY_S", 0.01)
    monkeypatch.setattr("perdure.context.live.WAIT_IN_MEMORY_S", 0.01)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Tell the stories of this folder; they are coroutines."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    given = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    teller = given.get("it") or given["lasting"]
    teller.tell(pyfuncitem.obj(**given))
    return True
