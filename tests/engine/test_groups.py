"""A group is one transaction, and each command in it stands alone."""

from __future__ import annotations

from perdure.core import commands as c
from perdure.core.errors import LostLease, NoSuchRun, NotAllowed, RunExists
from perdure.engine.asks import Do, Done, Outcome, Started, Take
from tests.engine.world import ONE, S, T, finish, signal, succeed


def accepted(outcomes: list[Outcome]) -> list[bool]:
    return [outcome.error is None for outcome in outcomes]


def test_commands_of_one_run_are_one_write_of_its_row(world):
    """Each has a row of the log; the run's row is written once, as the last of them left it."""
    run_id = world.started()
    outcomes = world.door.commit([signal(run_id) for _ in range(5)])
    assert accepted(outcomes) == [True] * 5
    assert (len(world.store.last.rows), len(world.store.last.log)) == (1, 5)
    assert world.run(run_id).version == 6


def test_commands_of_one_run_see_each_other_in_order(world):
    """A wait that opens takes the signal before it in the same group."""
    run = world.held("W")
    wait = c.OpenWait(run.token, c.Wait("go", "signal", "go"))
    asks = [signal(run.id), Do(T, run.id, wait, "W"), signal(run.id)]
    answers = [outcome.answer.events[-1] for outcome in world.door.commit(asks)]
    assert [event.__struct_config__.tag for event in answers] == [
        "signal.received",
        "step.succeeded",
        "signal.received",
    ]


def test_a_refused_command_leaves_the_others_untouched(world):
    """Before it and after it, of the same run and of others; each is told its own answer."""
    one, two = world.started(), world.started()
    cancel = Do(T, one, c.Cancel("enough"), "me")
    asks = [signal(one), cancel, cancel, signal(two), signal("no-such-run"), signal(one)]
    outcomes = world.door.commit(asks)
    assert accepted(outcomes) == [True, True, False, True, False, False]
    assert [type(outcome.error) for outcome in outcomes if outcome.error] == [
        NotAllowed,
        NoSuchRun,
        NotAllowed,
    ]
    assert world.types(one) == ["run.created", "signal.received", "run.canceled"]
    assert world.types(two) == ["run.created", "signal.received"]


def test_what_changes_nothing_writes_nothing(world):
    """A second approval, a tick too early, a step that is dropped twice: accepted, and no row."""
    run = world.held("W")
    asks = [
        Do(T, run.id, c.Approve("gate", ONE), "me"),
        Do(T, run.id, c.Tick(), "me"),
        Do(T, run.id, c.DropStep(run.token, "a"), "W"),
    ]
    assert [outcome.answer.events for outcome in world.door.commit(asks)] == [[], [], []]
    assert world.store.last[:2] == ([], [])


def test_a_run_can_be_spoken_to_in_the_group_that_creates_it(world):
    """Who chose the id need not wait for the answer."""
    asks = [world.start(run_id="run-0001"), signal("run-0001"), world.start(run_id="run-0001")]
    outcomes = world.door.commit(asks)
    assert outcomes[0].answer == Started("run-0001", attached=False)
    assert outcomes[1].answer.run.version == 2
    assert isinstance(outcomes[2].error, RunExists)
    assert len(world.store.last.rows) == 1


def test_a_run_is_not_claimed_twice_in_a_group(world):
    """Two workers ask at once; the first gets the run, the second nothing."""
    world.registered("A")
    world.registered("B")
    world.started()
    first, second = world.door.commit([Take("A", "q", ("w",), 9), Take("B", "q", ("w",), 9)])
    assert [claimed.run.worker for claimed in first.answer] == ["A"]
    assert second.answer == []


def test_a_run_that_was_canceled_in_the_same_group_is_not_claimed(world):
    """The store still shows it as it was; the group knows better."""
    run_id = world.started()
    world.registered("A")
    asks = [Do(T, run_id, c.Cancel(), "me"), Take("A", "q", ("w",), 9)]
    assert world.door.commit(asks)[1].answer == []


def test_claims_come_in_order_and_no_more_than_asked_for(world):
    """The urgent first, then what has waited longest; the input comes with the run."""
    world.registered("A")
    ids = []
    for value in range(3):
        world.clock.passes(1)
        ids.append(world.started(value=value))
    claimed = world.claims("A", limit=2)
    assert [it.run.id for it in claimed] == ids[:2]
    assert bytes(claimed[1].input) == b'{"n":1}'


def test_a_row_of_the_log_says_who_when_and_from_where(world):
    """So that a reader needs no replay; every command has a name that no other one has."""
    run_id = world.started()
    world.clock.passes(1)
    world.door.commit([signal(run_id), signal(run_id)])
    entries = world.store.entries(T, run_id)
    assert [(it.seq, it.last_seq, it.was, it.actor) for it in entries] == [
        (1, 1, "unborn", "me"),
        (2, 2, "queued", "somebody"),
        (3, 3, "queued", "somebody"),
    ]
    assert [it.at - entries[0].at for it in entries] == [0, S, S]
    assert len({it.command_id for it in entries}) == 3


def test_the_outcome_is_stored_with_the_end_and_only_with_it(world):
    """A finish that is refused leaves no result behind."""
    run = world.held("W")
    late = Do(T, run.id, c.Finish(run.token + 1, ONE), "W", output=ONE)
    assert isinstance(world.door.commit([late])[0].error, LostLease)
    assert world.store.payloads(T, run.id).result is None
    world.do(run.id, finish(run))
    assert bytes(world.store.payloads(T, run.id).result) == b"1"


def test_an_id_is_a_ulid_of_the_doors_own_clock(world):
    """26 characters that sort by the time they were made in, from the dice that were handed in."""
    ids = []
    for _ in range(3):
        ids.append(world.started())
        world.clock.passes(1)
    assert sorted(ids) == ids
    assert {len(run_id) for run_id in ids} == {26}


def test_the_same_world_gives_the_same_answers(world, tmp_path):
    """With clock and dice as arguments, a door can be played again."""
    from perdure.stores.memory import MemoryStore
    from tests.engine.world import Clock, World

    logs = []
    for each in (world, World(MemoryStore(), Clock())):
        run = each.held("W", run_id="run-0001")
        each.step(run, "a")
        each.do(run.id, finish(run))
        logs.append(each.store.entries(T, "run-0001"))
    assert logs[0] == logs[1]


def test_who_listens_hears_what_was_committed(world):
    """Changes of state and what others say; not the steps of a run by its own holder."""
    heard = []
    world.door.listeners.append(heard.extend)
    run = world.held("W")
    world.step(run, "a")
    world.door.commit([signal(run.id)])
    assert [(it.run.state, it.foreign) for it in heard] == [
        ("queued", True),
        ("running", False),
        ("running", True),
    ]


def test_a_listener_that_fails_harms_nobody(world, caplog):
    """What is committed stays so, its caller is answered, and the other listeners are told."""
    heard = []

    def fails(changes):
        raise RuntimeError("not now")

    world.door.listeners += [fails, heard.extend]
    assert isinstance(world.do(world.started(), c.Cancel()), Done)
    assert [it.run.state for it in heard] == ["queued", "canceled"]
    assert "the commit stands" in caplog.text


def test_many_steps_of_many_runs_are_one_group(world):
    """Every run's report is a row of the log, and no row of a run is touched."""
    runs = [world.held(f"W{n}") for n in range(20)]
    outcomes = world.door.commit([Do(T, run.id, succeed(run, "a"), "W") for run in runs])
    assert accepted(outcomes) == [True] * 20
    assert (len(world.store.last.rows), len(world.store.last.log)) == (0, 20)
