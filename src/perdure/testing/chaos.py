"""The chaos proof: `python -m perdure.testing.chaos`, or `./run chaos`.

Real workers on a real file are killed with SIGKILL at random moments while errands are started,
answered, signalled and canceled. Then: every acknowledged run is over with the right result, no
step whose result was returned has run again, `verify` is clean, and nothing has stood still for
longer than a lease and a poll. Exit status 1 and the evidence when any of that is not so.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import click
import msgspec

from perdure.core.record import moment, recorded
from perdure.testing.chaos_checks import Finding
from perdure.testing.chaos_round import Round, chaos_round

_SHOWN = 20  # findings in full; with all their events that is a page each

_ROWS = (
    ("workers", "workers"),
    ("kills", "kills"),
    ("  while it held runs", "kills_of_holders"),
    ("  while it was writing", "kills_while_writing"),
    ("ended in good order, replaced", "left"),
    ("stopped past the lease", "stops"),
    ("runs acknowledged", "runs"),
    ("steps done", "steps"),
    ("steps reclaimed", "steps_reclaimed"),
    ("runs interrupted", "runs_interrupted"),
    ("groups committed", "groups"),
    ("from kill to next owner, median s", "recovery_median_s"),
    ("from kill to next owner, longest s", "recovery_longest_s"),
    ("took s", "took_s"),
)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--kills", default=200, show_default=True, help="How often a worker is killed.")
@click.option("--workers", type=click.IntRange(1, 16), help="So many at once [1, then 2].")
@click.option("--stops", default=2, show_default=True, help="Stops past the lease (2 workers up).")
@click.option("--seed", type=int, help="Chooses the moments [a random one, printed].")
@click.option("--folder", type=click.Path(path_type=Path), help="Keep the files there.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def main(
    kills: int,
    workers: int | None,
    stops: int,
    seed: int | None,
    folder: Path | None,
    as_json: bool,
) -> None:
    """Kill workers again and again, then prove that nothing was lost or done twice."""
    seed = int.from_bytes(os.urandom(4), "big") if seed is None else seed
    click.echo(f"seed {seed}", err=True)
    crews = [(kills, workers)] if workers else [(kills - kills // 2, 1), (kills // 2, 2)]
    place = Path(tempfile.mkdtemp(prefix="perdure-chaos-")) if folder is None else folder
    keep = folder is not None
    rounds = []
    try:
        for number, (share, crew) in enumerate(crews):
            here = place / f"{crew}-workers-{time.time_ns()}"
            here.mkdir(parents=True)
            rest = stops if crew > 1 else 0
            work = chaos_round(
                here, seed=seed + number, kills=share, workers=crew, stops=rest, say=_say
            )
            rounds.append(asyncio.run(work))
            keep = keep or bool(rounds[-1].findings)
    finally:
        _say("")
        if not keep:
            shutil.rmtree(place)
    click.echo(_as_json(rounds) if as_json else table(rounds))
    for it in rounds:
        click.echo(evidence(it), err=True, nl=False)
    if any(it.findings for it in rounds):
        click.echo(f"the files are in {place}; the same moments again: --seed {seed}", err=True)
        sys.exit(1)


def table(rounds: list[Round]) -> str:
    """Return the figures of some rounds side by side, and the verdict."""
    lines = []
    for title, field in _ROWS:
        cells = [_cell(getattr(it.tally, field)) for it in rounds]
        lines.append(f"{title:36}" + "".join(f"{cell:>12}" for cell in cells))
    verdicts = [f"{len(it.findings)} wrong" if it.findings else "sound" for it in rounds]
    return "\n".join([*lines, f"{'verdict':36}" + "".join(f"{it:>12}" for it in verdicts)])


def evidence(it: Round) -> str:
    """Return what was found, each with the log of the run it is about."""
    lines = []
    for finding in it.findings[:_SHOWN]:
        lines.append(f"seed {it.seed}: {_sentence(finding)}")
        for entry in it.logs.get(finding.run, ()):
            lines += [
                f"    {shown.seq:>4} {moment(shown.at)} {shown.type:22} "
                f"{getattr(shown.event, 'step', '')} {shown.before} > {shown.after} {shown.actor}"
                for shown in recorded(entry)
            ]
    if len(it.findings) > _SHOWN:
        lines.append(f"... and {len(it.findings) - _SHOWN} more")
    return "".join(f"{line}\n" for line in lines)


def _sentence(finding: Finding) -> str:
    return f"run {finding.run}: {finding.what}" if finding.run else finding.what


def _cell(value: object) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def _as_json(rounds: list[Round]) -> str:
    shown = [
        {"seed": it.seed, "figures": it.tally, "findings": [f._asdict() for f in it.findings]}
        for it in rounds
    ]
    return msgspec.json.format(msgspec.json.encode(shown)).decode()


def _say(what: str) -> None:
    if sys.stderr.isatty():  # a line that is written over again and again
        click.echo(f"\r{what:60}\r", err=True, nl=False)


if __name__ == "__main__":
    main()
