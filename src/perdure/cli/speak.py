"""`perdure approve`, `signal`, `cancel`: what people say to runs."""

from __future__ import annotations

import click
import msgspec

from perdure.cli.options import at_store, json_value, of_tenant, opened
from perdure.cli.paper import Word, put, put_json

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
        gates = [s.id for s in app.record(run_id).wait().steps if s.kind == "approval"]
        named = gate or (gates[0] if len(gates) == 1 else "the approval")
        if no:
            changed = app.reject(run_id, gate, note, by=by).wait()
        else:
            value = True if answer is None else msgspec.json.decode(answer)
            changed = app.approve(run_id, gate, value, by=by).wait()
    if as_json:
        put_json({"run_id": run_id, "gate": named, "changed": changed})
    elif changed:
        put([[Word(f"'{named}' is {'rejected' if no else 'answered'}", "good")]])
    else:
        put([[Word(f"'{named}' was answered before; nothing changed", "waits")]])


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
