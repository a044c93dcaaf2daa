"""`work`: a worker that is told to stop, and what becomes of its runs."""

import signal

import pytest

from tests.cli.shell import until


def test_a_drained_run_goes_on_under_the_next_worker(shell):
    """SIGTERM lets the body finish, the run is given back, and nothing of it is done twice."""
    run_id = shell.start("keep", '{"name": "lamp"}')
    first = shell.begin("work", "shop:app")
    line = first.says("at work on sqlite:///runs.db")
    assert "workflows quadruple, pay" in line
    until("the body runs", lambda: "lamp" in shell.file("held"))
    first.hears(signal.SIGTERM)
    first.says("SIGTERM: finishing what runs")
    (shell.folder / "go").touch()
    assert first.ends() == (0, "")
    types = [line.split()[2] for line in shell.said("events", run_id).splitlines()]
    assert types[-2:] == ["step.succeeded", "run.released"]
    shell.begin("work", "shop:app")
    shell.reaches(run_id, "succeeded")
    assert len(shell.file("held").splitlines()) == 1


def test_a_second_signal_cuts_off_what_runs(shell):
    """The body is left in the middle and the exit code says so; it runs again elsewhere."""
    run_id = shell.start("keep", '{"name": "lamp"}')
    first = shell.begin("work", "shop:app")
    until("the body runs", lambda: "lamp" in shell.file("held"))
    first.hears(signal.SIGTERM)
    first.says("once more cuts it off")
    first.hears(signal.SIGINT)
    first.says("SIGINT again: giving everything back now")
    first.says("stopped")
    assert first.ends() == (1, "")
    assert shell.status(run_id) == "queued"
    (shell.folder / "go").touch()
    shell.begin("work", "shop:app")
    shell.reaches(run_id, "succeeded")
    assert len(set(shell.file("held").splitlines())) == 2


@pytest.mark.parametrize(
    ("where", "source", "words"),
    [
        ("till:app", None, "there is no module 'till'"),
        ("till.py:app", "", "'till.py' is a file; write MODULE:APP"),
        ("till", "app = 1", "'till' names no app"),
        ("till:app", "", "the module 'till' has no 'app'. There is no App in 'till'"),
        ("till:app", "app = 1", "'till:app' is of type int, not an App"),
        ("shop:idle", None, "'shop:idle' has no workflows"),
        ("shop:aap", None, "has no 'aap'. It has: shop:app, shop:idle"),
        ("till:app", "import tills", "No module named 'tills'"),
        ("till:app", "x = 1\ny = 1 / 0", "ZeroDivisionError: division by zero (line 2 of"),
        ("till:app", "x = (", "SyntaxError"),
        ("till:app", "import perdure\nperdure.App('sqlite:////no/x.db')", "/no does not exist"),
    ],
)
def test_an_app_that_is_not_there_is_explained(shell, where, source, words):
    """Each way to miss it has its own sentence; none is a traceback."""
    if source is not None:
        (shell.folder / "till.py").write_text(source)
    assert words in shell.refused("work", where, code=2)
