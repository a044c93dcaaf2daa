"""The errand: the workflow that is run while its workers are killed, and the marks it leaves.

Every body of a step writes a line before it does anything, and the workflow writes one as soon
as `await` has returned. All lines of all processes go into one file, each with one `write` at
its end, so their order there is the order in which they happened.
"""

from __future__ import annotations

import asyncio
import os
import time
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final, NamedTuple

from perdure.context import approval, gather, wait_for
from perdure.context.scope import here
from perdure.workflow import retry, step, workflow

GATE: Final = "release"
SIGNAL: Final = "go"


class Mark(NamedTuple):
    """One line: a run was claimed, a step's body began, or its result was returned."""

    what: str
    run: str
    step: str
    pid: int
    token: int
    value: str


class Sheet:
    """The file of marks of one worker process, and the tricks its steps play."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        self._folder = Path(path).with_suffix(".tried")
        self._folder.mkdir(exist_ok=True)

    def write(self, what: str, run: str, label: str, token: int, value: str = "-") -> None:
        """Add a line; whoever reads sees all of it or nothing."""
        os.write(self._file, f"{what} {run} {label} {os.getpid()} {token} {value}\n".encode())

    def first_time(self, name: str) -> bool:
        """Say, over all processes, whether nobody has asked this before."""
        try:
            os.close(os.open(self._folder / name, os.O_CREAT | os.O_EXCL, 0o666))
        except FileExistsError:
            return False
        return True


def read_marks(text: str) -> list[Mark]:
    """Return the marks of whole lines of the file."""
    marks = []
    for line in text.splitlines():
        what, run, label, pid, token, value = line.split(" ")
        marks.append(Mark(what, run, label, int(pid), int(token), value))
    return marks


# What differs from errand to errand, by its number.


def asks_for_signal(n: int) -> bool:
    """Whether the errand waits for a signal on its way."""
    return n % 3 == 1


def asks_beside_work(n: int) -> bool:
    """Whether its approval is asked for in one branch while another one works."""
    return n % 5 == 2


def is_slow(n: int) -> bool:
    """Whether one of its steps takes long enough for its start to be put on record."""
    return n % 8 == 5


def labels_of(n: int) -> set[str]:
    """The keys of an errand's result."""
    labels = {"fetch", "reckon", "flaky", "left", "right", "last", GATE, "close"}
    if asks_for_signal(n):
        labels.add(SIGNAL)
    if is_slow(n):
        labels.add("slow")
    return labels


# Steps. A value is never made twice: who sees another one sees that a step ran again.

_sheet: ContextVar[Sheet] = ContextVar("errand_sheet")
_claim: ContextVar[tuple[str, int]] = ContextVar("errand_claim")


def use_sheet(path: str) -> None:
    """Write the marks of this process into a file."""
    _sheet.set(Sheet(path))


def _begin(label: str) -> str:
    run, token = _claim.get()
    _sheet.get().write("began", run, label, token)
    return f"{label}:{os.urandom(6).hex()}"


def _returned(label: str, value: str) -> str:
    run, token = _claim.get()
    _sheet.get().write("returned", run, label, token, value)
    return value


@step
async def fetch(label: str, pause_s: float = 0.0) -> str:
    """Take some time on the loop."""
    value = _begin(label)
    await asyncio.sleep(pause_s)
    return value


@step
def reckon(label: str, pause_s: float) -> str:
    """Take some time on a thread."""
    value = _begin(label)
    time.sleep(pause_s)
    return value


@step(retry=retry(5, on=ConnectionError, first=0.02))
async def flaky(label: str) -> str:
    """Fail once in the life of each run."""
    value = _begin(label)
    if _sheet.get().first_time(_claim.get()[0]):
        raise ConnectionError("the first time it never works")
    return value


@workflow
async def errand(n: int) -> dict[str, Any]:
    """Five steps one after the other, three more side by side, an approval, perhaps a signal."""
    live = here("errand").live
    _claim.set((live.run.id, live.token))
    _sheet.get().write("claimed", live.run.id, "-", live.token)
    pause_s = n % 7 * 0.004
    seen: dict[str, Any] = {}
    seen["fetch"] = _returned("fetch", await fetch("fetch", pause_s))
    seen["reckon"] = _returned("reckon", await reckon("reckon", pause_s))
    seen["flaky"] = _returned("flaky", await flaky("flaky"))
    if asks_beside_work(n):
        both, seen[GATE] = await gather(_two(pause_s), approval(GATE, bool, shows={"errand": n}))
        left = await fetch("left")
    else:
        left, both = await gather(fetch("left", pause_s), _two(pause_s))
    seen["left"] = _returned("left", left)
    seen |= both
    if asks_for_signal(n):
        seen[SIGNAL] = await wait_for(SIGNAL, str)
    if is_slow(n):
        seen["slow"] = _returned("slow", await fetch("slow", 1.4 + n % 3 * 0.5))
    if not asks_beside_work(n):
        seen[GATE] = await approval(GATE, bool, shows={"errand": n})
    seen["close"] = _returned("close", await fetch("close"))
    return seen


async def _two(pause_s: float) -> dict[str, Any]:
    """Two steps, the branch of a gather."""
    right = _returned("right", await fetch("right", pause_s))
    return {"right": right, "last": _returned("last", await reckon("last", 0.0))}
