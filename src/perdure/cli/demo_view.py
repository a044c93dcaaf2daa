"""Where the demo is shown: a live picture on a terminal, steady lines anywhere else."""

from __future__ import annotations

import io
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import click
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from perdure.cli import demo_lines as lines
from perdure.cli.demo_scene import Scene
from perdure.cli.paper import Line, Style
from perdure.cli.steps import Step
from perdure.core.durations import human

_RICH: Final[dict[Style, str]] = {
    "": "",
    "good": "green",
    "bad": "red",
    "busy": "cyan",
    "waits": "yellow",
    "dim": "dim",
    "strong": "bold",
}
# the explanation grows and shrinks; what stands below it must not jump
_EXPLANATION_LINES: Final = 5
_PICTURE_WIDTH: Final = 84
_PICTURE_FONTS: Final = "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace"


class LiveView:
    """One calm picture, drawn again when something has changed."""

    def __init__(self) -> None:
        self._live = Live(console=Console(highlight=False), auto_refresh=False, transient=True)

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def draw(self, scene: Scene) -> None:
        """Show how things stand."""
        self._show(scene, lines.story(scene))

    def ask(self, scene: Scene, left_s: float, *, person: bool) -> None:
        """Show the question in the narrator's place."""
        self._show(scene, lines.question(scene, left_s, person=person))

    def _show(self, scene: Scene, told: list[Line]) -> None:
        present = lines.present(scene)[:_EXPLANATION_LINES]
        present += [[]] * (_EXPLANATION_LINES - len(present))
        told += [[]] * (2 - len(told))
        above: list[Line] = [[], lines.title(scene), [], *lines.steps(scene), [], *told, []]
        above += [*present, []]
        room = shutil.get_terminal_size((100, 40)).lines - len(above) - 1
        self._live.update(_texts([*above, *lines.timeline(scene, room)]), refresh=True)


class PlainView:
    """A line for each thing that happens."""

    def __init__(self) -> None:
        self._told = ""
        self._steps: dict[str, Step] = {}
        self._asked = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None

    def draw(self, scene: Scene) -> None:
        """Print what is new."""
        for name, step in scene.steps.items():
            before = self._steps.get(name)
            if before is None or (before.state, before.by) != (step.state, step.by):
                self._print(scene, f"  {name}: {step.state}{_how(scene, step)}")
        self._steps = dict(scene.steps)
        if scene.told != self._told:
            self._told = scene.told
            self._print(scene, scene.told)

    def ask(self, scene: Scene, left_s: float, *, person: bool) -> None:
        """Print the question once."""
        if not self._asked:
            self._asked = True
            for line in lines.question(scene, left_s, person=person):
                self._print(scene, "".join(word.text for word in line).rstrip())

    def _print(self, scene: Scene, text: str) -> None:
        click.echo(f"{scene.elapsed:5.1f}s  {text}")


def _how(scene: Scene, step: Step) -> str:
    where = f", {scene.who(step.by)}" if step.by else ""
    if step.ended_at is not None and step.began_at is not None:
        where += f", {human(step.ended_at - step.began_at)}"
    return where


def draw_picture(path: Path, shown: Iterable[Line]) -> None:
    """Write lines as an SVG that needs nothing from anywhere, no font either."""
    console = Console(record=True, width=_PICTURE_WIDTH, file=io.StringIO(), highlight=False)
    console.print(_texts(shown))
    svg = console.export_svg(title="perdure demo", unique_id="demo")
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    path.write_text(svg.replace("Fira Code, monospace", _PICTURE_FONTS), encoding="utf-8")


def _texts(shown: Iterable[Line]) -> Any:
    texts = [Text.assemble(*((w.text, _RICH[w.style]) for w in line)) for line in shown]
    for text in texts:
        text.no_wrap, text.overflow = True, "ellipsis"
    return Group(*texts)
