"""Shells in folders of their own, and two demos that run beside the other tests."""

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest

from tests.cli.shell import Shell, Terminal


@pytest.fixture
def shell(tmp_path):
    shell = Shell(tmp_path)
    yield shell
    shell.close()


@pytest.fixture(scope="session")
def history(tmp_path_factory):
    """A shell whose store has five runs, each in another status; nobody works on them."""
    shell = Shell(tmp_path_factory.mktemp("history"))
    shell.ids = {name: shell.start(name) for name in ("pay", "listen", "nap")}
    worker = shell.begin("work", "shop:app")
    shell.ids["quadruple"] = shell.start("quadruple", '{"n": 3}')
    shell.ids["fail"] = shell.start("fail")
    shell.reaches(shell.ids["fail"], "failed")
    for name in ("pay", "listen", "nap"):
        shell.reaches(shell.ids[name], "waiting")
    worker.hears(15)
    worker.ends()
    shell.ids["queued"] = shell.start("quadruple", '{"n": 4}')
    yield shell
    shell.close()


class Demos(NamedTuple):
    """How two demos ended, and what they printed; their folders lie in this one."""

    folder: object
    piped: tuple[int, str]
    live: tuple[int, str]


@pytest.fixture(scope="session", autouse=True)
def demos_begun(request, tmp_path_factory):
    """Begin both at once before the first test: they take their time, others need not wait."""
    if not any("demos" in getattr(item, "fixturenames", ()) for item in request.session.items):
        yield None
        return
    folder = tmp_path_factory.mktemp("demos")
    with ThreadPoolExecutor(2) as pool:
        yield folder, pool.submit(_in_a_pipe, folder), pool.submit(_on_a_terminal, folder)


@pytest.fixture(scope="session")
def demos(demos_begun):
    """The demos, at their end."""
    folder, piped, live = demos_begun
    return Demos(folder, piped.result(), live.result())


def _in_a_pipe(folder):
    """Nobody is there to press a key."""
    shell = Shell(folder)
    piped = shell.begin("demo", "--folder", str(folder / "piped"))
    try:
        return piped.ends()
    finally:
        shell.close()


def _on_a_terminal(folder):
    """Somebody presses a key that means nothing, then says no."""
    live = Terminal("demo", "--folder", str(folder / "live"), folder=folder)
    try:
        live.shows("in 19 s the demo says yes itself")
        live.press("x")
        live.press("n")
        return live.ends(), live.drawn
    finally:
        live.end()
