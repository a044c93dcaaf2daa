"""Who may speak for a run, and what a refusal says."""

from __future__ import annotations

import pytest

from perdure.core import commands as c
from perdure.core import events as e
from perdure.core.decide import WHERE, allowed_now
from perdure.core.errors import LostLease, NotAllowed
from perdure.core.states import HELD
from tests.core.given import T0, given, in_state, owned, running, states_of, unowned

every_owned = pytest.mark.parametrize("nth", range(len(owned())), ids=lambda n: name(owned()[n]))
HELD_BY_NOBODY = [state for state in states_of("standard") if state not in HELD]


def name(command: c.Command) -> str:
    return type(command).__name__


def test_every_command_is_looked_at():
    """The lists of commands by hand hold every command there is."""
    assert {type(command) for command in [*owned(), *unowned()]} == set(WHERE)


@every_owned
@pytest.mark.parametrize("token", [0, 1, 3])
def test_a_stale_owner_is_refused(nth, token):
    """After a takeover only the new token counts; an older one and one that never was are alike."""
    again = (e.RunInterrupted(T0, "worker-a"), e.RunStarted(T0, "worker-b", 2))
    with pytest.raises(LostLease) as refused:
        given(running(*again)).when(owned(token)[nth])
    assert (refused.value.token, refused.value.current) == (token, 2)
    assert refused.value.command == name(owned()[nth])
    assert "held by worker-b with token 2" in str(refused.value)


@every_owned
def test_a_run_that_nobody_holds_refuses_every_owner(nth):
    """Whatever the token, the last one included, and in whatever state."""
    for state in HELD_BY_NOBODY:
        run = in_state(state)
        with pytest.raises(LostLease, match="held by nobody"):
            given(run).when(owned(run.token)[nth])


@pytest.mark.parametrize("state", states_of("standard"))
def test_a_refusal_says_what_is_possible(state):
    """Each command that is refused in a state names exactly those that the state would take."""
    run = in_state(state)
    possible = allowed_now(run)
    for command in unowned():
        if name(command) in possible or name(command) in {"Approve", "Reject", "Claim"}:
            continue
        with pytest.raises(NotAllowed) as refused:
            given(run).when(command)
        assert (refused.value.run_id, refused.value.state) == (run.id, state)
        assert set(refused.value.allowed) == set(possible)


def test_what_is_possible_is_what_is_not_refused():
    """In a run that is held every command on the list is taken, and nothing else is."""
    run = running()
    for command in [*owned(), *unowned()]:
        taken = name(command) in allowed_now(run)
        try:
            given(run).when(command)
        except NotAllowed:
            assert not taken
        else:
            assert taken
