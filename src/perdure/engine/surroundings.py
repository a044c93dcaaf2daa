"""What the door needs of the world, as arguments: the time, and names that nobody else has.

A simulator passes its own; everything else in perdure that needs a moment or an id asks here.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_CROCKFORD: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


@dataclass(frozen=True)
class Surroundings:
    """The time of day in microseconds, a clock that never jumps in seconds, and randomness."""

    now: Callable[[], int]
    monotonic: Callable[[], float]
    entropy: Callable[[int], bytes]

    def new_id(self) -> str:
        """Return a fresh ULID: 26 characters that sort by the millisecond they were made in."""
        moment = self.now() // 1000
        number = (moment << 80) | int.from_bytes(self.entropy(10), "big")
        return "".join([_CROCKFORD[(number >> shift) & 31] for shift in range(125, -5, -5)])


def _now() -> int:
    return time.time_ns() // 1000


REAL: Final = Surroundings(_now, time.monotonic, os.urandom)
