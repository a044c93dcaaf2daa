"""Is the house still a house? Floors, purity, sizes, dead rooms, and what may stand where.

The tables come first; a line added to one of them is a decision and carries its reason. The rules
are in tests/house/rules.py. Behind each rule stands a test that shows a small offence to it: a rule
that cannot fail guards nothing.
"""

import subprocess
from pathlib import Path

import pytest

from tests.house import rules
from tests.house.tree import Module, load, parse

ROOT = Path(__file__).parent.parent

FLOORS = (  # a room may import itself and the rooms of lower floors
    ("core",),
    ("profiles", "store"),
    ("stores", "engine"),
    ("workflow", "context", "templates", "tracker", "loop", "verify", "purge"),
    ("worker", "sweeper", "notifier"),
    ("app", "faces", "integrations"),
    ("server", "console"),
    ("cli", "testing"),
)
FRIENDS = {  # two rooms of one floor, the first of which knows the second
    ("context", "workflow"): "a step call looks up the step it was declared as",
}
PURE = {  # all that the law may import besides itself
    *("__future__", "collections", "dataclasses", "datetime", "enum", "functools", "hashlib"),
    *("itertools", "json", "math", "msgspec", "operator", "re", "types", "typing"),
}
FILE_MOST, FUNCTION_MOST, MEDIAN_BELOW, SHOWN_MOST = 600, 50, 150, 25
SPECIAL = {"perdure.core.law": 250}  # read in ten minutes
DOORS = {  # where a reader, a user or the interpreter comes in
    "perdure": "the front door",
    "perdure.__main__": "python -m perdure",
    "perdure.cli": "the command",
    "perdure.testing": "imported by the tests of users",
    "perdure.testing.*": "the same; some are commands of their own",
}
WRITING = ("begin",)  # the methods of a store that change something
WRITERS = {"engine": "the door"}
WATCH_ROOMS = {  # who may look at a clock or throw dice; all others are told
    "engine": "hands the clock to everybody else",
    "app": "makes ids",
    "loop": "waits",
    "worker": "beats",
    "cli": "shows how long ago",
    "testing": "measures, and draws seeds",
}

GUARD = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    "


@pytest.fixture(scope="module")
def house():
    return load(ROOT, ROOT / "src" / "perdure")


@pytest.fixture(scope="module")
def suite():
    return load(ROOT, ROOT / "tests")


def toy(**sources: str) -> list[Module]:
    """A house of a few lines: `core_run="import time"` is perdure.core.run."""
    return [
        parse(".".join(["perdure", *filter(None, name.split("_"))]), source)
        for name, source in sources.items()
    ]


def holds(found: list[str]) -> None:
    if found:
        pytest.fail("\n".join(found), pytrace=False)


def offends(found: list[str], *words: str) -> None:
    """Exactly one offence a word, in this order."""
    assert len(found) == len(words), found
    for line, word in zip(found, words, strict=True):
        assert word in line


def test_the_house_stands(house):
    """There is something to look at: rules over nothing would all hold."""
    assert {"perdure", "perdure.core"} <= {module.name for module in house}
    assert (ROOT / "src" / "perdure" / "py.typed").exists()


# Floors


def test_rooms_look_down(house):
    """A room imports itself, lower floors, and neighbours it may know; never the front door."""
    holds(rules.between_rooms(house, FLOORS, FRIENDS))


@pytest.mark.parametrize(
    ("room", "source", "word"),
    [
        ("core_run", "from perdure.store import Store", "looks up"),
        ("core_run", "def f():\n    import perdure.engine.group", "looks up"),
        ("core_run", f"{GUARD}from perdure.store import Store", "looks up"),
        ("core_run", "from ..engine import Engine", "looks up"),
        ("engine", "import importlib\nimportlib.import_module('perdure.cli')", "looks up"),
        ("worker", "from perdure.sweeper import Sweeper", "neighbour"),
        ("workflow", "from perdure.context import Context", "neighbour"),
        ("engine", "from perdure.attic import Box", "`attic` has no floor"),
        ("attic_box", "", "`attic` has no floor"),
        ("engine", "import perdure", "front door"),
        ("engine", "from perdure import App", "front door"),
        ("engine", "from . import App", "front door"),
        ("worker", "from perdure import workflow", "front door"),
    ],
)
def test_a_look_up_is_seen(room, source, word):
    """Nested, typing-only, relative and lazy imports count like any other."""
    others = {"_": "__all__ = ['workflow']", "workflow": "", "cli": ""}  # @workflow, and its room
    offends(rules.between_rooms(toy(**others | {room: source}), FLOORS, FRIENDS), word)


def test_a_look_down_is_lawful():
    """Lower floors, one's own room, declared friends, and everything from the front door."""
    rooms = toy(
        _="from perdure.app import App",
        context="from perdure.workflow import step",
        profiles="",
        stores="from perdure import profiles",
        engine_group="from perdure.engine import Engine\nfrom perdure.core.run import Run",
    )
    rooms.append(parse("perdure.__main__", "from perdure.cli import main"))
    assert rules.between_rooms(rooms, FLOORS, FRIENDS) == []


def test_the_core_is_pure(house):
    """The law computes; it never asks the machine for anything."""
    holds(rules.impure(house, "core", PURE))


@pytest.mark.parametrize(
    "name",
    ["time", "random", "os", "os.path", "uuid", "secrets", "threading", "asyncio", "logging",
     "sqlite3", "psycopg", "socket", "pathlib", "concurrent.futures", "perdure.store"],
)  # fmt: skip
def test_an_impure_core_is_seen(name):
    """Whatever is not on the list is refused, wherever in a module it is imported."""
    offends(rules.impure(toy(core_run=f"def f():\n    import {name}"), "core", PURE), name)
    offends(rules.impure(toy(core_run=f"from {name} import x"), "core", PURE), name)


def test_a_pure_core_is_lawful():
    """The listed modules, their parts, and the core's own rooms."""
    source = "import msgspec.structs as m\nfrom re import compile\nfrom perdure.core.run import R"
    assert rules.impure(toy(core_law=source), "core", PURE) == []


def test_nothing_goes_in_circles(house):
    """No module imports itself by any way round."""
    holds(rules.cycle(house))


def test_a_circle_is_seen():
    """Through a package's own door too; only an import for the type checker is no import."""
    there = "from perdure.core.law import fold"
    back = "from perdure.core import run"
    offends(rules.cycle(toy(core_run=there, core_law=f"def f():\n    {back}")), "perdure.core.law")
    assert rules.cycle(toy(core_run=there, core_law=GUARD + back)) == []


def test_no_room_is_dead(house):
    """Every module is reached by imports from one of the doors."""
    holds(rules.unreachable(house, DOORS))


def test_a_dead_room_is_seen():
    """What only names itself or another dead room is dead; what is named lazily lives."""
    rooms = toy(
        _="from perdure.app import App",
        app="import importlib\ndef f():\n    importlib.import_module('perdure.server.http')",
        server="",
        server_http="",
        purge="import perdure.verify",
        verify="x = 'perdure.purge'",
    )
    offends(rules.unreachable(rooms, DOORS), "perdure.purge", "perdure.verify")


# Sizes


def test_files_are_short(house, suite):
    """A file is read in one sitting, tests included; half of the house in a few minutes."""
    holds(rules.too_long([*house, *suite], FILE_MOST, SPECIAL))
    assert rules.median_length(house) < MEDIAN_BELOW


def test_functions_are_short(house):
    """A function fits on a screen."""
    holds(rules.too_long_functions(house, FUNCTION_MOST))


def test_a_long_file_is_seen():
    """One line over the limit is over it, and a special limit goes before the common one."""
    assert rules.too_long(toy(engine="x = 1\n" * 600, core_law="x = 1\n" * 250), 600, SPECIAL) == []
    rooms = toy(engine="x = 1\n" * 601, core_law="x = 1\n" * 251)
    offends(rules.too_long(rooms, 600, SPECIAL), "601 lines", "251 lines")
    assert rules.median_length([*rooms, *toy(app="")]) == 251


def test_a_long_function_is_seen():
    """Every line from `def` on counts, nested ones too, but not the docstring."""
    body = "    x = 1\n" * 49
    assert rules.too_long_functions(toy(app=f'def f():\n    """A\n\n    b."""\n{body}'), 50) == []
    offends(rules.too_long_functions(toy(app=f"async def f():\n{body}    x = 1"), 50), "51 lines")


# What may stand where


def test_sql_stands_in_its_files(house):
    """No statement in Python; what steers a connection only below the stores."""
    holds(rules.statements(house, "stores"))


@pytest.mark.parametrize(
    "source",
    [
        "x = 'SELECT id\\nFROM runs'",
        "x = f'select {a} from {b}'",
        "def f():\n    return 'insert into ' 'runs values (1)'",
        "run('update runs set state = 1')",
        "x = 'Delete From runs'",
        "x = 'create table runs (id)', 1",
        "x = 'create unique index a on b (c)'",
        "x = 'PRAGMA user_version'",
        "x = 'begin immediate;'",
        "x = 'COMMIT'",
        "x = 'rollback'",
    ],
)
def test_sql_in_python_is_seen(source):
    """In every spelling that a string literal has."""
    offends(rules.statements(toy(engine=source), "stores"), "outside")


def test_prose_is_no_sql():
    """A docstring and a sentence about a commit are lawful; a store may steer its connection."""
    rooms = toy(
        engine='"""Select a run from many."""\nx = "the commit is unknown"',
        stores_sqlite="x = 'begin immediate'",
    )
    assert rules.statements(rooms, "stores") == []


def test_only_the_door_writes(house):
    """No other room uses a method of a store that changes something."""
    holds(rules.writing(house, WRITING, WRITERS))


def test_a_second_writer_is_seen():
    """A call and a method handed on are alike; the door, and an object's own, are lawful."""
    rooms = toy(
        engine_group="store.begin()",
        stores_memory="def f(self):\n    self.begin()",
        worker="with self.store.begin() as tx: ...",
        sweeper="run(store.begin)",
    )
    offends(rules.writing(rooms, WRITING, WRITERS), "worker:1", "sweeper:1")


def test_time_and_chance_are_arguments(house):
    """Only the rooms of the table look at a clock or throw dice."""
    holds(rules.watches(house, WATCH_ROOMS))


@pytest.mark.parametrize(
    "source",
    [
        "import time\nx = time.time()",
        "import time as t\ndef f(now=t.monotonic): ...",
        "from time import perf_counter as p",
        "from datetime import datetime\nx = datetime.now(UTC)",
        "import datetime as dt\nx = dt.datetime.utcnow()",
        "from datetime import date\nx = date.today()",
        "import random",
        "from random import Random",
        "import os\nx = os.urandom(8)",
        "from secrets import token_hex",
        "from uuid import uuid4",
    ],
)
def test_a_look_at_the_clock_is_seen(source):
    """Under whatever name it was imported; the rooms of the table may."""
    offends(rules.watches(toy(core_run=source), WATCH_ROOMS), "is an argument here")
    assert rules.watches(toy(loop=source), WATCH_ROOMS) == []


def test_a_clock_handed_in_is_lawful():
    """A parameter may be called `time` or `random`, and a moment may be computed."""
    source = "from datetime import datetime\ndef f(time, random): return time.time(), random.x"
    assert rules.watches(toy(core_run=source + "\nx = datetime(1, 1, 1)"), WATCH_ROOMS) == []


def test_the_front_door_is_narrow(house):
    """Few names, each leading somewhere, each function and class with a sentence of its own."""
    holds(rules.front_door(house, SHOWN_MOST))


def test_a_bad_front_door_is_seen():
    """Followed through the rooms that pass a name on, imported at once or from a table."""
    door = (
        "from perdure.app import App, go\nx = {'limit': 'perdure.worker', 'run': 'perdure.app'}\n"
    )
    rooms = {
        "app": "from perdure.worker import Hands as App\nasync def run(): ...",
        "worker": "class Hands:\n    pass\nlimit: int = 3",
    }
    found = rules.front_door(toy(_=f"{door}__all__ = ['App', 'limit', 'run', 'go']", **rooms), 3)
    offends(found, "4 names", "`App` has no", "`run` has no", "`go` is defined nowhere")
    assert rules.front_door(toy(_="def f():\n    'Do.'\n__all__ = ['f']"), 1) == []
    offends(rules.front_door(toy(_=door, **rooms), 3), "shows nothing")


# Honesty


def test_nothing_is_left_undone(house, suite):
    """No error swallowed without a word, nothing unimplemented, no mark for later."""
    holds(rules.excuses([*house, *suite]))


@pytest.mark.parametrize(
    "source",
    [
        "try:\n    x()\nexcept OSError:\n    pass",
        "try:\n    x()\nexcept OSError:\n    ...",
        "try:\n    x()\nexcept OSError:\n    'never mind'",
        "def f():\n    raise NotImplemented" + "Error('soon')",
        "x = 1  # TO" + "DO later",
        "x = 1  # FIX" + "ME",
        "x = 1  # X" + "XX",
    ],
)
def test_an_excuse_is_seen(source):
    """Each of them, and the same source without it is lawful."""
    offends(rules.excuses(toy(app=source)), "app:")
    assert rules.excuses(toy(app="try:\n    x()\nexcept OSError:\n    log()")) == []


def test_no_test_takes_a_nap(suite):
    """A test waits for what it means; a fixed while is too long here and too short elsewhere."""
    holds(rules.naps(suite))


def test_a_nap_is_seen():
    """Whoever sleeps, for a number; letting others run once is no nap."""
    naps = ["time.sleep(1)", "await asyncio.sleep(0.01)", "sleep(2)", "anyio.sleep(delay=3)"]
    offends(rules.naps(toy(app="\n".join(naps))), ":1", ":2", ":3", ":4")
    assert rules.naps(toy(app="await asyncio.sleep(0)\nsleep(pause)")) == []


def test_every_test_says_what_it_shows(suite):
    """In one sentence, its docstring."""
    holds(rules.wordless(suite))


def test_a_wordless_test_is_seen():
    """In a class too; a helper needs no sentence."""
    source = "def test_a(): ...\nclass T:\n    async def test_b(self): ...\ndef helper(): ..."
    offends(rules.wordless(toy(app=source)), "`test_a`", "`test_b`")


def test_no_place_is_named():
    """The project names no package host and no folder of anybody's machine."""
    holds(rules.places(dict(written())))


@pytest.mark.parametrize(
    "pieces",
    [
        ("see /ho", "me/ada/runs.db"),
        ("sqlite:////ro", "ot/runs.db"),
        ("'/wo", "rk/x'"),
        ("https://py", "pi.org/project"),
        ("files.python", "hosted.org"),
        ("registry.npm", "js.org"),
    ],
)
def test_a_place_is_seen(pieces):
    """With its file and line; the same words inside another path are no place."""
    offends(rules.places({"README.md": "fine\n" + "".join(pieces)}), "README.md:2")
    assert rules.places({"README.md": "src/work/x and https://example.org/home/ada"}) == []


def written():
    """Every text that is tracked or would be: what git lists, or without git what lies here."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    for path in paths or ROOT.rglob("*"):
        below = path.relative_to(ROOT)
        if path.is_file() and not any(part in UNWRITTEN for part in below.parts):
            yield below.as_posix(), path.read_text(encoding="utf-8", errors="replace")


UNWRITTEN = {
    *(".git", ".venv", "__pycache__", "node_modules", "build", "dist"),
    *(".hypothesis", ".mypy_cache", ".pytest_cache", ".ruff_cache"),
}
