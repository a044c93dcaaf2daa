"""What users write: workflows and steps, and the list of those an app knows.

Both decorators leave the function as it is. A step called inside a run is remembered there;
called anywhere else it is just the function, so that a unit test needs nothing of perdure.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextvars import ContextVar
from functools import cached_property, partial
from typing import (
    Any,
    Generic,
    Literal,
    ParamSpec,
    Protocol,
    TypeVar,
    cast,
    get_type_hints,
    overload,
)

import msgspec

from perdure.core.checks import checked_count, checked_kinds, checked_name, checked_number
from perdure.core.durations import Duration, microseconds, seconds
from perdure.core.errors import BadName, BadPayload, NotInRun
from perdure.core.limits import RETRIES
from perdure.core.payload import pack, unpack
from perdure.core.retry import Backoff

P = ParamSpec("P")
R = TypeVar("R")


class Branch(Protocol):
    """A branch of a run: what a step is called in, and asks to be performed by."""

    is_branch: Literal[True]

    def perform(
        self, step: Step[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Coroutine[Any, Any, Any]:
        """Run the step, or remember it."""


class Body(Protocol):
    """The body of a step. A step that is called in it is a part of it: just a function."""

    is_branch: Literal[False]

    @property
    def key(self) -> str:
        """The step's stable key."""


# What of a run the current code is in; None outside of runs. One variable, because each change of
# one costs a step more than deciding it.
inside: ContextVar[Branch | Body | None] = ContextVar("perdure_inside", default=None)


class Retry(msgspec.Struct, frozen=True):
    """When a failed step is tried again, and for which exceptions."""

    backoff: Backoff
    on: tuple[type[Exception], ...]


def retry(
    retries: int,
    *,
    on: type[Exception] | tuple[type[Exception], ...] = Exception,
    first: Duration = 1.0,
    factor: float = 2.0,
    longest: Duration = "5m",
    jitter: float = 0.2,
) -> Retry:
    """Try a failed step again, up to `retries` times, later each time.

    >>> policy = retry(5, on=ConnectionError, first="500ms")
    >>> policy.backoff.retries
    5
    """
    checked_count(retries, "retries", 0, RETRIES)
    backoff = Backoff(
        retries,
        seconds(first, "first"),
        checked_number(factor, "factor", 1, 1_000),
        seconds(longest, "longest"),
        checked_number(jitter, "jitter", 0, 1),
    )
    return Retry(backoff, checked_kinds(on, "on"))


NO_RETRY = Retry(Backoff(), (Exception,))


class Step(Generic[P, R]):
    """A function whose result a run remembers. Made by `@step`."""

    def __init__(self, fn: Callable[P, Any], name: str, policy: Retry, timeout_s: float | None):
        self.fn, self.name, self.policy, self.timeout_s = fn, name, policy, timeout_s
        self.timeout_us = None if timeout_s is None else round(timeout_s * 1_000_000)
        # its name as a part of an identity, where '/' and '#' have a meaning
        self.place = quoted(name)
        self.is_async = inspect.iscoroutinefunction(fn)
        # nothing stands between a call and the function: no thread, no timeout
        self.bare = self.is_async and timeout_s is None
        self.__doc__, self.__name__, self.__wrapped__ = fn.__doc__, name, fn

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        here = inside.get()
        if here is None or here.is_branch is False:
            return cast("Coroutine[Any, Any, R]", self.fn(*args, **kwargs))
        return here.perform(self, args, kwargs)

    @cached_property
    def returns(self) -> Any:
        """The type of its result, `Any` where none is declared."""
        return _hints(self.fn).get("return", Any)

    def __repr__(self) -> str:
        return f"<step {self.name}>"


class _StepDecorator:
    """`@step`, `@step(...)`, and inside a step's body `step.key`."""

    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> Step[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> Step[P, R]: ...
    @overload
    def __call__(
        self,
        /,
        *,
        name: str | None = None,
        retry: Retry = NO_RETRY,
        timeout: Duration | None = None,
    ) -> _StepMaker: ...

    def __call__(
        self,
        fn: Any = None,
        /,
        *,
        name: str | None = None,
        retry: Retry = NO_RETRY,
        timeout: Duration | None = None,
    ) -> Any:
        maker = _StepMaker(name, retry, None if timeout is None else seconds(timeout, "timeout"))
        return maker if fn is None else maker(fn)

    @property
    def key(self) -> str:
        """A key that is the same each time this step of this run is tried.

        Hand it to other services as their idempotency key. Only inside a step's body.
        """
        here = inside.get()
        if here is None or here.is_branch is True:
            raise NotInRun("step.key exists only inside the body of a step that a run performs")
        return here.key


class _StepMaker:
    def __init__(self, name: str | None, policy: Retry, timeout_s: float | None) -> None:
        self._name, self._policy, self._timeout_s = name, policy, timeout_s

    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> Step[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> Step[P, R]: ...

    def __call__(self, fn: Callable[..., Any], /) -> Any:
        if not callable(fn):
            raise BadName("step", repr(fn), "@step decorates a function; options are keywords")
        name = checked_name(_name_of(fn) if self._name is None else self._name, "step")
        if not isinstance(self._policy, Retry):
            raise BadName("retry", repr(self._policy), "write retry(3), or retry(3, on=OSError)")
        return Step(fn, name, self._policy, self._timeout_s)


step = _StepDecorator()


class Workflow(Generic[P, R]):
    """An `async def` whose runs last. Made by `@workflow`."""

    def __init__(
        self,
        fn: Callable[P, Coroutine[Any, Any, R]],
        name: str,
        queue: str,
        priority: int,
        deadline_us: int | None,
    ) -> None:
        self.fn, self.name, self.queue, self.priority = fn, name, queue, priority
        self.deadline_us = deadline_us
        self.__doc__, self.__name__, self.__wrapped__ = fn.__doc__, name, fn
        self._signature = inspect.signature(fn)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        return self.fn(*args, **kwargs)

    def pack_input(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> msgspec.Raw:
        """Return the arguments as the JSON a run keeps: an object by parameter name."""
        where = f"the input of '{self.name}'"
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise BadPayload(where, f"{error}; it takes {self._signature}") from error
        packed = pack(bound.arguments, where)
        self.unpack_input(packed)  # refuse now what no worker could read later
        return packed

    def unpack_input(self, data: msgspec.Raw) -> dict[str, Any]:
        """Return the arguments by name, each as the type it is declared with."""
        model = unpack(data, self._input, f"the input of '{self.name}'")
        return msgspec.structs.asdict(model)

    @cached_property
    def _input(self) -> Any:
        return _input_model(self.name, self._signature, _hints(self.fn))

    @cached_property
    def returns(self) -> Any:
        """The type of its result, `Any` where none is declared."""
        return _hints(self.fn).get("return", Any)

    def __repr__(self) -> str:
        return f"<workflow {self.name}>"


class _WorkflowMaker:
    def __init__(self, name: str | None, queue: str, priority: int, deadline_us: int | None):
        self._name, self._queue, self._priority = name, queue, priority
        self._deadline_us = deadline_us

    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> Workflow[P, R]:
        name = checked_name(_name_of(fn) if self._name is None else self._name, "workflow")
        if not inspect.iscoroutinefunction(fn):
            raise BadName(
                "workflow", name, "a workflow is an 'async def'; put blocking code in a step"
            )
        for parameter in inspect.signature(fn).parameters.values():
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                raise BadName(
                    "workflow", name, f"'{parameter}' has no name to be stored under; name it"
                )
        return Workflow(fn, name, self._queue, self._priority, self._deadline_us)


@overload
def workflow(fn: Callable[P, Coroutine[Any, Any, R]], /) -> Workflow[P, R]: ...
@overload
def workflow(
    *,
    name: str | None = None,
    queue: str = "default",
    priority: int = 5,
    deadline: Duration | None = None,
) -> _WorkflowMaker: ...
def workflow(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    queue: str = "default",
    priority: int = 5,
    deadline: Duration | None = None,
) -> Any:
    """Make an `async def` a workflow: a function whose runs survive their process.

    `deadline` counts from the start of the run; `priority` 0 is claimed first, 9 last.

    >>> @workflow(deadline="7d")
    ... async def greet(name: str) -> str:
    ...     return f"hello {name}"
    >>> greet
    <workflow greet>
    """
    checked_count(priority, "priority", 0, 9)
    deadline_us = None if deadline is None else microseconds(deadline, "deadline")
    maker = _WorkflowMaker(name, checked_name(queue, "queue"), priority, deadline_us)
    return maker if fn is None else maker(fn)


class Registry:
    """The workflows an app knows, by name."""

    def __init__(self, workflows: Iterable[Workflow[Any, Any]]) -> None:
        self._by_name: dict[str, Workflow[Any, Any]] = {}
        if isinstance(workflows, Workflow) or not isinstance(workflows, Iterable):
            raise BadName("workflows", repr(workflows), "give a list: workflows=[...]")
        for each in workflows:
            if not isinstance(each, Workflow):
                raise BadName("workflows", repr(each), "give functions decorated with @workflow")
            if self._by_name.get(each.name, each) is not each:
                raise BadName("workflow", each.name, "two workflows of one app share this name")
            self._by_name[each.name] = each

    def __getitem__(self, name: str) -> Workflow[Any, Any]:
        return self._by_name[name]

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def names(self, queue: str) -> tuple[str, ...]:
        """Return the names of the workflows of a queue."""
        return tuple(w.name for w in self._by_name.values() if w.queue == queue)

    def queues(self) -> tuple[str, ...]:
        """Return the queues these workflows are put into."""
        return tuple(dict.fromkeys(w.queue for w in self._by_name.values()))

    def all_names(self) -> tuple[str, ...]:
        """Return every name, for messages."""
        return tuple(self._by_name)


def quoted(name: str) -> str:
    """Return a free name as a part of an identity, where '/' and '#' have a meaning."""
    if "/" in name or "#" in name or "%" in name:
        return name.replace("%", "%25").replace("/", "%2F").replace("#", "%23")
    return name


def _name_of(fn: Callable[..., Any]) -> str:
    return str(getattr(fn, "__name__", ""))


def _hints(fn: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(fn)
    except NameError as error:
        raise BadPayload(
            f"the annotations of '{fn.__name__}'", f"{error}; define the type at module level"
        ) from error


def _itself(value: Any) -> Any:
    return value


def _input_model(name: str, signature: inspect.Signature, hints: dict[str, Any]) -> type:
    """Make the type of a workflow's arguments: a struct with a field a parameter."""
    fields: list[Any] = []
    for parameter in signature.parameters.values():
        kind = hints.get(parameter.name, Any)
        if parameter.default is parameter.empty:
            fields.append((parameter.name, kind))
        else:
            default = msgspec.field(default_factory=partial(_itself, parameter.default))
            fields.append((parameter.name, kind, default))
    return msgspec.defstruct(name, fields, forbid_unknown_fields=True, kw_only=True)
