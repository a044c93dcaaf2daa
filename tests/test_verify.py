"""`verify` finds what was changed behind the door's back, and nothing in what was not."""

from __future__ import annotations

import asyncio
import threading
from contextlib import closing

import pytest
from msgspec.structs import replace

from perdure import App, approval, gather, retry, step, verify, wait_for, workflow
from perdure.core import commands as c
from perdure.core.errors import NoSuchRun
from perdure.core.run import OpenStep
from perdure.profiles import names
from perdure.stores.memory import MemoryStore
from perdure.stores.sqlite import SqliteStore
from perdure.verify import KINDS, Finding, Report, verify_run, verify_store
from tests.stores.lives import (
    LIVES,
    answered,
    asked_to_stop,
    canceled,
    canceled_early,
    failed,
    finished,
    held,
    long_run,
    queued,
    released,
    signaled,
    waiting,
)
from tests.stores.world import T, World, change


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "runs.db")


@pytest.fixture
def world(path):
    with closing(SqliteStore(path)) as store:
        yield World(store)


@pytest.fixture
def in_memory():
    return World(MemoryStore())


def found(world, run_id):
    return [finding.what for finding in verify_run(world.store, T, run_id).findings]


# What is sound


@pytest.mark.parametrize("life", LIVES)
@pytest.mark.parametrize("kind", ["sqlite", "memory"])
def test_a_run_that_the_door_has_written_is_sound(life, kind, request):
    """Whatever has happened to it, and whether or not its row lags behind."""
    world = request.getfixturevalue({"sqlite": "world", "memory": "in_memory"}[kind])
    run_id = life(world)
    report = verify_run(world.store, T, run_id)
    assert report == Report(1, report.entries, report.events, ())
    assert report.events == world.store.find(T, run_id).run.version


def test_every_kind_of_life_is_sound_side_by_side(world):
    """All of them in one store; the report counts what it has read."""
    ids = [life(world) for life in LIVES]
    done = []
    report = verify_store(world.store, T, progress=done.append)
    assert report.sound
    assert done == list(range(1, len(ids) + 1))
    assert report.runs == len(LIVES)
    assert report.entries == sum(len(world.store.entries(T, run_id)) for run_id in ids)
    assert report.events == sum(world.store.find(T, run_id).run.version for run_id in ids)


@pytest.mark.parametrize("profile", names())
def test_a_run_of_every_profile_is_sound(world, profile):
    """Created, taken if its words have that, lost with its worker: by whatever policy it has."""
    run_id = world.start(profile=profile)
    if profile != "approval":  # whose steps are lost by their own time
        world.claim(run_id)
        world.later(60).sweep()
    assert verify_store(world.store, T).findings == ()


def test_another_tenant_s_runs_are_not_looked_at(world):
    """A report is about one tenant."""
    finished(world)
    assert verify_store(world.store, "other") == Report(0, 0, 0, ())


def test_a_run_that_is_not_there_is_refused(world):
    """One cannot be sound about nothing."""
    with pytest.raises(NoSuchRun):
        verify_run(world.store, T, "nothing")


def test_small_pages_lead_to_the_same_report(world, monkeypatch):
    """Nothing is read twice or left out where a page ends, of runs or of the log."""
    for life in (finished, long_run, waiting, long_run, queued):
        life(world)
    whole = verify_store(world.store, T)
    monkeypatch.setattr(verify, "PAGE_ENTRIES", 7)
    monkeypatch.setattr(verify, "PAGE_RUNS", 2)
    assert verify_store(world.store, T) == whole
    assert whole.runs == 5


# What was changed by hand: the life of the run, what was done to it, what verify finds

ROW = [
    (finished, "update runs set state = 'failed'", "head differs"),
    (finished, "update runs set state = 'queued'", "head differs"),
    (finished, "update runs set token = token + 1", "head differs"),
    (finished, "update runs set started_at = null", "head differs"),
    (finished, "update runs set finished_at = finished_at + 1", "head differs"),
    (finished, "update runs set workflow = 'another'", "head differs"),
    (finished, "update runs set created_at = created_at - 1", "head differs"),
    (finished, "update runs set trace_id = 'x'", "head differs"),
    (queued, "update runs set wants_at = wants_at + 1", "head differs"),
    (queued, "update runs set claim_at = null", "head differs"),
    (queued, "update runs set claim_rank = 0", "head differs"),
    (queued, "update runs set priority = 4", "head differs"),
    (queued, "update runs set deadline = 9", "head differs"),
    (queued, "update runs set queue = 'other'", "head differs"),
    (waiting, "update runs set due_at = null", "head differs"),
    (answered, "update runs set claim_at = claim_at + 1", "head differs"),
    (finished, "update runs set body = '{\"tries\":2}'", "body differs"),
    (waiting, "update runs set body = '{}'", "body differs"),
    (released, "update runs set updated_at = updated_at - 1", "body differs"),
    (signaled, "update runs set body = json_remove(body, '$.signals')", "body differs"),
    (finished, "update runs set body = '{'", "row unreadable"),
    (finished, "update runs set profile = 'nobody'", "row unreadable"),
    (finished, "update runs set version = version + 1", "log ends early"),
    (finished, "update runs set version = version - 1", "row behind its log"),
    (finished, "update runs set version = 3", "row behind its log"),
    (waiting, "update runs set version = version - 1", "row behind its log"),
    (waiting, "update runs set version = version + 3", "log ends early"),
    (finished, "delete from runs", "row missing"),
]
LOG = [
    (finished, "delete from log where seq = 1", "gap in the log"),
    (finished, "delete from log where seq = 3", "gap in the log"),
    (finished, "delete from log where seq = 7", "log ends early"),
    (waiting, "delete from log where seq = 5", "log ends early"),
    (queued, "delete from log", "log ends early"),
    (finished, "update log set seq = 4 where seq = 3", "gap in the log"),
    (finished, "update log set last_seq = 8 where seq = 7", "wrong count of events"),
    (finished, "update log set events = '[]' where seq = 5", "wrong count of events"),
    (finished, "update log set events = 'gone' where seq = 5", "log row unreadable"),
    (finished, "update log set was = 'ready' where seq = 2", "state before differs"),
    (finished, "update log set at = at + 1 where seq = 5", "moment differs"),
    (
        finished,
        """insert into log
        select tenant, run, 4, 4, at, was, actor, command_id, '[]' from log where seq = 3""",
        "overlap in the log",
    ),
    (
        finished,
        """update log set at = 5, events = json_set(events, '$[0].at', 5, '$[1].at', 5)
        where seq = 5""",
        "time runs backwards",
    ),
    (
        finished,
        "update log set events = replace(events, 's#2', 's#1') where seq = 5",
        "step ran again",
    ),
]
# An event of another type inside a row: (life, row, its type, the other type, finding)
TYPES = [
    (finished, 2, "run.started", "run.claimed", "unlawful event"),
    (finished, 7, "run.succeeded", "run.canceled", "unlawful event"),
    (finished, 7, "run.succeeded", "run.waiting", "unsound state"),
    (finished, 7, "run.succeeded", "run.created", "log row unreadable"),
    (finished, 3, "step.succeeded", "step.started", "log row unreadable"),
    (finished, 3, "step.started", "step.reclaimed", "log row unreadable"),
    (finished, 3, "step.succeeded", "step.released", "body differs"),
    (finished, 3, "step.succeeded", "step.unheard_of", "log row unreadable"),
    (waiting, 5, "run.waiting", "run.succeeded", "unsound state"),
    (answered, 7, "run.wait_completed", "run.released", "unlawful event"),
    (canceled_early, 2, "run.canceled", "run.timed_out", "head differs, body differs"),
]
DATA = [
    (finished, "update run_data set input = '{}'", "input differs"),
    (queued, "update run_data set input = '{}'", "input differs"),
    (finished, "update run_data set result = '1'", "result differs"),
    (finished, "update run_data set result = null", "outcome differs"),
    (finished, "update run_data set error = '{}'", "outcome differs"),
    (failed, "update run_data set error = null", "outcome differs"),
    (canceled, "update run_data set result = '1'", "outcome differs"),
    (held, "update run_data set result = '1'", "outcome differs"),
    (finished, "delete from run_data", "payloads missing"),
]
# On a run that is held, its row at event 2 and three rows of two events after it
HELD = [
    (held, "delete from log where seq = 5", "gap in the log"),
    (held, "delete from log where seq = 2", "gap in the log"),
    (held, "update runs set token = token + 1", "head differs"),
    (held, "update runs set state = 'cancel_requested'", "head differs"),
    (held, "update runs set due_at = 5", "head differs"),
    (held, "update runs set started_at = started_at + 1", "head differs"),
    (held, "update runs set body = '{\"losses\":1}'", "body differs"),
    (held, "update runs set updated_at = updated_at + 1", "body differs"),
    (held, "update runs set version = 3", "version inside a log row"),
    (held, "update runs set version = 4", "body differs"),
    (held, "update runs set version = 99", "log ends early"),
    (asked_to_stop, "update runs set body = json_remove(body, '$.asked')", "head differs"),
    (held, "delete from workers", "holder unknown"),
]


@pytest.mark.parametrize(("life", "statement", "what"), [*ROW, *LOG, *DATA, *HELD])
def test_what_a_shell_has_changed_is_found(world, path, life, statement, what):
    """One thing was changed and one thing is found, beside a run to which nothing was done."""
    run_id = life(world)
    change(path, statement)
    bystander = finished(world)
    assert found(world, run_id) == [what]
    report = verify_store(world.store, T)
    if what != "row missing":  # then nothing lists it any more
        assert [(it.run_id, it.what) for it in report.findings] == [(run_id, what)]
    assert found(world, bystander) == []


@pytest.mark.parametrize(("life", "row", "was", "becomes", "what"), TYPES)
def test_an_event_of_another_type_is_found(world, path, life, row, was, becomes, what):
    """The law does not have it there, or the run's row does not agree with what it would mean."""
    run_id = life(world)
    before = f'"type":"{was}"'
    change(
        path,
        "update log set events = replace(events, ?, ?) where seq = ? and instr(events, ?)",
        *(before, f'"type":"{becomes}"', row, before),
    )
    assert ", ".join(found(world, run_id)) == what


def test_every_kind_of_finding_has_been_found():
    """All that verify can say is said by a test here."""
    cases = {row[-1] for row in (*ROW, *LOG, *DATA, *HELD)} | {row[-1] for row in TYPES[:-1]}
    assert cases | {"tail too long"} == set(KINDS)


@pytest.mark.parametrize(
    ("steps", "output"), [(64, b"1"), (100, b"1"), (1, b'"' + b"x" * 300_000 + b'"')]
)
def test_a_tail_over_its_limit_is_found(world, path, steps, output):
    """A row that was not written again when it should have been: by rows, or by bytes."""
    run_id = world.start()
    world.claim(run_id)
    with closing(world.store._reader.execute("select version, updated_at, body from runs")) as row:
        old = row.fetchone()
    world.steps(run_id, *(f"s#{number}" for number in range(steps)), output=output)
    assert found(world, run_id) == []
    change(path, "update runs set version = ?, updated_at = ?, body = ?", *old)
    assert found(world, run_id) == ["tail too long"]


def test_a_row_restored_from_an_old_copy_is_found(world, path):
    """The log has gone on and let go of the run; the row still believes that it is held."""
    run_id = held(world, steps=1)
    columns = "state, token, worker, claim_at, due_at, version, finished_at, updated_at, body"
    with closing(world.store._reader.execute(f"select {columns} from runs")) as row:
        old = row.fetchone()
    world.finish(run_id)
    assignments = ", ".join(f"{column} = ?" for column in columns.split(", "))
    change(path, f"update runs set {assignments}", *old)
    assert found(world, run_id) == ["row behind its log"]


def test_one_row_that_cannot_be_read_hides_no_other(world, path):
    """Whole pages go on beside it, whatever its place in them."""
    ids = [finished(world) for _ in range(5)]
    change(path, "update runs set body = '{' where id in (?, ?)", ids[1], ids[4], rows=2)
    change(path, "update runs set token = 9 where id = ?", ids[2])
    report = verify_store(world.store, T)
    assert report.runs == 5
    assert {it.run_id: it.what for it in report.findings} == {
        ids[4]: "row unreadable",
        ids[2]: "head differs",
        ids[1]: "row unreadable",
    }


def test_a_finding_names_both_sides(world, path):
    """Whoever reads it sees what the row says and what the log says."""
    run_id = queued(world)
    change(path, "update runs set token = 7, queue = 'other'")
    (finding,) = verify_run(world.store, T, run_id).findings
    assert finding == Finding(
        run_id,
        "head differs",
        "queue is 'other' in the row, 'q' by the log; token is 7 in the row, 0 by the log",
    )


def test_a_finding_is_no_longer_than_one_can_read(world, path):
    """A value that is long is cut; the row and the log are there to be looked at."""
    run_id = queued(world)
    change(path, "update runs set queue = ?", "x" * 10_000)
    (finding,) = verify_run(world.store, T, run_id).findings
    assert len(finding.detail) < 200


# The same in memory, where a row is a value in a dictionary


def spoil_state(store, key):
    store.rows[key] = replace(store.rows[key], state="failed")


def spoil_version(store, key):
    store.rows[key] = replace(store.rows[key], version=5)


def spoil_body(store, key):
    store.rows[key] = replace(store.rows[key], open=(OpenStep("ghost#1", "running"),))


def lose_log_row(store, key):
    del store.log[key][3]


def lose_last_log_row(store, key):
    del store.log[key][7]


def spoil_event(store, key):
    row = store.log[key][2]
    store.log[key][2] = row._replace(events=row.events.replace("run.started", "run.claimed"))


def break_event(store, key):
    store.log[key][2] = store.log[key][2]._replace(events="{")


def lose_payloads(store, key):
    del store.data[key]


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (spoil_state, "head differs"),
        (spoil_version, "row behind its log"),
        (spoil_body, "body differs"),
        (lose_log_row, "gap in the log"),
        (lose_last_log_row, "log ends early"),
        (spoil_event, "unlawful event"),
        (break_event, "log row unreadable"),
        (lose_payloads, "payloads missing"),
    ],
)
def test_what_was_changed_in_memory_is_found(in_memory, spoil, what):
    """Verify asks any store the same questions."""
    run_id = finished(in_memory)
    spoil(in_memory.store, (T, run_id))
    assert found(in_memory, run_id) == [what]
    assert [it.what for it in verify_store(in_memory.store, T).findings] == [what]


# While the store is in use


class Restless:
    """A store whose run moves on after looks at it: from the first on, or from a later one."""

    def __init__(self, world, run_id, moves, looks):
        self._world, self._run_id, self._moves = world, run_id, moves
        self._looks, self._seen = looks, 0

    def __getattr__(self, name):
        read = getattr(self._world.store, name)

        def read_and_move_on(*asked, **said):
            answer = read(*asked, **said)
            if self._seen in self._looks:
                self._moves(self._world, self._run_id, self._seen)
            self._seen += 1
            return answer

        return read_and_move_on


def by_a_step(world, run_id, number):
    """The log goes on and the row does not."""
    world.steps(run_id, f"more#{number}")


def by_many_steps(world, run_id, number):
    """The row is written in between as well, and lags again."""
    world.steps(run_id, *(f"more#{number}.{each}" for each in range(70)))


def by_a_change_of_hands(world, run_id, number):
    """The row changes at each step, and so does who holds it."""
    world.do(run_id, c.Release(world.token(run_id)))
    world.claim(run_id)
    world.steps(run_id, f"more#{number}")


def by_a_handover_and_a_goodbye(world, run_id, number):
    """And whoever held it before is not registered any more."""
    before = world.store.find(T, run_id).run.worker
    by_a_change_of_hands(world, run_id, number)
    world.leave(before)


@pytest.mark.parametrize(
    "looks", [[0], [1], [2], [3], [4], range(3), range(4), range(100)], ids=str
)
@pytest.mark.parametrize(
    "moves", [by_a_step, by_many_steps, by_a_change_of_hands, by_a_handover_and_a_goodbye]
)
@pytest.mark.parametrize("kind", ["sqlite", "memory"])
def test_a_run_that_moves_on_meanwhile_is_sound(request, kind, moves, looks):
    """However often it does: only what was true at one moment is compared."""
    world = request.getfixturevalue({"sqlite": "world", "memory": "in_memory"}[kind])
    run_id = held(world)
    assert verify_run(Restless(world, run_id, moves, looks), T, run_id).findings == ()


@pytest.mark.parametrize("looks", [range(2), range(100)], ids=str)
@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("update log set was = 'ready' where seq = 2", "state before differs"),
        ("update runs set trace_id = 'x'", "head differs"),
    ],
)
def test_a_run_that_moves_on_and_is_wrong_is_found(world, path, statement, what, looks):
    """What is wrong stays wrong while the run moves on, and is not taken for a movement."""
    run_id = held(world)
    change(path, statement)
    restless = Restless(world, run_id, by_a_change_of_hands, looks)
    assert [it.what for it in verify_run(restless, T, run_id).findings] == [what]


@pytest.mark.parametrize("look", range(5))
def test_a_run_that_ends_meanwhile_is_sound(world, look):
    """Its payloads and its holder are those of one moment, too."""
    run_id = held(world)
    restless = Restless(world, run_id, lambda *_: world.finish(run_id), [look])
    assert verify_run(restless, T, run_id).findings == ()


@step
async def add(left: int, right: int) -> int:
    await asyncio.sleep(0)
    return left + right


@step(retry=retry(3, on=ConnectionError, first="1ms", jitter=0))
async def flaky(number: int) -> int:
    if step.key not in tried:
        tried.add(step.key)
        raise ConnectionError("not the first time")
    return number


tried: set[str] = set()


@workflow
async def busy(number: int) -> int:
    """Steps one after the other and side by side, some of which fail at first."""
    total = 0
    for each in range(12):
        total = await add(total, each)
        if each % 4 == 3:
            total += sum(await gather(add(1, 1), flaky(number), add(2, 2)))
    return total


@workflow
async def asking() -> str:
    return await wait_for("word", str, within="1h") + str(await approval("go on", bool))


@workflow
async def hopeless() -> None:
    raise ValueError("it was never going to work")


def test_a_store_at_work_is_sound_all_the_while(path):
    """Fifty runs under way, looked at again and again through its own handle and another."""
    reports, done = [], threading.Event()

    def look(app, other):
        while not done.is_set():
            reports.extend(verify_store(store, "default") for store in (other, app.store))

    async def work():
        async with App(f"sqlite:////{path}", workflows=[busy, asking, hopeless]) as app:
            looking = asyncio.create_task(asyncio.to_thread(look, app, other))
            runs = [await app.start(busy, number) for number in range(50)]
            await app.start(asking)
            await app.start(hopeless)
            for run in runs:
                await run.result()
            done.set()
            await looking

    with closing(SqliteStore(path)) as other:
        asyncio.run(work())
        last = verify_store(other, "default")
    assert [report for report in reports if not report.sound] == []
    assert len(reports) >= 4
    assert any(report.entries < last.entries for report in reports)  # it was at work meanwhile
    assert last.sound
    assert last.runs == 52


# What it says


def test_a_sound_report_is_one_line():
    """With all that was looked at."""
    assert str(Report(1204, 14882, 31022, ())) == (
        "1,204 runs, 14,882 log rows, 31,022 events: sound."
    )
    assert str(Report(1, 1, 1, ())) == "1 run, 1 log row, 1 event: sound."
    assert str(Report(0, 0, 0, ())) == "0 runs, 0 log rows, 0 events: sound."


def test_a_report_shows_the_first_findings_and_counts_the_rest():
    """A line each, and no more than one can read."""
    one = Finding("run-1", "gap in the log", "after event 2 comes the row 5 to 6")
    assert str(Report(2, 3, 4, (one,))) == (
        "2 runs, 3 log rows, 4 events: 1 finding.\n"
        "  run run-1: gap in the log: after event 2 comes the row 5 to 6"
    )
    lines = str(Report(2, 3, 4, (one,) * 60, more=1000)).split("\n")
    assert lines[0] == "2 runs, 3 log rows, 4 events: 1,060 findings."
    assert len(lines) == 52
    assert lines[-1] == "  … and 1,010 more."


def test_findings_beyond_the_limit_are_counted(world, path, monkeypatch):
    """A store that is wrong throughout does not fill the memory of whoever looks at it."""
    for _ in range(5):
        queued(world)
    change(path, "update runs set token = 7", rows=5)
    monkeypatch.setattr(verify, "FINDINGS_KEPT", 2)
    report = verify_store(world.store, T)
    assert (len(report.findings), report.more, report.sound) == (2, 3, False)
    assert str(report).startswith("5 runs, 5 log rows, 5 events: 5 findings.")
