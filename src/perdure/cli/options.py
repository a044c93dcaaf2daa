"""What commands have in common: which store, which tenant, people or programs."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import click
import msgspec

from perdure.app import App

F = TypeVar("F", bound=Callable[..., Any])

_NO_STORE: Final = (
    "no store is named. Write --store sqlite:///runs.db, or once for all: "
    "export PERDURE_STORE=sqlite:///runs.db"
)


def named_store(ctx: click.Context, parameter: click.Parameter, url: str | None) -> str:
    """Return the store's URL; without one there is nothing to look at."""
    if not url:
        raise click.UsageError(_NO_STORE, ctx)
    if url.startswith("memory://"):
        raise click.UsageError(
            "memory:// lives in the process that opened it and cannot be looked at from here", ctx
        )
    return url


def at_store(command: F) -> F:
    """Give a command --store and --json."""
    json_too = click.option("--json", "as_json", is_flag=True, help="Answer with JSON.")
    store = click.option(
        "--store",
        metavar="URL",
        envvar="PERDURE_STORE",
        callback=named_store,
        help="The store, such as sqlite:///runs.db. [env: PERDURE_STORE]",
    )
    return store(json_too(command))


def of_tenant(command: F) -> F:
    """Give a command --tenant."""
    return click.option(
        "--tenant",
        default="default",
        show_default=True,
        envvar="PERDURE_TENANT",
        help="Whose runs. [env: PERDURE_TENANT]",
    )(command)


@contextmanager
def opened(store: str, tenant: str = "default") -> Iterator[App]:
    """Open a store that is there to look at it and to speak to its runs; nothing works here."""
    app = App(store, tenant=tenant, create=False)
    try:
        yield app
    finally:
        app.close()


def again(command: str) -> str:
    """Return a command as one would type it next, with the store and tenant of this one."""
    ctx = click.get_current_context()
    typed = click.core.ParameterSource.COMMANDLINE
    for name in ("store", "tenant"):
        if ctx.get_parameter_source(name) is typed:
            command += f" --{name} {shlex.quote(ctx.params[name])}"
    return command


def json_value(value: str | msgspec.Raw) -> msgspec.Raw:
    """Read a JSON value: written out, in a file (`@input.json`), or on stdin (`-`)."""
    if isinstance(value, msgspec.Raw):  # a default
        return value
    text = _text(value)
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        shown = text.decode(errors="replace").strip()
        why = f"{shown[:60]!r} is not JSON: {error}"
        if shown[:1].isalpha():
            why += f"; a text has its own quotes: '\"{shown[:30]}\"'"
        raise click.BadParameter(why) from error
    return msgspec.Raw(text)


def _text(value: str) -> bytes:
    if value == "-":
        return sys.stdin.buffer.read()
    if value.startswith("@"):
        try:
            return Path(value[1:]).read_bytes()
        except OSError as error:
            raise click.BadParameter(f"{value[1:]} cannot be read: {error.strerror}") from error
    return value.encode()
