"""Where in a workflow a step is called: the part of its identity that its name does not say.

A step is its name and its occurrence in the enclosing scope, counted when it is called. Each
branch of a `gather` is a scope of its own, so the order in which branches finish never matters,
and a step that is put in between shifts no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Literal

from perdure.context.steps import perform
from perdure.core.errors import NotInRun
from perdure.workflow import Step, inside

if TYPE_CHECKING:
    from perdure.context.live import Live


class Scope:
    """One branch of a live run."""

    __slots__ = ("_counts", "live", "owner", "path")
    is_branch: Literal[True] = True

    def __init__(self, live: Live, path: str, owner: asyncio.Task[Any] | None) -> None:
        self.live, self.path, self.owner = live, path, owner
        self._counts: dict[str, int] = {}
        live.branches.add(owner)

    def identity(self, name: str) -> str:
        """Return the identity of the next step of this name, and count it."""
        if asyncio.current_task(self.live.loop) is not self.owner:
            raise NotInRun(
                f"'{name}' was called from a task of its own; its place in the run would depend "
                "on timing. Use perdure's gather, which gives each branch a place:\n"
                "    a, b = await gather(fetch(1), fetch(2))"
            )
        count = self._counts.get(name, 0) + 1
        self._counts[name] = count
        return f"{self.path}{name}" if count == 1 else f"{self.path}{name}#{count}"

    def perform(
        self, step: Step[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Coroutine[Any, Any, Any]:
        """Give the step its identity now, whenever it will be awaited."""
        return perform(self.live, step, self.identity(step.place), args, kwargs)


def here(what: str) -> Scope:
    """Return the scope the current task works in."""
    scope = inside.get()
    if not isinstance(scope, Scope):
        raise NotInRun(f"{what} has a meaning only inside a workflow that runs")
    return scope
