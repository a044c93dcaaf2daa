"""The one spelling of events and bodies: what is written is read back as it was, for years."""

from __future__ import annotations

from typing import get_type_hints

import msgspec
import pytest
from hypothesis import given as forall
from hypothesis import strategies as st

from perdure.core import events as e
from perdure.core.codec import Body, decode_body, decode_events, encode_body, encode_events
from perdure.core.events import TYPE
from tests.core.test_evolve import EXAMPLES

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
numbers = st.integers(0, 2**53)
payloads = st.one_of(names, numbers, st.lists(names, max_size=3), st.none()).map(
    lambda value: msgspec.Raw(msgspec.json.encode(value))
)
st.register_type_strategy(msgspec.Raw, payloads)
st.register_type_strategy(str, names)
st.register_type_strategy(int, numbers)
st.register_type_strategy(float, st.floats(allow_nan=False, allow_infinity=False))

EVERY_EVENT = sorted(TYPE.items(), key=lambda item: item[1])
# Logs written by perdure 0.1.0. A line here is a promise: it is read for ever as it is today.
STORED = {
    '{"type":"run.created","at":1,"workflow":"w","queue":"q","priority":5}': e.RunCreated(
        1, "w", "q", 5
    ),
    '{"type":"run.released","at":1,"claim_at":2}': e.RunReleased(1, 2),
    '{"type":"step.succeeded","at":1,"step":"a","output":null}': e.StepSucceeded(
        1, "a", msgspec.Raw(b"null")
    ),
    '{"type":"step.succeeded","at":1,"step":"a","signal":4}': e.StepSucceeded(1, "a", signal=4),
    '{"type":"step.waiting","at":1,"step":"a","kind":"sleep","name":"b"}': e.StepWaiting(
        1, "a", "sleep", "b"
    ),
    '{"type":"signal.received","at":1,"name":"go","payload":[1]}': e.SignalReceived(
        1, "go", msgspec.Raw(b"[1]")
    ),
}


def any_of(kind: type) -> st.SearchStrategy:
    """Return a strategy for one class of events: each field drawn, or left at its default."""
    hints = {name: st.from_type(hint) for name, hint in get_type_hints(kind).items()}
    fields = msgspec.structs.fields(kind)
    needed = {f.name: hints[f.name] for f in fields if f.required}
    optional = {f.name: hints[f.name] for f in fields if not f.required}
    drawn = st.fixed_dictionaries(needed, optional=optional)
    return drawn.map(lambda values: kind(**values))


@pytest.mark.parametrize(
    ("kind", "name"), EVERY_EVENT, ids=lambda it: it if type(it) is str else ""
)
@forall(data=st.data())
def test_an_event_is_read_back_as_it_was(kind, name, data):
    """With every field or only what it needs; and written again it is the same text."""
    event = data.draw(any_of(kind))
    text = encode_events([event])
    (back,) = decode_events(text)
    assert (type(back), back) == (kind, event)
    assert encode_events([back]) == text
    assert f'"type":"{name}"' in text


@forall(data=st.data())
def test_the_events_of_a_command_keep_their_order(data):
    """A row of the log holds several, of any types."""
    kinds = data.draw(st.lists(st.sampled_from(list(TYPE)), max_size=5))
    events = tuple(data.draw(any_of(kind)) for kind in kinds)
    assert decode_events(encode_events(events)) == events


@pytest.mark.parametrize("event", EXAMPLES.values(), ids=lambda it: TYPE[type(it)])
def test_a_field_at_its_default_is_not_written(event):
    """So that a later version may add one, and no stored event changes its meaning."""
    fields = msgspec.structs.fields(type(event))
    written = msgspec.json.decode(encode_events([event]))[0]
    at_default = {f.name for f in fields if not f.required and getattr(event, f.name) == f.default}
    assert not at_default & set(written)


@pytest.mark.parametrize("text", STORED)
def test_a_stored_event_is_read_for_ever(text):
    """What was written by the first version means today what it meant then."""
    assert decode_events(f"[{text}]") == (STORED[text],)
    assert encode_events([STORED[text]]) == f"[{text}]"


def test_an_event_with_a_field_of_a_later_version_is_read():
    """A newer process may write beside an older one."""
    text = '[{"type":"run.waiting","at":1,"mood":"patient"}]'
    assert decode_events(text) == (e.RunWaiting(1),)


def test_an_event_nobody_knows_is_refused():
    """Better no answer than a wrong one: the type is named."""
    with pytest.raises(msgspec.ValidationError, match=r"run\.vanished"):
        decode_events('[{"type":"run.vanished","at":1}]')


@forall(body=st.from_type(Body))
def test_a_body_is_read_back_as_it_was(body):
    """Open steps, signals, counters, and how the run came into its state."""
    assert decode_body(encode_body(body)) == body


def test_an_empty_body_is_two_characters():
    """A run that has nothing open costs nothing."""
    assert encode_body(Body()) == "{}"
