"""What a workflow holds: the verbs it may use while it runs."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar, overload

import msgspec

from perdure.context.gather import gather
from perdure.context.live import Live
from perdure.context.memo import Remembered, failure_of
from perdure.context.scope import Scope, here
from perdure.core import commands as c
from perdure.core.checks import checked_name
from perdure.core.durations import Duration, microseconds
from perdure.core.events import EMPTY, Kind
from perdure.core.limits import WAIT_IN_MEMORY_S
from perdure.core.payload import NOTHING, pack, unpack
from perdure.workflow import quoted

T = TypeVar("T")

__all__ = ["Live", "Scope", "approval", "gather", "sleep", "wait_for"]


async def sleep(duration: Duration) -> None:
    """Sleep, for seconds or for months, through crashes and deploys.

    >>> async def remind() -> None:
    ...     await sleep("30d")
    """
    scope = here("sleep")
    step_id = scope.identity("sleep")
    live = scope.live
    length = microseconds(duration, "sleep")
    if step_id in live.memo.outcomes:
        return
    now = live.surroundings.now()
    open_step = live.run.step(step_id)
    if open_step is None and length < WAIT_IN_MEMORY_S * 1_000_000:
        await live.boundary()
        await asyncio.sleep(length / 1_000_000)
        await live.give(c.SucceedStep(live.token, c.Call(step_id), now, NOTHING))
        return
    until = now + length
    if open_step is not None and open_step.expires_at is not None:
        until = open_step.expires_at  # it fell asleep before this worker took over
    _outcome(step_id, await live.wait(c.Wait(step_id, "sleep", "sleep", until)))


@overload
async def wait_for(name: str, *, within: Duration | None = None) -> Any: ...
@overload
async def wait_for(name: str, answer: type[T], *, within: Duration | None = None) -> T: ...
async def wait_for(name: str, answer: Any = Any, *, within: Duration | None = None) -> Any:
    """Wait for a signal by name and return what came with it.

    A signal that came before anybody waited is kept and taken now. Raises `Expired` when none
    has come `within` the time.

    >>> async def ship() -> str:
    ...     return await wait_for("address", str, within="3d")
    """
    return await _answered("signal", name, answer, within, None)


@overload
async def approval(name: str, *, shows: Any = None, within: Duration | None = None) -> Any: ...
@overload
async def approval(
    name: str, answer: type[T], *, shows: Any = None, within: Duration | None = None
) -> T: ...
async def approval(
    name: str, answer: Any = Any, *, shows: Any = None, within: Duration | None = None
) -> Any:
    """Ask a person, and wait for the answer.

    `shows` is what they see; `answer` is the type of what they say, yes or no alike. Raises
    `Rejected` when they refuse to answer with that, `Expired` when nobody has `within` the time.

    >>> async def pay() -> None:
    ...     if not await approval("release payment", bool, shows={"eur": 120}, within="48h"):
    ...         return
    """
    return await _answered("approval", name, answer, within, shows)


async def _answered(kind: Kind, name: str, answer: Any, within: Duration | None, shows: Any) -> Any:
    scope = here(kind)
    step_id = scope.identity(quoted(checked_name(name, kind)))
    live = scope.live
    expires_at = None
    if within is not None:
        expires_at = live.surroundings.now() + microseconds(within, "within")
    open_step = live.run.step(step_id)
    if open_step is not None:
        expires_at = open_step.expires_at
    wait = c.Wait(
        step_id,
        kind,
        name,
        expires_at,
        EMPTY if shows is None else pack(shows, f"what '{name}' shows"),
        EMPTY if answer is Any else _schema(answer),
    )
    given = _outcome(step_id, await live.wait(wait))
    return unpack(given, answer, f"the answer to '{name}'")


def _outcome(step_id: str, ended: Remembered) -> msgspec.Raw:
    if ended.failure is not None:
        raise failure_of(step_id, ended.failure)
    return NOTHING if ended.output is None else ended.output


def _schema(answer: Any) -> msgspec.Raw:
    """Return the answer's type as JSON Schema, so that whoever asks the person can make a form."""
    describe = getattr(answer, "model_json_schema", None)
    try:
        schema = msgspec.json.schema(answer) if describe is None else describe()
    except TypeError:
        return EMPTY
    return msgspec.Raw(msgspec.json.encode(schema))
