"""What the demo claims, each claim beside the facts it was checked against."""

from __future__ import annotations

import signal
from typing import NamedTuple

from perdure.cli.demo_scene import GATE, PLAN, VICTIM, Scene
from perdure.core.states import SUCCEEDED
from perdure.verify import Report


class Claim(NamedTuple):
    """A sentence, and whether it is true."""

    true: bool
    text: str


def claims(scene: Scene, first: int, second: int, ended: int | None, report: Report) -> list[Claim]:
    """Check all that the demo set out to show.

    `first` and `second` are the two workers' process ids, `ended` how the first one ended.
    """
    return [
        _killed(scene, first, ended),
        *_ran_twice(scene, first, second),
        _ran_once(scene),
        Claim(
            scene.has("run.interrupted") and scene.has("step.reclaimed", VICTIM),
            "the history tells it: run.interrupted, then step.reclaimed",
        ),
        Claim(scene.explanation.state == SUCCEEDED, f"the run is {scene.explanation.status}"),
        Claim(report.sound, f"perdure verify: {str(report).splitlines()[0]}"),
    ]


def _killed(scene: Scene, first: int, ended: int | None) -> Claim:
    its = [mark.what for mark in scene.marks if mark.step == VICTIM and mark.pid == first]
    return Claim(
        ended == -signal.SIGKILL and its == ["began"],
        f"process {first} was ended by SIGKILL in the middle of {VICTIM}",
    )


def _ran_twice(scene: Scene, first: int, second: int) -> list[Claim]:
    began = [mark for mark in scene.marks if mark.step == VICTIM and mark.what == "began"]
    finished = [mark.pid for mark in scene.marks if mark.step == VICTIM and mark.what == "finished"]
    twice = [mark.pid for mark in began] == [first, second]
    return [
        Claim(
            twice and len({mark.key for mark in began}) == 1,
            f"{VICTIM} began twice under one key: in process {first}, then in process {second}",
        ),
        Claim(finished == [second], f"{VICTIM} finished once, in process {second}"),
    ]


def _ran_once(scene: Scene) -> Claim:
    names = _others(scene)
    wrong = [name for name in names if not _once(scene, name)]
    text = f"{', '.join(names[:-1])} and {names[-1]} began once and finished once"
    return Claim(not wrong, text + (f" (but {', '.join(wrong)})" if wrong else ""))


def _once(scene: Scene, name: str) -> bool:
    marks = [mark for mark in scene.marks if mark.step == name]
    return [m.what for m in marks] == ["began", "finished"] and len({m.pid for m in marks}) == 1


def _others(scene: Scene) -> list[str]:
    """The steps beside the victim: those of the plan, or the other way out when one said no."""
    plan = [name for name in PLAN if name not in (VICTIM, GATE)]
    if "refund" in scene.steps:
        return [*plan[:2], "refund"]
    return plan
