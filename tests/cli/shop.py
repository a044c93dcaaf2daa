"""An app as a user writes one; the tests copy this file into a folder and work there."""

import os
import time
from pathlib import Path

import msgspec

from perdure import App, approval, sleep, step, wait_for, workflow

LOOK_AGAIN_S = 0.02


class Verdict(msgspec.Struct):
    pay: bool
    note: str = ""


@step
async def double(n: int) -> int:
    return 2 * n


@step
def hold(name: str) -> int:
    """Mark that this body runs; run until there is a file called `go`, and nobody can stop it."""
    with Path("held").open("a") as held:
        held.write(f"{name} {os.getpid()}\n")
    while not Path("go").exists():
        time.sleep(LOOK_AGAIN_S)
    return os.getpid()


@step
async def break_down() -> int:
    raise ValueError("the till is\nempty \x1b[31m")


@workflow
async def quadruple(n: int, key: str = "none") -> int:
    return await double(await double(n))


@workflow
async def pay() -> bool:
    return await approval("release payment", bool, shows={"eur": 120})


@workflow
async def judge() -> bool:
    verdict = await approval("pay/or not", Verdict)
    return verdict.pay


@workflow
async def listen() -> int:
    return await wait_for("price", int)


@workflow
async def fail() -> int:
    return await break_down()


@workflow
async def nap() -> None:
    await sleep("30d")


@workflow
async def keep(name: str) -> int:
    await hold(name)
    return await double(4)


app = App("sqlite:///runs.db", workflows=[quadruple, pay, judge, listen, fail, nap, keep])
idle = App("sqlite:///runs.db")
number = 3
