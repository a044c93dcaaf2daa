"""`perdure demo`: a purchase on SQLite whose worker is killed in the middle, and what comes of it.

Everything it says at the end was checked; if something is not as told, it says so and fails.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

import click

from perdure.cli import demo_lines as lines
from perdure.cli.demo_keys import Keys
from perdure.cli.demo_proof import Claim, claims
from perdure.cli.demo_scene import Scene
from perdure.cli.demo_story import NotAsTold, Story, Workers
from perdure.cli.paper import Line, Word, drawable, put
from perdure.cli.refusals import REFUSED, say_error
from perdure.verify import verify_store

_ENDED_BY_SIGNAL: Final = 128
_STORE: Final = "demo.db"
_MARKS: Final = "marks.txt"


@click.command()
@click.option("--plain", is_flag=True, help="Print lines; draw nothing.")
@click.option("--yes", is_flag=True, help="Answer the approval at once.")
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where its files go. [default: a fresh temporary folder]",
)
@click.option("--picture", type=click.Path(dir_okay=False, path_type=Path), hidden=True)
def demo(folder: Path | None, picture: Path | None, *, plain: bool, yes: bool) -> int:
    """See a run survive its worker: five steps, one kill -9, one approval, and the proof.

    It takes about ten seconds, works offline and leaves its files in one folder.
    """
    place = _folder(folder)
    try:
        with _ended_politely():
            return _play(place, picture, plain=plain or not drawable(), yes=yes)
    except NotAsTold as error:
        say_error(str(error), f"what was written down lies in {place}")
        return REFUSED


def _folder(wanted: Path | None) -> Path:
    """Return a folder that is ours: nobody else has made these two files in it."""
    if wanted is None:
        place = Path(tempfile.mkdtemp(prefix="perdure-demo-"))
    else:
        place = wanted.absolute()
        place.mkdir(parents=True, exist_ok=True)
    try:
        os.close(os.open(place / _MARKS, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
    except FileExistsError:
        raise click.UsageError(f"{place} holds a demo already; name another folder") from None
    if (place / _STORE).exists():
        raise click.UsageError(f"{place / _STORE} is there already; name another folder")
    return place


@contextmanager
def _ended_politely() -> Iterator[None]:
    """Let a signal that ends the demo end its workers first."""

    def leave(number: int, frame: FrameType | None) -> None:
        sys.exit(_ENDED_BY_SIGNAL + number)

    before = {each: signal.signal(each, leave) for each in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _play(place: Path, picture: Path | None, *, plain: bool, yes: bool) -> int:
    url = f"sqlite:///{place / _STORE}"
    # the purchase opens the store that is named here, in this process and in the workers
    os.environ["PERDURE_STORE"] = url
    from perdure.cli.demo_purchase import Order, app, purchase
    from perdure.cli.demo_view import LiveView, PlainView, draw_picture

    with closing(app), Workers(place) as workers:
        order = Order(42, "a lamp", 120)
        run = app.start(purchase, order, key=f"order:{order.number}").wait()
        scene = Scene(app, run.id, place / _MARKS)
        with Keys() as keys, PlainView() if plain else LiveView() as view:
            Story(scene, workers, view, keys).play(at_once=yes)
        scene.look()
        report = verify_store(app.store, app.tenant)
        first, second = workers.all
        checked = claims(scene, first.pid, second.pid, first.returncode, report)
        put(_report(scene, checked))
        put(_how_to_go_on(scene.run_id, url))
        if picture is not None:
            draw_picture(picture, _picture(scene, checked))
    return _verdict(checked)


def _report(scene: Scene, checked: list[Claim]) -> list[Line]:
    return [
        [],
        *_part("The steps", lines.steps(scene)),
        *_part("What happened", lines.timeline(scene)),
        *_part("Checked", lines.proven(checked)),
        *_part("perdure explain", lines.present(scene)),
    ]


def _picture(scene: Scene, checked: list[Claim]) -> list[Line]:
    """What fits on one picture: the history and the proof."""
    return [
        [Word("$ ", "dim"), Word("perdure demo", "strong")],
        [],
        *lines.timeline(scene),
        [],
        *lines.proven(checked),
    ]


def _part(title: str, body: list[Line]) -> list[Line]:
    return [[Word(title, "strong")], *body, []]


def _how_to_go_on(run_id: str, url: str) -> list[Line]:
    perdure = _as_typed()
    commands = [
        f"export PERDURE_STORE={shlex.quote(url)}",
        f"{perdure} show {run_id}",
        f"{perdure} explain {run_id}",
        f"{perdure} events {run_id}",
        f"{perdure} verify",
    ]
    last = "  The purchase is perdure/cli/demo_purchase.py; README.md shows how to write yours."
    return [
        [Word("Go on", "strong")],
        *([Word("  "), Word(command, "busy")] for command in commands),
        [Word(last, "dim")],
    ]


def _as_typed() -> str:
    """Return how this program is called from this shell."""
    if shutil.which("perdure"):
        return "perdure"
    script = Path(sys.argv[0])
    if script.name == "perdure":
        here = Path.cwd()
        return shlex.quote(str(script.relative_to(here) if here in script.parents else script))
    return f"{shlex.quote(sys.executable)} -m perdure"


def _verdict(checked: list[Claim]) -> int:
    wrong = [claim.text for claim in checked if not claim.true]
    for text in wrong:
        say_error(f"not true: {text}")
    return REFUSED if wrong else 0
