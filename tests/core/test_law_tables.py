"""The law's tables are what the design says, entry by entry."""

from __future__ import annotations

import pytest

from perdure.core import states
from perdure.core.absorb import ABSORB
from perdure.core.events import TYPE
from perdure.core.law import RUN_LAW, SILENT, STEP_LAW
from tests.core.tables_by_hand import (
    IMPLIED,
    OVER,
    STATES,
    STEP_OVER,
    run_law_differences,
    step_law_differences,
)

EVERY_EVENT = sorted({*RUN_LAW, *STEP_LAW, *SILENT})


def test_the_run_law_is_the_one_written_by_hand():
    """Each event of a run has its one target and its sources, no more and no less."""
    assert run_law_differences() == []


def test_the_step_law_is_the_one_written_by_hand():
    """Each event of a step has its one target and its sources, no more and no less."""
    assert step_law_differences() == []


def test_the_states_are_the_ones_written_by_hand():
    """What the law knows of its states (over, held, claimable) is what the design says of them."""
    assert set(states.ALL) == set(STATES)
    assert len(states.ALL) == len(STATES)
    assert set(STATES) - OVER == states.LIVE
    assert {s for s, (_, what) in STATES.items() if what == "is over"} == states.TERMINAL == OVER
    assert {s for s, (holder, _) in STATES.items() if holder == "a worker"} == states.HELD
    assert {s for s, (_, what) in STATES.items() if what == "wants a worker"} == states.CLAIMABLE


def test_nothing_leads_out_of_a_run_that_is_over():
    """No event of the run law has a terminal state among its sources."""
    assert [event for event, (_, sources) in RUN_LAW.items() if sources & OVER] == []


def test_nothing_leads_out_of_a_step_that_is_over():
    """No event of the step law has a terminal state among its sources."""
    assert [event for event, (_, sources) in STEP_LAW.items() if sources & STEP_OVER] == []


def test_an_event_without_a_status_is_lawful_only_in_states_there_are():
    """The third table names states of the law, and not the one before a run's creation."""
    assert [event for event, where in SILENT.items() if not where <= set(STATES)] == []


def test_a_run_is_born_once():
    """Only its creation starts from nothing, and the creation starts from nothing else."""
    born = {event: s for event, (_, s) in RUN_LAW.items() if "unborn" in s}
    assert born == {"run.created": {"unborn"}}


def test_every_state_can_be_reached_and_left_for_an_end():
    """From its creation a run can come to every state, and from each of them to an end."""
    moves = {(was, to) for to, sources in RUN_LAW.values() for was in sources}
    assert _reach({"unborn"}, moves) == {"unborn", *STATES}
    assert _reach(OVER, {(to, was) for was, to in moves}) == {"unborn", *STATES}


def test_the_three_tables_share_no_event():
    """An event is about the run, about a step, or bears no status; never two of these."""
    assert len(EVERY_EVENT) == len(RUN_LAW) + len(STEP_LAW) + len(SILENT)


def test_there_is_no_event_beside_the_law():
    """Every class of an event and everything that absorbs one is in the law."""
    assert sorted(TYPE.values()) == EVERY_EVENT
    assert sorted(ABSORB) == EVERY_EVENT


@pytest.mark.parametrize("event", EVERY_EVENT)
def test_every_event_has_one_class_and_is_absorbed(event):
    """An event has exactly one class, tagged with its name, and a function that absorbs it."""
    assert [cls.__struct_config__.tag for cls, name in TYPE.items() if name == event] == [event]
    assert callable(ABSORB[event])


def test_the_creation_of_a_step_is_implied():
    """A template's steps are there when their run is; no event says so."""
    assert IMPLIED not in EVERY_EVENT


def _reach(found, moves):
    """Return all that can be reached from some states by moves."""
    more = {to for was, to in moves if was in found}
    return found if more <= found else _reach(found | more, moves)
