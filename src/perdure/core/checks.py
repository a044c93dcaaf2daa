"""What may come in from outside: names, texts, ids and counts, or a refusal that says the rule.

The log keeps what it is given for years, and a reader trusts its types: so they are looked at
before anything is written.
"""

from __future__ import annotations

from typing import Any, Final

from perdure.core.errors import BadName, BadPayload, LimitExceeded
from perdure.core.limits import ERROR_CHARACTERS, NAME_CHARACTERS

_ID_CHARACTERS: Final = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-"
)


def checked_name(name: Any, field: str) -> str:
    """Return a name that can be stored and shown, or refuse it."""
    if not isinstance(name, str) or not name.strip() or len(name) > NAME_CHARACTERS:
        raise BadName(field, str(name)[:40], f"a name has 1 to {NAME_CHARACTERS} characters")
    if not name.isprintable():
        raise BadName(field, name, "a name is made of printable characters")
    return name


def checked_text(text: Any, field: str) -> str:
    """Return what a person wrote (a reason, a note), or refuse it; it may be empty."""
    if not isinstance(text, str):
        raise BadName(field, str(text)[:40], "write a text")
    if len(text) > ERROR_CHARACTERS:
        raise LimitExceeded("characters of a text", ERROR_CHARACTERS, len(text), field)
    if "\x00" in text or not _is_unicode(text):
        raise BadPayload(field, "NUL and lone surrogates cannot be stored")
    return text


def checked_id(run_id: Any) -> str:
    """Return a run's id as a caller may choose it, or refuse it."""
    fits = isinstance(run_id, str) and 8 <= len(run_id) <= 128
    if not (fits and run_id[0].isalnum() and set(run_id) <= _ID_CHARACTERS):
        rule = "8 to 128 letters, digits or '._:-', the first a letter or digit"
        raise BadName("run_id", str(run_id)[:140], rule)
    return str(run_id)


def checked_count(count: Any, field: str, least: int, most: int) -> int:
    """Return a whole number within its bounds, or refuse it."""
    if not isinstance(count, int) or isinstance(count, bool) or not least <= count <= most:
        raise BadName(field, str(count)[:40], f"a whole number from {least} to {most:,}")
    return count


def checked_number(number: Any, field: str, least: float, most: float) -> float:
    """Return a number within its bounds, or refuse it."""
    if not isinstance(number, int | float) or not least <= number <= most:
        raise BadName(field, str(number)[:40], f"a number from {least:g} to {most:g}")
    return float(number)


def checked_kinds(on: Any, field: str) -> tuple[type[Exception], ...]:
    """Return exceptions' classes as a tuple, or refuse what is none."""
    kinds = on if isinstance(on, tuple) else (on,)
    if not all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds):
        raise BadName(field, repr(on), "an exception's class, or a tuple of them")
    return kinds


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
