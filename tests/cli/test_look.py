"""`list`, `show`, `explain`, `events`: for people and for programs."""

import re

import pytest

from tests.cli.shell import Terminal

ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
ESCAPE = "\x1b["


def test_list_is_for_people(history):
    """A line a run, newest first, with its status, its moment and what it waits for."""
    head, *lines = history.said("list").splitlines()
    ids = history.ids
    assert head.split() == ["id", "workflow", "status", "created", "changed"]
    newest_first = [ids[n] for n in ("queued", "fail", "quadruple", "nap", "listen", "pay")]
    assert [line.split()[0] for line in lines] == newest_first
    assert all(ISO.search(line) and "ago" in line for line in lines)
    assert lines[-1].endswith("approval 'release payment'")
    assert ESCAPE not in "".join(lines)


def test_list_is_for_programs(history):
    """An array of records whose moments are whole microseconds."""
    runs = history.json("list")
    by_id = {run["id"]: run for run in runs}
    assert by_id[history.ids["pay"]]["status"] == "waiting"
    assert by_id[history.ids["pay"]]["steps"][0]["kind"] == "approval"
    assert all(isinstance(run["created_at"], int) for run in runs)


def test_list_takes_a_status_and_pages(history):
    """Filters add up, and the last id of a page begins the next one."""
    listed = history.json("list", "--status", "failed", "--status", "queued")
    assert {run["status"] for run in listed} == {"failed", "queued"}
    first = history.json("list", "--limit", "4")
    second = history.json("list", "--limit", "4", "--before", first[-1]["id"])
    everything = history.json("list")
    assert first + second == everything
    assert len(everything) == len(history.ids)


def test_an_empty_list_says_how_to_start(shell):
    """On stderr, so that a program reads nothing."""
    shell.start("quadruple", '{"n": 1}')
    done = shell("list", "--tenant", "nobody")
    assert (done.returncode, done.stdout) == (0, "")
    assert "perdure run module:app" in done.stderr
    assert shell.json("list", "--tenant", "nobody") == []


def test_show_is_for_people(history):
    """The run, what it was given, what came of it, and each step."""
    shown = history.said("show", history.ids["quadruple"])
    assert re.search(r"^status +succeeded$", shown, re.MULTILINE)
    assert re.search(r'^input +\{"n":3\}$', shown, re.MULTILINE)
    assert re.search(r"^result +12$", shown, re.MULTILINE)
    assert re.search(r"^double#2 +succeeded +once .* 12$", shown, re.MULTILINE)


def test_show_is_for_programs(history):
    """Record, steps and payloads; payloads are the JSON that was stored."""
    shown = history.json("show", history.ids["quadruple"])
    assert shown["run"]["status"] == "succeeded"
    assert (shown["input"], shown["result"], shown["error"]) == ({"n": 3}, 12, None)
    assert [(s["id"], s["state"], s["output"]) for s in shown["steps"]] == [
        ("double", "succeeded", 6),
        ("double#2", "succeeded", 12),
    ]
    failed = history.json("show", history.ids["fail"])
    assert failed["error"]["code"] == "ValueError"
    assert failed["steps"][0]["error"]["code"] == "ValueError"
    asked = history.json("show", history.ids["pay"])
    assert asked["steps"][0]["shows"] == {"eur": 120}


def test_a_terminal_is_not_steered_by_what_is_stored(history):
    """An error's text stays on its line, and its control characters are shown, not sent."""
    shown = history.said("show", history.ids["fail"])
    assert ESCAPE not in shown
    assert re.search(r"break_down .*the till is\\nempty|break_down .*the till is empty", shown)


def test_explain_says_what_one_can_do(history):
    """Why it waits, and the commands that would change it, ready to be typed."""
    run_id = history.ids["pay"]
    said = history.said("explain", run_id)
    assert "Waits for a person: approval 'release payment'" in said
    assert f"You can: perdure approve {run_id}\n" in said
    assert f"You can: perdure cancel {run_id}\n" in said
    named = history.said("explain", history.ids["listen"], "--store", "sqlite:///runs.db")
    assert f"perdure signal {history.ids['listen']} price --store sqlite:///runs.db\n" in named
    explained = history.json("explain", run_id)
    assert explained["state"] == "waiting"
    assert explained["awaits"][0]["name"] == "release payment"


def test_events_are_for_people_and_programs(history):
    """One line an event, in order; as JSON one object a line with all that is known."""
    run_id = history.ids["pay"]
    lines = history.said("events", run_id).splitlines()
    assert [line.split()[2] for line in lines] == [
        *("run.created", "run.started", "step.waiting", "run.waiting"),
    ]
    assert all(ISO.fullmatch(line.split()[1]) for line in lines)
    import json

    printed = history.said("events", run_id, "--after", "2", "--json").splitlines()
    events = [json.loads(line) for line in printed]
    assert [event["seq"] for event in events] == [3, 4]
    assert events[0]["event"]["shows"] == {"eur": 120}
    assert (events[1]["before"], events[1]["after"]) == ("running", "waiting")


def test_follow_goes_on_to_the_end(shell):
    """The stream waits for what comes and ends with the run."""
    run_id = shell.start("quadruple", '{"n": 1}')
    stream = shell.begin("events", "--follow", run_id)
    assert "run.created" in stream.prints()
    shell.begin("work", "shop:app")
    code, rest = stream.ends()
    assert code == 0
    assert "run.succeeded" in rest.splitlines()[-1]


@pytest.mark.parametrize("colours", [True, False])
def test_colours_are_for_terminals_that_want_them(history, colours):
    """A terminal gets them, NO_COLOR takes them away."""
    terminal = Terminal("list", folder=history.folder, NO_COLOR="" if colours else "1")
    assert terminal.ends() == 0
    assert (ESCAPE in terminal.drawn) == colours
    assert "succeeded" in terminal.drawn
