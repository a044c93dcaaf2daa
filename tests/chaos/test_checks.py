"""The checks of the chaos proof bite: each is shown an offence, and the same without it."""

import msgspec
import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from perdure import profiles
from perdure.core import events as e
from perdure.core.events import Entry
from perdure.core.run import unborn
from perdure.core.states import CANCELED, FAILED, QUEUED, RUNNING, SUCCEEDED
from perdure.testing import chaos
from perdure.testing.chaos_checks import (
    Finding,
    Promise,
    Watch,
    check_answers,
    check_end,
    check_log,
    check_marks,
    check_recovery,
    check_returned,
)
from perdure.testing.chaos_round import Round
from perdure.testing.errand import labels_of, read_marks
from perdure.testing.tally import tally

WORKER = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
OTHER = "01BX5ZZKBKACTAV9WEVGEMMVRZ"


def marks(*lines):
    return read_marks("".join(f"{line}\n" for line in lines))


def says(findings, *words):
    assert len(findings) == len(words), findings
    for finding, word in zip(findings, words, strict=True):
        assert word in finding.what


# Marks


def test_a_second_beginning_is_no_offence_before_the_return():
    """A body that a kill cut off begins again under the next claim, and then returns."""
    sound = marks("began r a 1 1 -", "began r a 2 2 -", "returned r a 2 2 a:1", "began r b 2 2 -")
    assert check_marks(sound, ()) == []


def test_a_beginning_after_the_return_is_seen():
    """By the same process or another, under the same claim or a later one."""
    for again in ("began r a 1 1 -", "began r a 2 1 -", "began r a 2 2 -"):
        says(check_marks(marks("returned r a 1 1 a:1", again), ()), "began again")


def test_only_a_stopped_process_may_begin_late():
    """And only under a claim older than the one under which the result was returned."""
    late = marks("returned r a 2 2 a:1", "began r a 1 1 -")
    assert check_marks(late, {1}) == []
    says(check_marks(late, {2}), "began again")
    says(check_marks(marks("returned r a 2 2 a:1", "began r a 1 2 -"), {1}), "began again")


def test_two_results_of_one_step_are_seen():
    """The same result twice is what a memory is for; another one is a step that ran again."""
    assert check_marks(marks("returned r a 1 1 a:1", "returned r a 2 2 a:1"), ()) == []
    says(check_marks(marks("returned r a 1 1 a:1", "returned r a 2 2 a:2"), ()), "later a:2")


# Ends


def an_end(state, **changed):
    run = replace(unborn("t", "r", profiles.get("standard")), state=state, **changed)
    return replace(run, finished_at=1) if state in {SUCCEEDED, FAILED, CANCELED} else run


def a_result(n):
    values = {label: f"{label}:1" for label in labels_of(n)}
    values["release"] = True
    return values | ({"go": f"go:{n}"} if "go" in values else {})


def test_a_missing_run_and_an_open_one_are_seen():
    """What was acknowledged must be there, and over."""
    says(check_end(Promise("r", 0), None, None), "not there")
    says(check_end(Promise("r", 0), an_end(RUNNING), None), "not over but running")
    says(check_end(Promise("r", 0), an_end(FAILED), None), "ended as failed")


def test_an_end_is_judged_by_what_was_asked():
    """A canceled run must have been canceled; a signal's payload must have arrived."""
    assert check_end(Promise("r", 3, canceled=True), an_end(CANCELED), None) == []
    says(check_end(Promise("r", 3), an_end(CANCELED), None), "ended as canceled")
    assert check_end(Promise("r", 1, signal="go:1"), an_end(SUCCEEDED), a_result(1)) == []
    says(check_end(Promise("r", 1, signal="go:2"), an_end(SUCCEEDED), a_result(1)), "go = 'go:1'")


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"left": "right:1"}, "left = 'right:1'"),
        ({"release": False}, "release = False"),
        ({"more": 1}, "its result is"),
    ],
)
def test_a_wrong_result_is_seen(changed, word):
    """A value of another step, another answer, a step too many."""
    assert check_end(Promise("r", 0), an_end(SUCCEEDED), a_result(0)) == []
    says(check_end(Promise("r", 0), an_end(SUCCEEDED), a_result(0) | changed), word)


# Logs


def log(*rows):
    """Rows of (actor, event, ...), numbered without a gap."""
    entries, seq = [], 0
    for actor, *events in rows:
        first, seq = seq + 1, seq + len(events)
        entries.append(Entry("t", "r", first, seq, 0, QUEUED, actor, f"door.{seq}", tuple(events)))
    return entries


CREATED = ("user", e.RunCreated(1, "errand", "default", 5))
STARTED = (WORKER, e.RunStarted(2, WORKER, 1))
STEP = (WORKER, e.StepStarted(3, "a", 3), e.StepSucceeded(3, "a", msgspec.Raw(b'"a:1"')))
ENDED = (WORKER, e.RunSucceeded(9))
LOST = ("engine", e.RunInterrupted(4, WORKER))


def test_a_sound_log_is_sound():
    """A start, a loss, a second owner, an end."""
    second = (OTHER, e.RunStarted(5, OTHER, 2))
    assert check_log("r", log(CREATED, STARTED, STEP, LOST, second, (OTHER, *ENDED[1:]))) == []


@pytest.mark.parametrize(
    ("rows", "word"),
    [
        ((), "no log"),
        ((CREATED, STARTED, STEP, STEP), "which had ended"),
        ((CREATED, STARTED, LOST, (OTHER, e.RunStarted(5, OTHER, 1))), "token 1 after 1"),
        ((CREATED, STARTED, LOST, STEP), "did not hold the run"),
        ((CREATED, STARTED, LOST, (OTHER, e.RunStarted(3, OTHER, 2))), "older than"),
        ((CREATED, STARTED, ENDED, ("user", e.SignalReceived(9, "go", e.EMPTY))), "after the end"),
    ],
)
def test_an_unsound_log_is_seen(rows, word):
    """A step that moves after its end, a token that does not grow, a former owner's word."""
    assert any(word in finding.what for finding in check_log("r", log(*rows)))


def test_a_gap_in_a_log_is_seen():
    """A row that is missing in the middle, and one that holds fewer events than it says."""
    whole = log(CREATED, STARTED, STEP, ENDED)
    says(check_log("r", [whole[0], *whole[2:]]), "after event 1", "did not hold", "did not hold")
    says(check_log("r", [*whole[:2], replace(whole[2], last_seq=9)]), "after event 2")


def test_a_result_that_is_not_in_the_log_is_seen():
    """`await` returned it, so it must have been durable by then."""
    logs = {"r": log(CREATED, STARTED, STEP)}
    assert check_returned(marks("returned r a 1 1 a:1"), logs) == []
    says(check_returned(marks("returned r a 1 1 a:2"), logs), "no event holds")


def test_a_second_answer_that_counts_is_seen():
    """Asking twice is allowed, changing something twice is not."""
    assert check_answers([("r", True), ("r", False)]) == []
    says(check_answers([("r", True), ("r", True)]), "2 answers")


# Time


def test_a_run_that_stands_still_is_seen():
    """Held or claimable and unchanged for longer than allowed; one that waits may wait."""
    watch = Watch(10.0)
    held = an_end(RUNNING, worker=WORKER)
    ahead = an_end(QUEUED, wants_at=9_000)
    for run in (held, replace(ahead, id="ahead")):
        watch.see(run, 0.0, 0)
    assert watch.stuck(10.0) == []
    says(watch.stuck(10.1), "stood still for 10.1 s")
    watch.see(replace(held, version=1), 10.1, 0)
    watch.see(replace(ahead, id="ahead"), 10.1, 9_000)
    assert watch.stuck(20.0) == []
    watch.see(replace(an_end(SUCCEEDED), version=2), 20.0, 0)
    says(watch.stuck(20.2), "stood still for 10.1 s")


def test_a_recovery_that_took_a_lease_is_seen():
    """The lock of a dead process is free at once."""
    assert check_recovery(0.4, 5.0) == []
    says(check_recovery(10.1, 5.0), "10.1 s")


def test_a_finding_comes_with_its_evidence(monkeypatch, tmp_path):
    """Exit status 1, the seed, the run and its events; without one, 0 and a table."""

    async def a_round(folder, **asked):
        found = [Finding("it is odd", "r")] if asked["workers"] == 2 else []
        logs = {"r": log(CREATED, STARTED)}
        return Round(
            asked["seed"], tally(logs, [], workers=1, left=0, stops=0, took_s=1.0), found, logs
        )

    monkeypatch.setattr(chaos, "chaos_round", a_round)
    asked = ["--seed", "7", "--folder", str(tmp_path)]
    wrong = CliRunner().invoke(chaos.main, asked)
    assert wrong.exit_code == 1
    for word in ("seed 8: run r: it is odd", "run.started", WORKER, "1 wrong", "--seed 7"):
        assert word in wrong.output
    sound = CliRunner().invoke(chaos.main, [*asked, "--workers", "1", "--json"])
    assert sound.exit_code == 0
    assert '"findings": []' in sound.output
