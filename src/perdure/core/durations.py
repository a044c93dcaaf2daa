"""Durations as people write them: seconds as a number, or "250ms", "2m", "1h30m", "7d"."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final, TypeAlias

from perdure.core.errors import BadName

Duration: TypeAlias = float | str | timedelta

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
_WHOLE: Final = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h|d|w))+")


def seconds(duration: Duration, field: str = "duration") -> float:
    """Return a duration in seconds.

    >>> seconds("1h30m"), seconds("250ms"), seconds(2)
    (5400.0, 0.25, 2.0)
    """
    if isinstance(duration, timedelta):
        value = duration.total_seconds()
    elif isinstance(duration, str):
        text = duration.replace(" ", "")
        if not _WHOLE.fullmatch(text):
            rule = "write seconds as a number, or like '250ms', '1h30m', '7d'"
            raise BadName(field, duration, rule)
        value = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    elif isinstance(duration, int | float):
        value = float(duration)
    else:
        raise BadName(field, str(duration), "write seconds as a number, or like '250ms', '7d'")
    if not 0 <= value < 1e10:
        raise BadName(field, str(duration), "a duration is not negative and ends in this era")
    return value


def microseconds(duration: Duration, field: str = "duration") -> int:
    """Return a duration in whole microseconds."""
    return round(seconds(duration, field) * 1_000_000)


def human(duration_us: int) -> str:
    """Return a duration as a person reads it.

    >>> human(1_500_000), human(125_000_000), human(90_000_000_000), human(20_000)
    ('1.5s', '2m 05s', '1d 1h', '20ms')
    """
    total = abs(duration_us) / 1_000_000
    if total < 0.9995:  # from there on it would be rounded to 1000ms, and below to 60s
        return f"{total * 1000:.0f}ms"
    if total < 59.95:
        return f"{total:.1f}".removesuffix(".0") + "s"
    minutes, rest = divmod(round(total), 60)
    if minutes < 60:
        return f"{minutes}m {rest:02d}s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours}h {minutes:02d}m"
    return f"{hours // 24}d {hours % 24}h"
