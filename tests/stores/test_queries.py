"""The statements of SQLite: each has one user, and each hot one its index."""

from __future__ import annotations

import ast
import inspect
from importlib.resources import files

import pytest

from perdure.stores import sqlite
from perdure.stores.sql import migrations, queries
from tests.stores.world import NOW, T

SQL = queries("sqlite")
ONE = f'[["{T}","run-0001",0]]'
PAGE = {"tenant": T, "before": "z", "states": None, "limit": 9}
LOG = {"tenant": T, "run": "run-0001", "after": 7, "limit": 9}

# statement, what it is asked with, and how the planner must go about it
HOT = [
    ("claimable", ("q", "w", 5, NOW), ["runs USING INDEX runs_claimable", "claim_rank=?"]),
    ("next_rank", ("q", "w", 5), ["runs USING COVERING INDEX runs_claimable", "claim_rank>?"]),
    ("due", (NOW, 9), ["runs USING COVERING INDEX runs_due", "due_at<?"]),
    ("held_by", ("W1",), ["runs USING COVERING INDEX runs_held", "worker=?"]),
    ("nudged", ("W1",), ["runs USING INDEX runs_nudged", "worker=?"]),
    ("tails", (ONE,), ["log USING INDEX", "tenant=? AND run=? AND seq>?"]),
    ("stamps", (ONE,), ["runs USING PRIMARY KEY", "tenant=? AND id=?"]),
    ("runs", (ONE,), ["runs USING PRIMARY KEY", "tenant=? AND id=?"]),
    ("run", (T, "run-0001"), ["runs USING PRIMARY KEY", "tenant=? AND id=?"]),
    ("taken_keys", (ONE,), ["keys USING PRIMARY KEY", "kind=? AND scope=? AND key=?"]),
    ("entries", LOG, ["log USING INDEX", "tenant=? AND run=? AND seq>?"]),
    ("listing", PAGE, ["runs USING PRIMARY KEY", "tenant=? AND id<?"]),
    ("payloads", (T, "run-0001"), ["run_data USING INDEX", "tenant=? AND run=?"]),
    ("alive", ("W1",), ["workers USING PRIMARY KEY", "worker=?"]),
    ("beat", (NOW, "W1"), ["workers USING PRIMARY KEY", "worker=?"]),
    ("drop_worker", ("W1",), ["workers USING PRIMARY KEY", "runs USING COVERING INDEX runs_held"]),
]
# The few workers are read as a whole, and a shell's questions about the schema are nobody's hurry.
COLD = {"workers", "has_meta", "schema_version", "set_schema_version", "bury"}


def plan_of(store, statement, asked):
    with store._reading:
        rows = store._reader.execute(f"explain query plan {SQL[statement]}", asked).fetchall()
    return [row[3] for row in rows]


@pytest.mark.parametrize(("statement", "asked", "ways"), HOT, ids=[row[0] for row in HOT])
def test_a_hot_statement_uses_its_index(opened, statement, asked, ways):
    """It seeks by the columns it names, scans no table and sorts nothing by the way."""
    plan = plan_of(opened(), statement, asked)
    text = "\n".join(plan)
    for way in ways:
        assert way in text
    assert [line for line in plan if line.startswith("SCAN") and "VIRTUAL TABLE" not in line] == []
    assert [line for line in plan if "TEMP B-TREE" in line and statement != "tails"] == []


def test_a_plan_without_its_index_is_seen(opened):
    """The words that are looked for above do not stand in every plan."""
    plan = plan_of(opened(), "workers", ())
    assert [line for line in plan if line.startswith("SCAN")]
    assert [line for line in plan if "TEMP B-TREE" in line]


def test_every_statement_is_hot_or_known_to_be_cold():
    """A new statement that reads or seeks is looked at here."""
    inserting = {name for name, text in SQL.items() if text.startswith("insert into")}
    updating = {"update_run", "set_outcome"}  # by their primary keys, one row each
    assert {row[0] for row in HOT} | COLD | inserting | updating == set(SQL)


def test_statements_and_their_users_fit():
    """Every statement is used by the store, and every statement it uses is there."""
    tree = ast.parse(inspect.getsource(sqlite))
    named = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)}
    used = {
        node.slice.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "_SQL"
        if isinstance(node.slice, ast.Constant)
    }
    assert set(SQL) - named == set()
    assert used - set(SQL) == set()
    assert len(used) > 20


def test_every_statement_says_why():
    """Below each name stands a line of prose before the statement begins."""
    text = files("perdure.stores.sql").joinpath("sqlite", "queries.sql").read_text(encoding="utf-8")
    heads = [piece.split("\n")[:2] for piece in text.split("-- name: ")[1:]]
    assert [name for name, why in heads if not why.startswith("-- ")] == []
    assert len(heads) == len(SQL)


def test_migrations_are_numbered_from_one():
    """Without a gap, each with something to do."""
    steps = migrations("sqlite")
    assert [number for number, _ in steps] == list(range(1, len(steps) + 1))
    assert all(statements for _, statements in steps)
