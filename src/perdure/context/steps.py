"""How a step is performed: remembered, or run, recorded and perhaps tried again.

The start of a step rides in the command that carries its result, so a short step costs one
commit. The worker records on its own the start of a body that runs for longer than a moment.
"""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from perdure.context.memo import failure_of
from perdure.core import commands as c
from perdure.core.errors import BadPayload, LimitExceeded
from perdure.core.events import Failure
from perdure.core.payload import NOTHING, fingerprint, harmless, pack, settle, unpack
from perdure.core.states import STEP_PENDING
from perdure.workflow import Step, inside

if TYPE_CHECKING:
    from perdure.context.live import Live
    from perdure.core.run import Run

_log = logging.getLogger("perdure.run")
_RESULT = "the result of"


class Running:
    """A body that runs now: when it began, and whether its start is on record."""

    __slots__ = ("_run", "began_at", "call", "visible")
    is_branch: Literal[False] = False

    def __init__(self, run: Run, call: c.Call, began_at: int) -> None:
        self._run, self.call, self.began_at, self.visible = run, call, began_at, False

    @property
    def key(self) -> str:
        """The step's stable key: the same at each try of this step of this run."""
        name = f"{self._run.tenant}/{self._run.id}/{self._run.tries}/{self.call.id}"
        return hashlib.blake2b(name.encode(), digest_size=16).hexdigest()


async def perform(
    live: Live, step: Step[Any, Any], step_id: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Return the step's result: remembered, or the first one that a try brings."""
    if live.gone or live.draining:
        await live.boundary()
    digest = fingerprint(args, kwargs)
    ended = live.memo.outcomes.get(step_id)
    if ended is not None:
        _compare(live, step_id, digest)
        if ended.failure is not None:
            raise failure_of(step_id, ended.failure)
        return unpack(ended.output or NOTHING, step.returns, _RESULT, step_id)
    call = c.Call(step_id, digest, step.policy.backoff.retries + 1, step.timeout_us)
    if live.run.open:
        await _wait_for_backoff(live, step_id)
    while True:
        running = live.running[step_id] = Running(live.run, call, live.surroundings.now())
        outside = inside.set(running)
        try:
            value = await (step.fn(*args, **kwargs) if step.bare else _body(step, args, kwargs))
            output = pack(value, _RESULT, step_id)
        except asyncio.CancelledError:
            del live.running[step_id]
            if running.visible:
                await live.drop(step_id)
            raise
        except (Exception, SystemExit) as error:
            del live.running[step_id]
            await _failed(live, step, call, running.began_at, error)
        else:
            del live.running[step_id]  # its start, if that is not on record, rides with its end
            await live.give(c.SucceedStep(live.token, call, running.began_at, output))
            return settle(value, output, step.returns, _RESULT, step_id)
        finally:
            inside.reset(outside)
            live.running.pop(step_id, None)


async def _body(step: Step[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run the function: on the loop, or on a thread when it is a plain `def`; for so long."""
    if step.is_async:
        work = step.fn(*args, **kwargs)
    else:
        copied = contextvars.copy_context()
        work = asyncio.to_thread(copied.run, _in_thread, step.fn, args, kwargs)
    if step.timeout_s is None:
        return await work
    limit = asyncio.timeout(step.timeout_s)
    try:
        async with limit:
            return await work
    except TimeoutError as error:
        if limit.expired():
            raise TimeoutError(f"no result within {step.timeout_s:g} s") from error
        raise


def _in_thread(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function. No future takes a `StopIteration`: who awaits it would wait for ever."""
    try:
        return fn(*args, **kwargs)
    except StopIteration as error:
        raise RuntimeError("the step raised StopIteration") from error


async def _failed(
    live: Live, step: Step[Any, Any], call: c.Call, began_at: int, error: BaseException
) -> None:
    """Record a failure. Return when the next try may begin, raise when there is none."""
    failure = failure_from(error)
    before = live.run.step(call.id)
    failures = 1 if before is None else before.failures + 1
    delay = None
    if isinstance(error, step.policy.on) and not isinstance(error, BadPayload | LimitExceeded):
        delay = step.policy.backoff.delay_s(failures, f"{live.run.id}/{call.id}")
    if delay is None:
        await live.give(c.FailStep(live.token, call, began_at, failure))
        raise failure_of(call.id, failure) from error
    at = live.surroundings.now() + int(delay * 1_000_000)
    await live.give(c.RetryStep(live.token, call, began_at, failure, at))
    await _wait_for_backoff(live, call.id)


async def _wait_for_backoff(live: Live, step_id: str) -> None:
    step = live.run.step(step_id) if live.run.open else None
    if step is None or step.state != STEP_PENDING or step.next_run_at is None:
        return
    try:
        await live.block(step_id, step.next_run_at)
    except asyncio.CancelledError:
        await live.drop(step_id)
        raise


def failure_from(error: BaseException) -> Failure:
    """Return an exception as data."""
    code = "TIMEOUT" if isinstance(error, TimeoutError) else type(error).__name__
    try:
        # a code of its own is a word for programs; what `sys.exit` was given is its message
        own = None if isinstance(error, SystemExit) else getattr(error, "code", None)
        message = str(error)
    except Exception:
        return Failure(code, "(the exception cannot say what it is)")
    return Failure(harmless(own if isinstance(own, str) else code), harmless(message))


def _compare(live: Live, step_id: str, digest: str) -> None:
    recorded = live.memo.digests.get(step_id, "")
    if recorded and digest and recorded != digest:
        _log.warning(
            "run %s: step '%s' is remembered, though it was called with other arguments now",
            live.run.id,
            step_id,
        )
