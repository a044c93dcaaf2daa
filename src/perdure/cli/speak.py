"""`perdure approve`, `signal`, `cancel`: what people say to runs."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from perdure.app import App
from perdure.cli.options import at_store, json_value, of_tenant, opened
from perdure.cli.paper import Word, put, put_json
from perdure.cli.steps import Step, steps_of
from perdure.core.states import STEP_WAITING

_TRUE = msgspec.Raw(b"true")
_JSON_TYPES: dict[type, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
    type(None): "null",
}


# approve --------------------------------------------------------------------------------------


@click.command()
@click.argument("run_id", metavar="ID")
@click.argument("gate", required=False)
@click.option("--answer", type=json_value, metavar="JSON", help="What is answered. [default: true]")
@click.option("--by", default="", metavar="NAME", help="Who answers; it stands in the history.")
@click.option("--no", is_flag=True, help="Refuse: the workflow sees Rejected.")
@click.option("--note", default="", metavar="TEXT", help="Why not; goes with --no.")
@of_tenant
@at_store
def approve(
    run_id: str,
    gate: str | None,
    answer: msgspec.Raw | None,
    by: str,
    note: str,
    store: str,
    tenant: str,
    *,
    no: bool,
    as_json: bool,
) -> None:
    """Answer an approval a run waits for; the GATE may be left out when one is open.

    A second answer changes nothing, so a repeated command does no harm.
    """
    if no and answer is not None:
        raise click.UsageError("--no refuses to answer; leave --answer out")
    if note and not no:
        raise click.UsageError("--note goes with --no; what an approval says goes into --answer")
    with opened(store, tenant) as app:
        chosen = _open_gate(app, run_id, gate)
        if chosen is not None:
            gate = chosen.id
        if no:
            changed = app.reject(run_id, gate, note, by=by).wait()
        else:
            changed = app.approve(run_id, gate, _fitting(chosen, answer), by=by).wait()
    named = gate or "the approval"
    if as_json:
        put_json({"run_id": run_id, "gate": named, "changed": changed})
    elif changed:
        put([[Word(f"'{named}' is {'rejected' if no else 'answered'}", "good")]])
    else:
        put([[Word(f"'{named}' was answered before; nothing changed", "waits")]])


def _open_gate(app: App, run_id: str, gate: str | None) -> Step | None:
    """Return the gate that is meant, if it is open: by id, by name, or the only one there is."""
    steps = steps_of(app.events(run_id))
    gates = [s for s in steps if s.kind == "approval" and s.state == STEP_WAITING]
    if gate is not None:
        gates = [s for s in gates if s.id == gate] or [s for s in gates if s.name == gate]
    return gates[0] if len(gates) == 1 else None


def _fitting(gate: Step | None, answer: msgspec.Raw | None) -> Any:
    """Return the answer, unless the workflow could not read it: that would fail the run."""
    value = msgspec.json.decode(_TRUE if answer is None else answer)
    if gate is None or gate.schema is None:
        return value
    why = _misfit(msgspec.json.decode(gate.schema), value)
    if why is not None:
        wanted = bytes(gate.schema).decode()
        raise click.UsageError(f"'{gate.id}' wants --answer JSON, and {why}. Its schema: {wanted}")
    return value


def _misfit(schema: dict[str, Any], value: Any) -> str | None:
    """Say why a value cannot be of a schema, as far as its outermost shape shows it."""
    definitions = schema.get("$defs", {})
    while "$ref" in schema:
        schema = definitions.get(schema["$ref"].rpartition("/")[2], {})
    wanted, given = schema.get("type"), _JSON_TYPES[type(value)]
    if isinstance(wanted, str) and wanted != given and (wanted, given) != ("number", "integer"):
        return f"this is of type {given}, not {wanted}"
    missing = [n for n in schema.get("required", ()) if isinstance(value, dict) and n not in value]
    return f"'{missing[0]}' is missing" if missing else None


# signal ---------------------------------------------------------------------------------------


@click.command()
@click.argument("run_id", metavar="ID")
@click.argument("name")
@click.argument("payload", type=json_value, metavar="[JSON]", required=False)
@click.option("--id", "signal_id", metavar="X", help="The same id twice counts once.")
@of_tenant
@at_store
def signal(
    run_id: str,
    name: str,
    payload: msgspec.Raw | None,
    signal_id: str | None,
    store: str,
    tenant: str,
    *,
    as_json: bool,
) -> None:
    """Tell a run something by name; it is kept until the run asks for it."""
    value = None if payload is None else msgspec.json.decode(payload)
    with opened(store, tenant) as app:
        changed = app.signal(run_id, name, value, id=signal_id).wait()
    if as_json:
        put_json({"run_id": run_id, "signal": name, "changed": changed})
    elif changed:
        put([[Word(f"told '{name}' to {run_id}", "good")]])
    else:
        put([[Word(f"'{signal_id}' was told before; nothing changed", "waits")]])


# cancel ---------------------------------------------------------------------------------------


@click.command()
@click.argument("run_id", metavar="ID")
@click.option("--reason", default="", metavar="TEXT", help="Why; it stands in the history.")
@of_tenant
@at_store
def cancel(run_id: str, reason: str, store: str, tenant: str, *, as_json: bool) -> None:
    """Ask a run to stop; one that nobody holds is canceled at once."""
    with opened(store, tenant) as app:
        status = app.cancel(run_id, reason).wait()
    if as_json:
        put_json({"run_id": run_id, "status": status})
    else:
        put([[Word(f"{run_id} is {status}", "good" if status == "canceled" else "waits")]])
