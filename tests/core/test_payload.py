"""Payloads: what goes in comes back as it was, or is refused with its place and the reason."""

from __future__ import annotations

import dataclasses
import math
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given as forall
from hypothesis import strategies as st

from perdure.core.errors import BadPayload, LimitExceeded
from perdure.core.limits import ERROR_CHARACTERS, PAYLOAD_BYTES
from perdure.core.payload import digest, harmless, pack, settle, unpack


class Money(msgspec.Struct):
    """A struct with a default."""

    amount: int
    currency: str = "EUR"


@dataclasses.dataclass
class Order:
    """A dataclass that holds structs, in a tuple."""

    lines: tuple[Money, ...]
    at: datetime
    note: str | None = None


ORDER = Order((Money(1), Money(2, "USD")), datetime(2026, 11, 19, tzinfo=UTC))

# plain JSON: no NaN, no lone surrogates, no NUL, integers within 64 bits
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
scalars = st.none() | st.booleans() | texts | st.integers(1 - 2**63, 2**63 - 1)
json_values = st.recursive(
    scalars | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


@forall(value=json_values)
def test_plain_json_comes_back_as_it_was(value):
    """Every value that JSON has, and nothing of it is changed."""
    packed = pack(value, "the result")
    assert unpack(packed, Any, "the result") == value
    assert settle(value, packed, Any, "the result", "") == value


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (Money(3), Money),
        ([Money(3)], list[Money]),
        ({"a": Money(3)}, dict[str, Money]),
        (ORDER, Order),
        ((1, "a"), tuple[int, str]),
        ({1, 2}, set[int]),
        (b"bytes", bytes),
        (datetime(2026, 11, 19, tzinfo=UTC), datetime),
    ],
)
def test_a_typed_value_comes_back_as_its_type(value, wanted):
    """Structs, dataclasses and what Python's own types hold, nested in each other."""
    back = unpack(pack(value, "the result"), wanted, "the result")
    assert back == value
    assert type(back) is type(value)


def test_a_pydantic_model_speaks_for_itself():
    """Alone, in a list and in another model; perdure never imports the package."""
    pydantic = pytest.importorskip("pydantic")
    inner = pydantic.create_model("Inner", at=(datetime, ...))
    outer = pydantic.create_model("Outer", inner=(inner, ...), tags=(list[str], []))
    value = outer(inner=inner(at=datetime(2026, 11, 19, tzinfo=UTC)), tags=["a"])
    assert unpack(pack(value, "it"), outer, "it") == value
    assert unpack(pack([value], "it"), list[outer], "it") == [value]


def test_what_a_pydantic_model_refuses_is_refused_with_its_place():
    """Its own message tells which field."""
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Draft", n=(int, ...))
    with pytest.raises(BadPayload, match=r"the answer: .*Draft\nn\n"):
        unpack(msgspec.Raw(b'{"n":"many"}'), model, "the answer")


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (math.nan, "the result"),
        ({"a": [1, math.inf]}, "the result.a[1]"),
        (Money(-math.inf), "the result.amount"),
        (dataclasses.replace(ORDER, note=math.nan), "the result.note"),
        (2**63, "the result"),
        ({"a": {"b": [2**64]}}, "the result.a.b[0]"),
        (Money(-(2**63)), "the result.amount"),
    ],
)
def test_a_number_that_would_be_lost_is_refused_where_it_stands(value, place):
    """NaN, infinities and integers beyond 64 bits; the field is named, however deep."""
    with pytest.raises(BadPayload) as refused:
        pack(value, "the result")
    assert refused.value.where == place
    assert str(refused.value).startswith(f"{place}: ")


@pytest.mark.parametrize("value", ["a\x00b", {"a\x00": 1}, ["\\\x00"], Money(1, "\x00")])
def test_nul_is_refused(value):
    """In a value and in a key, after a backslash too: no store keeps it."""
    with pytest.raises(BadPayload, match="the character NUL"):
        pack(value, "the result")


@pytest.mark.parametrize("value", ["\\u0000", "a\\\\u0000", {"\\u0000": ["null", "nan"]}])
def test_a_text_that_only_speaks_of_nul_is_no_nul(value):
    """A backslash and what follows it are letters like others."""
    assert unpack(pack(value, "it"), Any, "it") == value


@pytest.mark.parametrize("value", ["\ud800", {"a": ["\udfff"]}, {"\ud800": 1}])
def test_a_lone_surrogate_is_refused(value):
    """It is half a character, and no text of any store."""
    with pytest.raises(BadPayload, match=r"the result: .*surrogates not allowed"):
        pack(value, "the result")


def endless() -> list[Any]:
    """Return a list that holds itself."""
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (object(), "object is not JSON"),
        ({"a": lambda: 1}, "function is not JSON"),
        ({(1, 2): 3}, "tuple is not JSON"),
        (1j, "complex is not JSON"),
        (endless(), "recursion"),
    ],
    ids=str,
)
def test_what_is_not_json_is_refused(value, why):
    """With the type that is in the way."""
    with pytest.raises(BadPayload, match=rf"the result: .*{why}"):
        pack(value, "the result")


def test_a_payload_has_a_limit():
    """One byte more than the limit is refused by the limit's name, with both numbers."""
    pack("x" * (PAYLOAD_BYTES - 2), "the result")
    with pytest.raises(LimitExceeded) as refused:
        pack("x" * (PAYLOAD_BYTES - 1), "the result", "of a")
    assert (refused.value.allowed, refused.value.asked) == (PAYLOAD_BYTES, PAYLOAD_BYTES + 1)
    assert str(refused.value) == (
        "bytes of a payload is 1048576; this would be 1048577 (the result 'of a')"
    )


def test_a_place_has_a_name():
    """Put together only when it is told."""
    with pytest.raises(BadPayload, match="the result of 'charge': nan"):
        pack(math.nan, "the result of", "charge")


@pytest.mark.parametrize(
    ("data", "wanted", "why"),
    [
        (b"1", str, "Expected `str`, got `int`"),
        (b'{"amount":"many"}', Money, r"\$\.amount"),
        (b"{}", Money, "missing required field `amount`"),
        (b"nonsense", Any, "malformed"),
        (b"1", type(lambda: 1), "cannot be read from JSON|not supported"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_reason(data, wanted, why):
    """Place, field and what was expected."""
    with pytest.raises(BadPayload, match=f"the answer: .*{why}"):
        unpack(msgspec.Raw(data), wanted, "the answer")


@pytest.mark.parametrize(
    ("value", "wanted", "settled"),
    [
        ((1, 2), Any, [1, 2]),
        ({1: "a"}, Any, {"1": "a"}),
        (Money(1), Any, {"amount": 1, "currency": "EUR"}),
        (Money(1), Money, Money(1)),
        (7, int, 7),
        (7, float, 7.0),
        (None, Any, None),
    ],
)
def test_a_result_is_what_a_replay_would_see(value, wanted, settled):
    """A workflow's first life sees the value that its second one will read from the log."""
    packed = pack(value, "it")
    first = settle(value, packed, wanted, "it", "")
    assert first == settled == unpack(packed, wanted, "it")
    assert type(first) is type(settled)


def test_a_digest_tells_payloads_apart():
    """Short, the same for the same bytes, different for others."""
    one, two = pack({"a": 1}, "it"), pack({"a": 2}, "it")
    assert digest(one) == digest(pack({"a": 1}, "it")) != digest(two)
    assert len(digest(one)) <= 24


@forall(text=st.text(max_size=60))
def test_an_errors_text_is_made_harmless(text):
    """Whatever a stranger's exception says can be stored; what could be is not touched."""
    clean = harmless(text)
    assert unpack(pack(clean, "it"), str, "it") == clean
    if not any(character == "\x00" or "\ud800" <= character <= "\udfff" for character in text):
        assert clean == text


def test_an_errors_text_is_cut():
    """To a length that can be read, and one sees that it was."""
    assert harmless("x" * (ERROR_CHARACTERS + 1)) == "x" * (ERROR_CHARACTERS - 1) + "…"
    assert harmless("x" * ERROR_CHARACTERS) == "x" * ERROR_CHARACTERS
