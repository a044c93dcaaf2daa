"""`run`: starts a run, and works on it when asked to."""

import json

import pytest


def test_run_prints_the_id_of_a_durable_run(shell):
    """The same key and arguments are the same run, other arguments are refused."""
    first = shell.json("run", "shop:app", "quadruple", '{"n": 3}', "--key", "order:1")
    assert first["created"]
    again = shell("run", "shop:app", "quadruple", '{"n": 3}', "--key", "order:1")
    assert again.stdout.strip() == first["run_id"]
    assert "started it before" in again.stderr
    other = ("run", "shop:app", "quadruple", '{"n": 4}', "--key", "order:1")
    assert "another input" in shell.refused(*other, code=1)
    assert shell.status(first["run_id"]) == "queued"


def test_wait_works_here_and_prints_the_result(shell):
    """Only the result goes to stdout, so that a program can read it."""
    (shell.folder / "in.json").write_text('{"n": 5, "key": "a parameter of this name"}')
    assert shell.said("run", "shop:app", "quadruple", "@in.json", "--wait") == "20\n"
    assert shell.said("run", "shop:app", "quadruple", "-", "--wait", stdin='{"n": 1}') == "4\n"


def test_wait_fails_when_the_run_does(shell):
    """Exit code 1, with the error on stderr or as JSON."""
    assert "the till is" in shell("run", "shop:app", "fail", "--wait").stderr
    done = shell("run", "shop:app", "fail", "--wait", "--json")
    assert done.returncode == 1
    answer = json.loads(done.stdout)
    assert (answer["status"], answer["result"]) == ("failed", None)
    assert answer["error"]["code"] == "ValueError"


def test_wait_says_what_it_waits_for_and_can_be_left(shell):
    """Ctrl-C leaves with 130 and without a traceback; the run lasts."""
    waits = shell.begin("run", "shop:app", "pay", "--wait")
    line = waits.says("waits for a person")
    waits.hears(2)
    assert "any worker goes on with it" in waits.says("left as it is")
    assert waits.ends() == (130, "")
    run_id = line.split("perdure approve ")[1].split()[0]
    assert shell.status(run_id) == "waiting"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["shop:app", "quadruple", "[1]"], "JSON object"),
        (["shop:app", "quadruple", "{}"], "missing a required argument: 'n'"),
        (["shop:app", "quadruple", '{"n": "three"}'], "Expected `int`"),
        (["shop:app", "quadruple", "three"], "is not JSON"),
        (["shop:app", "quadruple", "@three.json"], "three.json cannot be read"),
        (["shop:app", "quintuple"], "it has: quadruple, pay"),
        (["shop:number", "quadruple"], "of type int, not an App. It has: shop:app"),
    ],
)
def test_what_cannot_be_started_is_said(shell, arguments, words):
    """Before anything is stored, in one line, with what would do."""
    assert words in shell.refused("run", *arguments, code=2)
