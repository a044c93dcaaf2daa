"""Payloads: a user's values as JSON, checked on the way in, typed on the way out.

What goes in must come back as it was: NaN, infinities, NUL, lone surrogates and integers beyond
64 bits are refused, because a store or a reader would change or lose them. Structs, dataclasses
and plain JSON are msgspec's; pydantic models are spoken to through their own methods, without
importing pydantic.
"""

from __future__ import annotations

import hashlib
import math
import re
from functools import lru_cache
from typing import Any, Final

import msgspec

from perdure.core.errors import BadPayload, LimitExceeded
from perdure.core.limits import ERROR_CHARACTERS, PAYLOAD_BYTES

NOTHING: Final = msgspec.Raw(b"null")

_SCALARS: Final = frozenset({int, str, bool, float, type(None)})
# An even number of backslashes before it are a text's own: then it is no NUL, but a text about one.
_JSON_TYPES: Final = {
    dict: "object",
    list: "array",
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
}
_NUL: Final = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_LONG_DIGITS: Final = 19
_LONG_NUMBER: Final = re.compile(rb"[0-9]{%d}" % _LONG_DIGITS)
_INTEGER_MOST: Final = 2**63 - 1


def _encode_other(value: Any) -> Any:
    """Let a pydantic model speak for itself."""
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise TypeError(f"{type(value).__name__} is not JSON")
    return dump(mode="json")


def _decode_other(wanted: type, value: Any) -> Any:
    if wanted is object:  # anything is one
        return value
    validate = getattr(wanted, "model_validate", None)
    if validate is None:
        raise TypeError(f"{wanted.__name__} cannot be read from JSON")
    return validate(value)


_encoder: Final = msgspec.json.Encoder(enc_hook=_encode_other)


@lru_cache(maxsize=1024)
def _decoder(wanted: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(wanted, dec_hook=_decode_other)


def pack(value: Any, where: str, name: str = "") -> msgspec.Raw:
    """Return a value as JSON, or refuse it with the place it stands in (`BadPayload`).

    The place comes in two parts, put together only when something is wrong: this is a hot path.
    """
    try:
        data = _encoder.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        why = str(error) or f"{type(value).__name__} is not JSON"
        raise BadPayload(_place(where, name), why) from error
    if value is not None and (
        b"null" in data or (len(data) >= _LONG_DIGITS and _LONG_NUMBER.search(data))
    ):
        _refuse_lossy(value, _place(where, name))
    if b"\\u0000" in data and _NUL.search(data):
        raise BadPayload(_place(where, name), "the character NUL cannot be stored")
    if len(data) > PAYLOAD_BYTES:
        raise LimitExceeded("bytes of a payload", PAYLOAD_BYTES, len(data), _place(where, name))
    return msgspec.Raw(data)


def unpack(data: msgspec.Raw, wanted: Any, where: str, name: str = "") -> Any:
    """Return a payload as a value of the wanted type, or say what does not fit."""
    try:
        return _decoder(wanted).decode(data)
    except (msgspec.DecodeError, ValueError, TypeError) as error:
        raise BadPayload(_place(where, name), str(error)) from error


def settle(value: Any, data: msgspec.Raw, wanted: Any, where: str, name: str) -> Any:
    """Return a result as a replay would see it, so that both lives of a workflow are alike."""
    if type(value) in _SCALARS and (wanted is Any or wanted is type(value)):
        return value
    return unpack(data, wanted, where, name)


def refuse_misfit(data: msgspec.Raw, schema: msgspec.Raw, where: str, name: str) -> None:
    """Refuse a payload that cannot be of a JSON schema, as far as its outermost shape shows it.

    Who asks holds the type, who answers holds the schema; the type still has the last word.
    """
    if not bytes(schema):
        return
    wanted, value = msgspec.json.decode(schema), msgspec.json.decode(data)
    definitions = wanted.get("$defs", {})
    while "$ref" in wanted:
        wanted = definitions.get(wanted["$ref"].rpartition("/")[2], {})
    kind, given = wanted.get("type"), _JSON_TYPES[type(value)]
    why = None
    if isinstance(kind, str) and kind != given and (kind, given) != ("number", "integer"):
        why = f"this is of type {given}, not {kind}"
    elif isinstance(value, dict):
        missing = [field for field in wanted.get("required", ()) if field not in value]
        why = f"'{missing[0]}' is missing" if missing else None
    if why is not None:
        raise BadPayload(_place(where, name), f"{why}; its schema: {bytes(schema).decode()}")


def _place(where: str, name: str) -> str:
    return f"{where} '{name}'" if name else where


def digest(data: msgspec.Raw) -> str:
    """Return a short fingerprint of a payload."""
    return hashlib.blake2b(data, digest_size=10).hexdigest()


def fingerprint(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Return a digest of a call's arguments; arguments that are not JSON have none."""
    if not args and not kwargs:
        return ""
    try:
        data = _encoder.encode((args, kwargs) if kwargs else args)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return ""
    return hashlib.blake2b(data, digest_size=10).hexdigest()


def harmless(text: str) -> str:
    """Return an error's text without what no store could keep, cut to a readable length."""
    clean = text.replace("\x00", "\N{REPLACEMENT CHARACTER}")
    clean = clean.encode("utf-8", "replace").decode("utf-8")
    return clean if len(clean) <= ERROR_CHARACTERS else clean[: ERROR_CHARACTERS - 1] + "…"


def _refuse_lossy(value: Any, where: str) -> None:
    """Look for what would be lost: JSON has no NaN (null stands for it), readers no long int."""
    plain = msgspec.to_builtins(value, enc_hook=_encode_other)
    stack = [(plain, where)]
    while stack:
        item, at = stack.pop()
        if isinstance(item, float) and not math.isfinite(item):
            raise BadPayload(at, f"{item} is not JSON")
        if isinstance(item, int) and abs(item) > _INTEGER_MOST:
            raise BadPayload(at, "an integer is exact up to 2**63 - 1; write a longer one as text")
        if isinstance(item, dict):
            stack.extend((inner, f"{at}.{key}") for key, inner in item.items())
        elif isinstance(item, list | tuple):
            stack.extend((inner, f"{at}[{i}]") for i, inner in enumerate(item))
