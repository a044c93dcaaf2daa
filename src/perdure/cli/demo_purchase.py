"""A purchase, written as anybody would write it: what `perdure demo` runs, kills and recovers.

Each body leaves a line in `marks.txt` when it begins and when it has finished, so that one can
count afterwards what ran how often, and in which process.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from perdure.app import App
from perdure.context import approval
from perdure.workflow import step, workflow

MARKS = Path("marks.txt")


class Order(msgspec.Struct, frozen=True):
    """What somebody wants to buy."""

    number: int
    item: str
    euros: int


class Draft(msgspec.Struct, frozen=True):
    """An invoice nobody has paid yet."""

    invoice: str
    item: str
    euros: int


@step
async def reserve(order: Order) -> str:
    with marked("reserve"):
        await asyncio.sleep(0.5)
        return f"shelf 7, {order.item}"


@step
async def invoice(order: Order) -> Draft:
    with marked("invoice"):
        await asyncio.sleep(0.5)
        return Draft(f"2026-{order.number}", order.item, order.euros)


@step
async def charge(draft: Draft) -> str:
    """Have the bank hold the money. It knows `step.key`: asked twice, it holds the money once."""
    with marked("charge") as before:
        await asyncio.sleep(0.5 if before else 10)  # the bank is slow, but it has a memory
        return f"{draft.euros} EUR held as {step.key[:8]}"


@step
async def ship(shelf: str) -> str:
    with marked("ship"):
        await asyncio.sleep(0.5)
        return f"parcel from {shelf}"


@step
async def receipt(draft: Draft, parcel: str) -> str:
    with marked("receipt"):
        await asyncio.sleep(0.5)
        return f"invoice {draft.invoice} is paid, {parcel} is on its way"


@step
async def refund(held: str) -> str:
    with marked("refund"):
        await asyncio.sleep(0.5)
        return f"not released: {held} is free again"


@workflow(deadline="7d")
async def purchase(order: Order) -> str:
    shelf = await reserve(order)
    draft = await invoice(order)
    held = await charge(draft)
    if not await approval("release payment", bool, shows=draft, within="48h"):
        return await refund(held)
    parcel = await ship(shelf)
    return await receipt(draft, parcel)


@contextmanager
def marked(name: str) -> Iterator[bool]:
    """Mark that a body began and that it finished; say whether it had begun before."""
    before = MARKS.exists() and f"{name} began" in _marks_of(step.key)
    _mark(f"{name} began")
    yield before
    _mark(f"{name} finished")


def _marks_of(key: str) -> str:
    return "".join(line for line in MARKS.read_text().splitlines() if line.endswith(key))


def _mark(what: str) -> None:
    with MARKS.open("a") as marks:
        marks.write(f"{what} {os.getpid()} {step.key}\n")


app = App(os.environ.get("PERDURE_STORE", "memory://"), workflows=[purchase])
