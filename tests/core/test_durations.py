"""Durations, as people write and read them."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from hypothesis import given as forall
from hypothesis import strategies as st

from perdure.core.durations import human, microseconds, seconds
from perdure.core.errors import BadName

UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (0, 0.0),
        (1.5, 1.5),
        ("250ms", 0.25),
        ("2m", 120.0),
        ("1h30m", 5400.0),
        ("1h 30m", 5400.0),
        ("1.5h", 5400.0),
        ("7d", 604800.0),
        ("1w", 604800.0),
        ("0s", 0.0),
        (timedelta(minutes=1, milliseconds=5), 60.005),
    ],
)
def test_a_duration_is_read(written, meant):
    """As a number of seconds, as a text with units, or as Python's own type."""
    assert seconds(written) == meant
    assert microseconds(written) == round(meant * 1_000_000)


@pytest.mark.parametrize(
    "written",
    ["", "5", "-5m", "5 minutes", "m", "1h-30m", "5x", "1e3s", ".5s", "5m!", "½h", "٥m٥"],
)
def test_what_is_no_duration_is_refused_with_an_example(written):
    """The field is named, and how it should be written."""
    with pytest.raises(BadName, match=f"^timeout {re.escape(repr(written))} is not usable") as no:
        seconds(written, "timeout")
    assert "'1h30m'" in no.value.rule


@pytest.mark.parametrize("number", [-0.001, -1, 1e10, float("inf"), float("nan"), "9" * 20 + "w"])
def test_a_duration_is_not_negative_and_ends_in_this_era(number):
    """Whatever could not be added to a moment is refused."""
    with pytest.raises(BadName, match="within"):
        seconds(number, "within")


@forall(parts=st.lists(st.tuples(st.integers(0, 999), st.sampled_from(list(UNITS))), min_size=1))
def test_a_duration_is_the_sum_of_its_parts(parts):
    """In any order, with or without spaces between them."""
    total = sum(number * UNITS[unit] for number, unit in parts)
    written = [f"{number}{unit}" for number, unit in parts]
    if total < 1e10:
        assert seconds("".join(written)) == pytest.approx(total)
        assert seconds(" ".join(written)) == seconds("".join(written))


@pytest.mark.parametrize(
    ("duration_us", "read"),
    [
        (0, "0ms"),
        (999_000, "999ms"),
        (999_900, "1s"),
        (1_000_000, "1s"),
        (59_940_000, "59.9s"),
        (59_960_000, "1m 00s"),
        (60_000_000, "1m 00s"),
        (125_000_000, "2m 05s"),
        (3_599_600_000, "1h 00m"),
        (3_600_000_000, "1h 00m"),
        (86_399_000_000, "23h 59m"),
        (86_400_000_000, "1d 0h"),
        (-1_500_000, "1.5s"),
    ],
)
def test_a_duration_is_shown_as_a_person_reads_it(duration_us, read):
    """Two units at most, and never sixty of the smaller one."""
    assert human(duration_us) == read


@forall(duration_us=st.integers(0, 10**16))
def test_what_is_shown_is_close_to_what_was_meant(duration_us):
    """Read back, it is off by less than its smaller unit."""
    shown = human(duration_us)
    off_us = abs(microseconds(shown) - duration_us)
    smallest = shown.split()[-1].lstrip("0123456789.")
    assert off_us <= UNITS[smallest] * 1_000_000
