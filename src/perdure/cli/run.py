"""`perdure run`: starts a run, and with `--wait` works on it here until it is over."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import shlex
import sys
from typing import Any

import click
import msgspec

from perdure.app import App, RunHandle
from perdure.cli.apps import load_app
from perdure.cli.options import json_value
from perdure.cli.paper import clean, hint, put_json
from perdure.cli.work import speak_on_stderr
from perdure.core.errors import RunFailed
from perdure.core.events import StepWaiting
from perdure.workflow import Workflow

_NO_ARGUMENTS = msgspec.Raw(b"{}")
# `App.start` has parameters of these names; a workflow's own of that name go by position
_TAKEN = frozenset({"workflow", "key", "run_id", "trace_id"})


@click.command()
@click.argument("where", metavar="MODULE:APP")
@click.argument("workflow")
@click.argument("arguments", type=json_value, metavar="[JSON]", default=_NO_ARGUMENTS)
@click.option("--key", metavar="K", help="The same key and arguments: the same run.")
@click.option(
    "--wait/--no-wait", help="Work on it here and print its result; exit 1 when it fails."
)
@click.option("--json", "as_json", is_flag=True, help="Answer with JSON.")
def run(
    where: str,
    workflow: str,
    arguments: msgspec.Raw,
    key: str | None,
    *,
    wait: bool,
    as_json: bool,
) -> int:
    """Start a run of WORKFLOW with its arguments as a JSON object, and print its id.

    JSON may be @file.json, or - for stdin. What this prints is durable: any worker of the
    app finishes the run.
    """
    app = load_app(where)
    if not wait and not app.store.durable:
        raise click.UsageError("this app's store ends with this process: add --wait")
    asked = _Asked(app, _known(app, workflow), arguments, key)
    if wait:
        speak_on_stderr()
        return asyncio.run(_to_its_end(asked, as_json=as_json))
    with contextlib.closing(app):
        handle = app.start(asked.workflow, *asked.args, key=key, **asked.kwargs).wait()
    if as_json:
        put_json({"run_id": handle.id, "created": handle.created})
    else:
        click.echo(handle.id)
        hint(_said(handle, app))
    return 0


def _known(app: App, name: str) -> Workflow[..., Any]:
    if name not in app.registry:
        known = ", ".join(app.registry.all_names())
        raise click.UsageError(f"the app has no workflow '{name}'; it has: {known}")
    return app.registry[name]


class _Asked:
    """A workflow and its arguments, as `App.start` takes them."""

    def __init__(
        self, app: App, workflow: Workflow[..., Any], arguments: msgspec.Raw, key: str | None
    ) -> None:
        self.app, self.workflow, self.key = app, workflow, key
        given = msgspec.json.decode(arguments)
        signature = inspect.signature(workflow.fn)
        if not isinstance(given, dict):
            raise click.UsageError(
                f"the arguments are a JSON object, a field a parameter of "
                f"{workflow.name}{signature}; this is {bytes(arguments).decode()[:60]}"
            )
        self.args: list[Any] = []
        if _TAKEN & given.keys():
            for name in signature.parameters:
                if name not in given:
                    break
                self.args.append(given.pop(name))
        self.kwargs: dict[str, Any] = given


def _said(handle: RunHandle[Any], app: App) -> str:
    if not handle.created:
        return "this key had started it before"
    return _where(handle, app)


def _where(handle: RunHandle[Any], app: App) -> str:
    return f"what it does: perdure explain {handle.id} --store {shlex.quote(app.store.url)}"


async def _to_its_end(asked: _Asked, *, as_json: bool) -> int:
    app = asked.app
    async with app:
        handle = await app.start(asked.workflow, *asked.args, key=asked.key, **asked.kwargs)
        hint(f"run {handle.id}" + ("" if handle.created else " (started before, under this key)"))
        watch = asyncio.create_task(_tell_what_it_waits_for(handle, app))
        try:
            await handle.result()
        except RunFailed:
            if not as_json:
                raise
        except asyncio.CancelledError:
            hint(f"left as it is, any worker goes on with it; {_where(handle, app)}")
            raise
        finally:
            watch.cancel()
        return _print_end(handle.id, await handle.status(), app, as_json=as_json)


def _print_end(run_id: str, status: str, app: App, *, as_json: bool) -> int:
    payloads = app.store.payloads(app.tenant, run_id)
    result = None if payloads is None else payloads.result
    if as_json:
        error = None if payloads is None else payloads.error
        put_json({"run_id": run_id, "status": status, "result": result, "error": error})
    else:
        put_json(result)
    return 0 if status == "succeeded" else 1


async def _tell_what_it_waits_for(handle: RunHandle[Any], app: App) -> None:
    """Say who must do what when the run waits: nothing else on the screen would move."""
    how = {
        "approval": "a person: perdure approve {0} --store {1}",
        "signal": "the signal '{2}': perdure signal {0} '{2}' --store {1}",
    }
    async for event in handle.events(follow=True):
        it = event.event
        if isinstance(it, StepWaiting) and it.kind in how:
            hint("waits for " + how[it.kind].format(handle.id, app.store.url, clean(it.name)))
            sys.stderr.flush()
