"""When to try again: backoff as a pure function of the failures so far.

Jitter is made without dice: from the identity of what is retried, so that the same history
gives the same moments, while a thousand runs that failed together come back apart.
"""

from __future__ import annotations

import hashlib

import msgspec


class Backoff(msgspec.Struct, frozen=True):
    """How often and how late to try again.

    `retries` counts tries after the first; `jitter` is the share by which a delay may shrink.
    """

    retries: int = 0
    first_s: float = 1.0
    factor: float = 2.0
    longest_s: float = 300.0
    jitter: float = 0.2

    def delay_s(self, failures: int, identity: str) -> float | None:
        """Return the delay after this many failures, or None when no retry is left."""
        if failures > self.retries:
            return None
        # 2.0 ** 1024 is no float any more; far below that the longest delay has long been reached
        exponent = min(failures - 1, 512)
        try:
            delay = min(self.first_s * self.factor**exponent, self.longest_s)
        except OverflowError:
            delay = self.longest_s
        return delay * (1.0 - self.jitter * _share(f"{identity}/{failures}"))


def _share(identity: str) -> float:
    """Return a number from 0 up to 1 that is always the same for the same identity."""
    seed = hashlib.blake2b(identity.encode(), digest_size=8).digest()
    return int.from_bytes(seed, "big") / 2**64
