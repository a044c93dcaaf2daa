"""Backoff: exact, bounded, and without dice."""

from __future__ import annotations

import math

import pytest
from hypothesis import given as forall
from hypothesis import strategies as st
from msgspec.structs import replace

from perdure.core.retry import Backoff

backoffs = st.builds(
    Backoff,
    retries=st.integers(0, 10**6),
    first_s=st.floats(0, 1e6),
    factor=st.floats(1, 1e6),
    longest_s=st.floats(0, 1e7),
    jitter=st.floats(0, 1),
)


def test_without_jitter_the_delays_are_exact():
    """The first, then each the factor longer, up to the longest."""
    backoff = Backoff(retries=6, first_s=1.5, factor=2, longest_s=20, jitter=0)
    delays = [backoff.delay_s(failures, "any") for failures in range(1, 8)]
    assert delays == [1.5, 3.0, 6.0, 12.0, 20, 20, None]


def test_a_policy_of_no_retries_has_no_delay():
    """The first failure is the last."""
    assert Backoff().delay_s(1, "any") is None


@pytest.mark.parametrize("failures", [500, 1_025, 100_000, 10**9])
@pytest.mark.parametrize("factor", [1.0, 2.0, 1e300])
def test_a_large_exponent_is_the_longest_delay(failures, factor):
    """No power is too large to be computed, and none is slow."""
    backoff = Backoff(retries=10**9, factor=factor, longest_s=300, jitter=0)
    assert backoff.delay_s(failures, "any") == (1.0 if factor == 1 else 300)


def test_jitter_is_the_same_for_the_same_step_and_failure():
    """The same history gives the same moments, in every process."""
    backoff = Backoff(retries=3)
    assert backoff.delay_s(1, "run/a") == backoff.delay_s(1, "run/a")
    assert backoff.delay_s(1, "run/a") != backoff.delay_s(1, "run/b")
    # a change of this number would move the retries of every run that is under way
    assert backoff.delay_s(1, "run/a") == pytest.approx(0.8978666828)


def test_runs_that_failed_together_come_back_apart():
    """A thousand of them are spread evenly over the share that jitter may take."""
    backoff = Backoff(retries=1, first_s=10, jitter=0.5)
    delays = sorted(backoff.delay_s(1, f"run-{n}") for n in range(1000))
    assert 5 <= delays[0] < 5.1
    assert 9.9 < delays[-1] <= 10
    assert sum(delays) / 1000 == pytest.approx(7.5, abs=0.2)


@forall(backoff=backoffs, failures=st.integers(1, 10**6), identity=st.from_regex(r"[\w/#]{1,9}"))
def test_a_delay_is_bounded_whatever_the_policy(backoff, failures, identity):
    """Never negative, never longer than the longest, shrunk by the jitter's share at most."""
    delay = backoff.delay_s(failures, identity)
    if failures > backoff.retries:
        assert delay is None
        return
    whole = replace(backoff, jitter=0.0).delay_s(failures, identity)
    assert math.isfinite(delay)
    assert whole * (1 - backoff.jitter) * 0.999999 <= delay <= whole <= backoff.longest_s
