"""What users write: the two decorators, what they leave alone, and what they refuse."""

from __future__ import annotations

import asyncio
import inspect
from functools import partial

import msgspec
import pytest

from perdure import App, approval, gather, retry, sleep, step, wait_for, workflow
from perdure.core.checks import checked_name
from perdure.core.errors import BadName, BadPayload, NotInRun
from perdure.core.limits import NAME_CHARACTERS
from perdure.workflow import Registry


class Order(msgspec.Struct):
    """What is bought."""

    item: str


@step
async def double(n: int) -> int:
    """Twice as much."""
    return 2 * n


@step(name="blocking double", timeout="2m", retry=retry(3, on=(ConnectionError, OSError)))
def blocking(n: int = 2) -> int:
    return 2 * n


@workflow
async def quadruple(n: int) -> int:
    """Four times as much."""
    return await double(await double(n))


# outside a run


def test_a_step_outside_a_run_is_just_the_function():
    """A unit test of it needs nothing of perdure, in either colour."""
    assert asyncio.run(double(2)) == 4
    assert blocking(2) == blocking() == 4
    assert inspect.iscoroutinefunction(double.fn)


def test_a_workflow_outside_a_run_is_just_the_function():
    """With its steps, which are just functions there too."""
    assert asyncio.run(quadruple(2)) == 8


def test_what_is_decorated_keeps_its_name_and_its_promise():
    """For whoever reads the documentation, or a traceback."""
    assert (double.__name__, double.__doc__) == ("double", "Twice as much.")
    assert (quadruple.__name__, quadruple.__doc__) == ("quadruple", "Four times as much.")
    assert [repr(it) for it in (double, blocking, quadruple)] == [
        "<step double>",
        "<step blocking double>",
        "<workflow quadruple>",
    ]
    assert list(inspect.signature(quadruple).parameters) == ["n"]


@pytest.mark.parametrize(
    "verb", [lambda: sleep("1s"), lambda: wait_for("go"), lambda: approval("tea")]
)
def test_what_belongs_to_a_run_is_refused_outside_of_one(verb):
    """With a sentence that says where it has a meaning."""
    with pytest.raises(NotInRun, match="has a meaning only inside a workflow that runs"):
        asyncio.run(verb())


def test_a_steps_key_is_refused_outside_of_its_body():
    """Nothing that would not be the same the next time is handed out."""
    with pytest.raises(NotInRun, match=r"step\.key exists only inside the body of a step"):
        _ = step.key


def test_gather_outside_a_run_leaves_its_branches_to_their_caller():
    """It refuses before it takes them."""
    branch = double(1)

    async def calls():
        with pytest.raises(NotInRun, match="gather has a meaning only inside a workflow"):
            await gather(branch)
        return await branch

    assert asyncio.run(calls()) == 2


# what is refused when it is written


@pytest.mark.parametrize(
    ("write", "why"),
    [
        (lambda: step(name="")(double.fn), "step '' is not usable: a name has 1 to 200"),
        (lambda: step(name="a\nb")(double.fn), "a name is made of printable characters"),
        (lambda: step(name="x" * 201)(double.fn), "a name has 1 to 200 characters"),
        (lambda: step(timeout="soon")(double.fn), "timeout 'soon' is not usable"),
        (lambda: step(timeout=-1)(double.fn), "timeout '-1' is not usable"),
        (lambda: step(partial(blocking.fn, 2)), "step '' is not usable"),
        (lambda: step(3), "@step decorates a function; options are keywords"),
        (lambda: workflow(name=" ")(quadruple.fn), "workflow ' ' is not usable"),
        (
            lambda: workflow(priority=10)(quadruple.fn),
            r"priority '10' .*: a whole number from 0 to 9",
        ),
        (lambda: workflow(priority=-1)(quadruple.fn), "priority '-1' is not usable"),
        (lambda: workflow(deadline="never")(quadruple.fn), "deadline 'never' is not usable"),
        (lambda: workflow(queue="")(quadruple.fn), "queue '' is not usable"),
        (lambda: workflow(blocking.fn), "is an 'async def'; put blocking code in a step"),
        (lambda: retry(-1), "retries '-1' .*from 0 to"),
        (lambda: retry(1, factor=0.5), "factor '0.5' .*from 1 to"),
        (lambda: retry(1, jitter=2), "jitter '2' .*from 0 to 1"),
        (lambda: retry(1, first="soon"), "first 'soon' is not usable"),
    ],
)
def test_what_cannot_be_meant_is_refused_where_it_is_written(write, why):
    """With the name of the option and what it may be, before anything runs."""
    with pytest.raises(BadName, match=why):
        write()


def test_a_workflow_names_its_parameters():
    """They are stored by name, so none may be without one."""

    async def many(*numbers: int) -> None: ...

    async def named(**numbers: int) -> None: ...

    for fn, shown in ((many, r"\*numbers"), (named, r"\*\*numbers")):
        with pytest.raises(BadName, match=f"{shown}.* has no name to be stored under"):
            workflow(fn)


def test_a_policy_of_retries_is_data():
    """Read from what was written, with the defaults of everything else."""
    policy = retry(5, on=ConnectionError, first="500ms", factor=3, longest="1m", jitter=0)
    assert policy.on == (ConnectionError,)
    backoff = policy.backoff
    assert (backoff.retries, backoff.first_s, backoff.factor) == (5, 0.5, 3)
    assert (backoff.longest_s, backoff.jitter) == (60, 0)
    assert blocking.policy.on == (ConnectionError, OSError)
    assert (double.policy.backoff.retries, double.timeout_s, blocking.timeout_s) == (0, None, 120)


# names and types


@pytest.mark.parametrize("name", ["a", "release payment", "50% / #1", "ü", "x" * NAME_CHARACTERS])
def test_a_name_is_whatever_can_be_shown(name):
    """Not only an identifier: people read it."""
    assert checked_name(name, "step") == name


@pytest.mark.parametrize("name", ["", "  ", "a\x00", "tab\t", "\u202eevil", 7, None])
def test_a_name_that_cannot_be_shown_is_refused(name):
    """Nothing that hides, and nothing that is no text."""
    with pytest.raises(BadName, match=r"^step "):
        checked_name(name, "step")


def test_the_arguments_of_a_workflow_are_stored_by_name():
    """As JSON that any language can write, and read back as the declared types."""

    async def buy(order: Order, count: int = 1, tags: tuple[str, ...] = ()) -> None: ...

    buys = workflow(buy)
    packed = buys.pack_input((Order("tea"),), {"tags": ("a",)})
    assert bytes(packed) == b'{"order":{"item":"tea"},"tags":["a"]}'
    assert buys.unpack_input(packed) == {"order": Order("tea"), "count": 1, "tags": ("a",)}


def test_a_parameter_without_a_type_takes_any_json():
    """What is not declared is not checked."""

    async def loose(a, b=None) -> None: ...

    looses = workflow(loose)
    assert looses.unpack_input(looses.pack_input(([1, "x"],), {})) == {"a": [1, "x"], "b": None}


def test_a_field_that_no_parameter_has_is_refused():
    """An input written by hand is checked like any other."""
    with pytest.raises(BadPayload, match=r"the input of 'quadruple': .*unknown field `m`"):
        quadruple.unpack_input(msgspec.Raw(b'{"n":1,"m":2}'))


def test_a_type_that_cannot_be_found_is_refused_with_advice():
    """One that is defined inside a function is not there when perdure looks for it."""

    class Local(msgspec.Struct):
        item: str

    async def buys(order: Local) -> None: ...

    with pytest.raises(BadPayload, match="define the type at module level"):
        workflow(buys).pack_input((Local("tea"),), {})


# the list of an app


def test_an_app_knows_its_workflows_by_name():
    """And the queues they are put into."""
    other = workflow(name="other", queue="slow")(quadruple.fn)
    registry = Registry([quadruple, other, quadruple])
    assert registry.all_names() == ("quadruple", "other")
    assert (registry.names("default"), registry.names("slow")) == (("quadruple",), ("other",))
    assert registry.queues() == ("default", "slow")
    assert registry["other"] is other
    assert "quadruple" in registry
    assert "double" not in registry


@pytest.mark.parametrize(
    ("workflows", "why"),
    [
        ([quadruple, workflow(name="quadruple")(double.fn)], "two workflows of one app share"),
        ([double], "give functions decorated with @workflow"),
        ([quadruple.fn], "give functions decorated with @workflow"),
    ],
)
def test_what_an_app_cannot_know_apart_is_refused(workflows, why):
    """When the app is made, with the one that is in the way."""
    with pytest.raises(BadName, match=why):
        App("memory://", workflows)
