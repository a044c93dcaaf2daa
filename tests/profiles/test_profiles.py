"""Each profile says what its document says: its words, its table, its policies."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from perdure import profiles
from perdure.core.law import RUN_LAW
from perdure.core.states import ALL
from tests.profiles.tables_by_hand import (
    INITIAL,
    NAMES,
    PAIRS,
    POLICIES,
    TERMINAL,
    VARIANTS,
    pairs_by_hand,
    profile_differences,
    words_by_hand,
)

every_profile = pytest.mark.parametrize("name", NAMES)


def test_there_are_seven_profiles():
    """The names are these, and the one that is taken without asking comes first."""
    assert profiles.names() == NAMES


@every_profile
def test_a_profile_is_the_one_written_by_hand(name):
    """Name, words, table and policies are equal to those by hand, no more and no less."""
    assert profile_differences(name) == []


@every_profile
def test_a_profile_goes_by_its_own_name(name):
    """What is found under a name bears it."""
    assert profiles.get(name).name == name


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("standard", 26),
        ("plugin", 9),
        ("runner", 5),
        ("task", 12),
        ("approval", 10),
        ("job", 9),
        ("job-explicit", 15),
    ],
)
def test_a_table_has_as_many_pairs_as_its_document(name, count):
    """The pairs are counted apart, so that none can be lost in the file and by hand at once."""
    table = profiles.get(name).transitions
    assert sum(map(len, table.values())) == count == PAIRS[name].count("->")


@every_profile
def test_every_word_is_a_key_of_the_table(name):
    """A word has a row, be it empty, and a row has a word that some state shows."""
    profile = profiles.get(name)
    assert set(profile.transitions) == set(profile.words.values())


@every_profile
def test_every_transition_leads_to_a_word_of_the_profile(name):
    """A row names only words that have a row themselves, and never its own word."""
    table = profiles.get(name).transitions
    for word, row in table.items():
        assert row <= table.keys() - {word}
        assert type(row) is frozenset


@every_profile
def test_every_word_belongs_to_a_state(name):
    """Words are given to states of the law, not to anything else."""
    assert profiles.get(name).words.keys() <= set(ALL)


@every_profile
def test_the_initial_word_is_that_of_a_run_just_created(name):
    """Every run begins with the profile's first word."""
    assert profiles.get(name).initial == INITIAL[name]


@every_profile
def test_the_terminal_words_are_those_with_an_empty_row(name):
    """The words that end a run are the document's."""
    assert profiles.get(name).terminal == TERMINAL[name]


@every_profile
def test_the_law_can_show_every_pair_of_the_document(name):
    """For each pair there is an event of the law whose source and target have these words."""
    words = profiles.get(name).words
    shown = {(words.get(was), words.get(to)) for to, s in RUN_LAW.values() for was in s}
    assert pairs_by_hand(name) <= shown


@every_profile
def test_a_profile_allows_what_its_document_does(name):
    """Between any two states the answer is the document's: a pair of it, or no change of word."""
    words, pairs = words_by_hand(name), pairs_by_hand(name)
    profile = profiles.get(name)
    for was in ALL:
        for to in ALL:
            here, there = words.get(was), words.get(to)
            known = here is not None and there is not None
            expected = known and (here == there or (here, there) in pairs)
            assert profile.allows(was, to) == expected, (was, to)


@every_profile
def test_the_choices_are_those_of_the_document(name):
    """How a run is canceled and how it shows a wait can be chosen in this many ways."""
    policies = profiles.get(name).policies
    assert len(policies.cancel) * len(policies.waiting) == VARIANTS[name]
    for policy in POLICIES:
        values = getattr(policies, policy)
        if isinstance(values, tuple):
            assert len(set(values)) == len(values), policy


@pytest.mark.parametrize("choice", profiles.get("approval").policies.waiting)
def test_a_run_at_a_gate_may_show_either_word(choice):
    """Whether the run or only its step shows the wait, every way in and out of it is lawful."""
    profile = profiles.get("approval")
    word = {"run": "WAITING_APPROVAL", "step": "RUNNING"}[choice]
    profile = replace(profile, words={**profile.words, "waiting": word})
    assert profile.allows("running", "waiting")
    assert all(
        profile.allows("waiting", after)
        for after in ("ready", "cancel_requested", "succeeded", "failed", "canceled", "timed_out")
    )


def test_an_unknown_name_is_refused_with_the_names_there_are():
    """The refusal is data, and its message says which names would do."""
    with pytest.raises(LookupError) as refused:
        profiles.get("nope")
    assert isinstance(refused.value, profiles.UnknownProfile)
    assert (refused.value.name, refused.value.known) == ("nope", NAMES)
    assert str(refused.value) == (
        "there is no profile 'nope'; "
        "known: standard, plugin, runner, task, approval, job, job-explicit"
    )
