"""Branches side by side, each a scope of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar, overload

from perdure.context.scope import Scope, here
from perdure.core.errors import BadName
from perdure.workflow import inside

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")


@overload
async def gather(a: Awaitable[A], b: Awaitable[B], /) -> tuple[A, B]: ...
@overload
async def gather(a: Awaitable[A], b: Awaitable[B], c: Awaitable[C], /) -> tuple[A, B, C]: ...
@overload
async def gather(
    a: Awaitable[A], b: Awaitable[B], c: Awaitable[C], d: Awaitable[D], /
) -> tuple[A, B, C, D]: ...
@overload
async def gather(*branches: Awaitable[A]) -> tuple[A, ...]: ...
async def gather(*branches: Awaitable[Any]) -> tuple[Any, ...]:
    """Run branches side by side and return their results in the order they were given.

    Give it steps, or coroutines of your own with steps and waits in them. When one fails the
    others are canceled, and its exception is raised.

    >>> async def both(fetch) -> tuple[int, int]:
    ...     return await gather(fetch(1), fetch(2))
    """
    scope = here("gather")
    for branch in branches:
        if not isinstance(branch, Awaitable):
            rule = "gather takes awaitables: gather(fetch(1), fetch(2))"
            raise BadName("branch", repr(branch), rule)
    if not branches:
        return ()
    return await _Branches(scope, scope.identity("gather")).run(branches)


class _Exited(BaseException):
    """What carries a `SystemExit` out of a branch: no task may raise that, or its loop ends."""

    def __init__(self, error: SystemExit) -> None:
        self.error = error


class _Branches:
    """The branches of one `gather`, and who of them counts as busy.

    While they run the parent is blocked and they are busy in its stead. The last to end, or the
    first to fail, hands its place back to the parent, so that the run is never put aside in
    between.
    """

    def __init__(self, scope: Scope, name: str) -> None:
        self._scope, self._live, self._name = scope, scope.live, name
        self._left = 0
        self._handed_back = False

    async def run(self, branches: tuple[Awaitable[Any], ...]) -> tuple[Any, ...]:
        self._left = len(branches)
        self._live.busy += len(branches) - 1
        tasks = [asyncio.create_task(self._branch(b, i)) for i, b in enumerate(branches)]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            await self._end(tasks)
            # asyncio complains of each exception that nobody has looked at, and one is raised
            failed = [t for t in tasks if t.done() and not t.cancelled() and t.exception()]
        for task in failed:
            try:
                task.result()
            except _Exited as carrier:
                raise carrier.error from None
        return tuple(task.result() for task in tasks)

    async def _branch(self, branch: Awaitable[Any], index: int) -> Any:
        path = f"{self._scope.path}{self._name_here()}[{index}]/"
        inside.set(Scope(self._live, path, asyncio.current_task()))
        failed = True
        try:
            result = await branch
            failed = False
        except SystemExit as error:
            raise _Exited(error) from error
        finally:
            self._left -= 1
            self._live.branches.discard(asyncio.current_task())
            if not self._handed_back and (failed or self._left == 0):
                self._handed_back = True
            else:
                self._live.busy -= 1
        if self._live.busy == 0 and self._live.blocked and not self._handed_back:
            await self._live.suspend()
        return result

    async def _end(self, tasks: list[asyncio.Task[Any]]) -> None:
        """Cancel what still runs and wait for it; the parent is the one who is busy again."""
        if all(task.done() for task in tasks):
            if not self._handed_back:
                self._live.busy += 1
            return
        if not self._handed_back:
            self._handed_back = True
            self._live.busy += 1
        for task in tasks:
            # after its first step: a branch that never began would not give back its place
            self._live.loop.call_soon(task.cancel)
        await asyncio.wait(tasks)

    def _name_here(self) -> str:
        return self._name.removeprefix(self._scope.path)
