"""The proof that the tests of the tables would notice: one entry altered is one difference named.

Ten entries are drawn by a fixed seed and stand in the names of the tests; the last test goes
over all of them.
"""

from __future__ import annotations

import random
from typing import Any, NamedTuple, get_args, get_type_hints

import pytest
from msgspec.structs import asdict, replace

from perdure import profiles
from perdure.core import law
from perdure.core.profile import Policies, Profile
from perdure.core.states import ALL, StepState
from tests.core.tables_by_hand import differences, run_law_differences, step_law_differences
from tests.profiles.tables_by_hand import profile_differences

LAWS = {"run_law": "RUN_LAW", "step_law": "STEP_LAW"}
POSSIBLE = {"run_law": ALL, "step_law": get_args(StepState)}


class Entry(NamedTuple):
    """One entry of one table: where it stands, and in a set of sources which of them it is."""

    table: str
    part: str
    key: str
    source: str = ""

    def __str__(self) -> str:
        return "/".join(filter(None, self))


def law_entries(table):
    """List each event's target and each of its sources."""
    for event, (_, sources) in getattr(law, LAWS[table]).items():
        yield Entry(table, "to", event)
        yield from (Entry(table, "from", event, source) for source in sorted(sources))


def profile_entries(name):
    """List each word, each row of the table and each policy."""
    profile = profiles.get(name)
    yield from (Entry(name, "word", state) for state in profile.words)
    yield from (Entry(name, "row", word) for word in profile.transitions)
    yield from (Entry(name, "policy", policy) for policy in asdict(profile.policies))


ENTRIES = [
    *(entry for table in LAWS for entry in law_entries(table)),
    *(entry for name in profiles.names() for entry in profile_entries(name)),
]
DRAWN = random.Random(20261119).sample(ENTRIES, 10)


def other(value: Any, possible: tuple[Any, ...]) -> Any:
    """Return the first of the possible values that is not this one."""
    return next(p for p in possible if p != value)


def altered_law(entry: Entry) -> dict[str, Any]:
    """Return a copy of a law in which one target is another, or one source is gone."""
    table = getattr(law, LAWS[entry.table])
    target, sources = table[entry.key]
    if entry.part == "to":
        return {**table, entry.key: (other(target, POSSIBLE[entry.table]), sources)}
    return {**table, entry.key: (target, sources - {entry.source})}


def altered_profile(entry: Entry) -> Profile:
    """Return a copy of a profile in which one word, row or policy is another."""
    profile = profiles.get(entry.table)
    words, table, policies = profile.words, profile.transitions, profile.policies
    if entry.part == "word":
        word = other(words[entry.key], tuple(table))
        return replace(profile, words={**words, entry.key: word})
    if entry.part == "row":
        row = table[entry.key] ^ {min(table[entry.key], default=profile.initial)}
        return replace(profile, transitions={**table, entry.key: row})
    value = other_policy(entry.key, getattr(policies, entry.key))
    return replace(profile, policies=replace(policies, **{entry.key: value}))


def other_policy(policy: str, value: Any) -> Any:
    """Return another value that the policy's type allows."""
    hint = get_type_hints(Policies)[policy]
    if hint is bool:
        return not value
    if not isinstance(value, tuple):
        return other(value, get_args(hint))
    unused = [p for p in get_args(get_args(hint)[0]) if p not in value]
    return (*value, unused[0]) if unused else value[::-1]


def alter(entry, monkeypatch):
    """Put a copy with one altered entry where perdure, and so the comparison, looks it up."""
    if entry.table in LAWS:
        monkeypatch.setattr(law, LAWS[entry.table], altered_law(entry))
    else:
        monkeypatch.setitem(profiles._PROFILES, entry.table, altered_profile(entry))


def all_differences() -> list[str]:
    """Ask every comparison that the tests of the tables rest on."""
    found = [d for name in profiles.names() for d in profile_differences(name)]
    return run_law_differences() + step_law_differences() + found


@pytest.mark.parametrize("entry", DRAWN, ids=str)
def test_one_altered_entry_is_noticed(entry, monkeypatch):
    """After one entry was altered, the comparison names it, and nothing else."""
    assert all_differences() == []
    alter(entry, monkeypatch)
    (difference,) = all_differences()
    assert difference.startswith(f"{entry.table}/")
    assert f"/{entry.key}" in difference


def test_no_entry_can_be_altered_unnoticed(monkeypatch):
    """What holds for the ten that were drawn holds for every entry there is."""
    for entry in ENTRIES:
        with monkeypatch.context() as patch:
            alter(entry, patch)
            (difference,) = all_differences()
        assert f"/{entry.key}" in difference
    assert all_differences() == []


@pytest.mark.parametrize(
    ("found", "named"),
    [
        ({"a": {"x"}, "b": "y"}, []),
        ({"a": {"x"}}, ["t/b: missing"]),
        ({"a": {"x"}, "b": "y", "c": "z"}, ["t/c: too much"]),
        ({"a": set(), "b": "y"}, ["t/a/x: missing"]),
        ({"a": {"x", "z"}, "b": "y"}, ["t/a/z: too much"]),
        ({"a": {"x"}, "b": "z"}, ["t/b: 'y' by hand, 'z' found"]),
        ({"a": ["x"], "b": "y"}, ["t/a: {'x'} by hand, ['x'] found"]),
    ],
)
def test_a_difference_says_where_and_what(found, named):
    """What is missing, what is too much and what has another value is named where it stands."""
    assert differences({"a": {"x"}, "b": "y"}, found, "t") == named
