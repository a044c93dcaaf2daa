"""One spelling for all stores: events and a run's body, to JSON and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from perdure.core.events import AnyEvent
from perdure.core.run import Asked, Entered, OpenStep, Untaken

_encoder: Final = msgspec.json.Encoder()
_events: Final = msgspec.json.Decoder(tuple[AnyEvent, ...])


class Body(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a run's row holds beside its columns: the part nobody asks a row for."""

    open: tuple[OpenStep, ...] = ()
    signals: tuple[Untaken, ...] = ()
    tries: int = 1
    losses: int = 0
    entered: Entered | None = None
    asked: Asked | None = None


_body: Final = msgspec.json.Decoder(Body)


def encode_events(events: Sequence[AnyEvent]) -> str:
    """Return the events of one command as the text of a row of the log."""
    return _encoder.encode(events).decode()


def decode_events(text: str) -> tuple[AnyEvent, ...]:
    """Return the events that a row of the log holds."""
    return _events.decode(text)


def encode_body(body: Body) -> str:
    """Return a run's body as the text of its column."""
    return _encoder.encode(body).decode()


def decode_body(text: str) -> Body:
    """Return a run's body from the text of its column."""
    return _body.decode(text)
