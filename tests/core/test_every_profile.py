"""Every command in every state of every profile, and long random lives that prove they went far."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given as forall
from hypothesis import strategies as st
from msgspec.structs import replace

from perdure import profiles
from perdure.core import commands as c
from perdure.core import events as e
from perdure.core.codec import decode_events, encode_events
from perdure.core.decide import decide
from perdure.core.errors import Refused
from perdure.core.law import RUN_LAW, SILENT, STEP_LAW, assert_sound, fold
from perdure.core.run import Run, unborn
from perdure.core.states import HELD
from tests.core.given import (
    CREATE,
    NOW,
    OOPS,
    T0,
    YES,
    S,
    born,
    call,
    exists,
    in_state,
    owned,
    sleep_of,
    states_of,
    tried,
    unowned,
    wait_of,
)

# what a run may have open when it comes into a state
BEGUN = e.StepStarted(T0, "a", T0)
OPENINGS = (
    (),
    (BEGUN,),
    (BEGUN, e.StepRetryScheduled(T0, "a", OOPS, 1, NOW)),
    (e.StepWaiting(T0, "gate", "approval", "gate", NOW),),
    (e.StepWaiting(T0, "sleep", "sleep", "sleep", NOW + S), BEGUN),
    (e.SignalReceived(T0, "go", YES),),
)
# a retry of the whole run has its place in the law, and no command yet
BY_NO_COMMAND_YET = {"run.retry_scheduled"}
MOMENTS = (T0 - S, NOW, NOW + 3600 * S)
FARTHER = (
    c.Suspend(1, ("a",)),
    c.Suspend(1, ("a", "gate")),
    c.Suspend(1, ("sleep",), sleep_of()),
    c.OpenWait(1, wait_of("approval", "gate")),
    c.DropStep(1, "gate"),
)


def runs_by_hand(profile: str) -> list[Run]:
    """Return runs in every state that the profile has, with all that may be open in it."""
    found = [born(profile), in_state("queued", profile)]
    for state in states_of(profile):
        for opening in OPENINGS:
            try:
                run = in_state(state, profile, *opening)
                assert_sound(run)
            except Exception as error:
                assert type(error).__name__ in {"Unsound", "Unlawful"}  # noqa: PT017
            else:
                found.append(run)
    return found


@pytest.mark.parametrize("profile", profiles.names())
def test_every_command_folds_or_is_refused_with_data(profile):
    """In every state, with anything open, early and late; and no question is ever changed."""
    runs = [run for run in runs_by_hand(profile) if exists(run)]
    assert {run.state for run in runs} == {"unborn", *profiles.get(profile).words}
    answers = Counter(
        isinstance(tried(run, command, now), Refused)
        for run in runs
        for command in [*owned(run.token), *unowned(), *FARTHER]
        for now in MOMENTS
    )
    assert min(answers[True], answers[False]) > 100


# long lives -----------------------------------------------------------------------------------


class Life:
    """A run, what it is asked at random, and all that ever happened to it."""

    def __init__(self, profile: str, chance: random.Random) -> None:
        self.run, self.chance, self.now = unborn("t", "life", profiles.get(profile)), chance, T0
        self.log: list[str] = []
        self.seen: Counter[str] = Counter()
        self.refused = 0

    def live(self, commands: int) -> Life:
        deadline = self.now + 300 * S if self.chance.random() < 0.5 else None
        self.ask(replace(CREATE, deadline=deadline))
        for _ in range(commands):
            self.now += self.chance.choice((0, 0, S, 60 * S))
            self.ask(self.any_command())
        return self

    def ask(self, command: c.Command) -> None:
        answer = tried(self.run, command, self.now)
        if isinstance(answer, Refused):
            self.refused += 1
            return
        events = decide(self.run, command, self.now)
        if events:
            self.log.append(encode_events(events))
        self.seen.update(e.TYPE[type(event)] for event in events)
        self.run = answer

    def any_command(self) -> c.Command:
        """Draw a command; the ends come seldom, so that a life has a middle."""
        token, step = self.run.token, self.chance.choice("ab")
        # a holder reads which steps block its branches
        blocked = tuple(it.id for it in self.run.open if it.state != "running")
        gates = [it.id for it in self.run.open if it.kind == "approval"] or ["gate"]
        often = [
            c.Claim(self.chance.choice(("worker-a", "worker-b"))),
            c.StartStep(token, call(step), self.now),
            c.SucceedStep(token, call(step), self.now, YES),
            c.RetryStep(token, call(step), self.now, OOPS, self.now + 5 * S),
            c.FailStep(token, call(step), self.now, OOPS),
            c.DropStep(token, step),
            c.OpenWait(token, wait_of("signal", "go")),
            c.OpenWait(token, wait_of("approval", "gate", until=self.now + 90 * S)),
            c.Suspend(token, (*blocked, "sleep"), sleep_of(until=self.now + 30 * S)),
            c.Suspend(
                token, blocked or ("gate",), None if blocked else wait_of("approval", "gate")
            ),
            c.Elapse(token, "sleep"),
            c.Signal("go", YES),
            c.Approve(self.chance.choice(gates), YES),
            c.Reject(self.chance.choice(gates)),
            c.Release(token),
            c.Tick(),
            c.Tick(lost=self.run.worker or "worker-a"),
        ]
        seldom = [c.Finish(token, YES), c.Fail(token, OOPS), c.Cancel(), c.ConfirmCancel(token)]
        return self.chance.choice(often if self.chance.random() < 0.93 else seldom)


@pytest.mark.parametrize("profile", profiles.names())
@forall(seed=st.integers(0, 2**32))
def test_a_life_is_the_fold_of_its_log(profile, seed):
    """Whatever a run was asked, its events, read back, fold into the very same run."""
    life = Life(profile, random.Random(seed)).live(60)
    again = unborn("t", "life", profiles.get(profile))
    for text in life.log:
        again = fold(again, decode_events(text))
    assert again == life.run
    assert (life.run.worker is not None) == (life.run.state in HELD)


def test_random_lives_go_everywhere():
    """Together they have seen every event that a command can bring, more than once."""
    lives = [
        Life(profile, random.Random(seed)).live(80)
        for profile in profiles.names()
        for seed in range(40)
    ]
    seen = sum((life.seen for life in lives), Counter())
    assert set(seen) == {*RUN_LAW, *STEP_LAW, *SILENT} - BY_NO_COMMAND_YET
    assert min(seen.values()) >= 3, seen
    assert sum(life.refused for life in lives) > 1000
