"""What a run remembers: its log, read once when a worker takes over a run that has begun."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from perdure.core import events as e
from perdure.core.errors import Expired, PerdureError, Rejected, StepFailed


class Remembered(NamedTuple):
    """How a step ended: with an output, or with a failure."""

    output: msgspec.Raw | None
    failure: e.Failure | None


class Memo:
    """The outcomes of the steps that are over, by step, and the signals that came."""

    def __init__(self) -> None:
        self.outcomes: dict[str, Remembered] = {}
        self.digests: dict[str, str] = {}
        self.payloads: dict[int, msgspec.Raw] = {}
        self.seen = 0

    def read(self, entries: Iterable[e.Entry]) -> list[str]:
        """Take in rows of the log; return the steps that have ended in them."""
        ended = []
        for entry in entries:
            for seq, event in enumerate(entry.events, entry.seq):
                if seq > self.seen:
                    self.seen = seq
                    if (step := self.take(seq, event)) is not None:
                        ended.append(step)
        return ended

    def take(self, seq: int, event: e.AnyEvent) -> str | None:
        """Take in one event; return the step it ends, if it ends one."""
        match event:
            case e.StepSucceeded(step=step, output=output, signal=signal):
                if signal is not None:
                    output = self.payloads[signal]
                self.outcomes[step] = Remembered(output, None)
                return step
            case e.StepFailed(step=step, error=failure):
                self.outcomes[step] = Remembered(None, failure)
                return step
            case e.StepStarted() | e.StepReclaimed():
                self.digests[event.step] = event.digest
            case e.SignalReceived(payload=payload):
                self.payloads[seq] = payload
        return None


def failure_of(step: str, failure: e.Failure) -> PerdureError:
    """Return the exception that a recorded failure is raised as, live and on replay alike."""
    match failure.code:
        case "EXPIRED":
            return Expired(step)
        case "REJECTED":
            return Rejected(step, failure.message)
        case _:
            return StepFailed(step, failure)
