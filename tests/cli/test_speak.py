"""`approve`, `signal`, `cancel`: what is said to runs, once and twice."""


def waiting(shell, workflow):
    run_id = shell.start(workflow)
    shell.begin("work", "shop:app")
    shell.reaches(run_id, "waiting")
    return run_id


def test_yes_is_said_once(shell):
    """The only open gate needs no name; a second answer changes nothing and is no error."""
    run_id = waiting(shell, "pay")
    assert shell.json("approve", run_id, "--by", "ada") == {
        "run_id": run_id,
        "gate": "release payment",
        "changed": True,
    }
    assert "nothing changed" in shell.said("approve", run_id, "release payment")
    shell.reaches(run_id, "succeeded")
    assert "ada" in shell.said("events", run_id)
    assert shell.json("show", run_id)["result"] is True


def test_no_is_said_with_a_note(shell):
    """The workflow sees the rejection, and its note stands in the error."""
    run_id = waiting(shell, "pay")
    assert "rejected" in shell.said("approve", run_id, "--no", "--note", "too dear")
    shell.reaches(run_id, "failed")
    assert "too dear" in shell.json("show", run_id)["error"]["message"]


def test_an_answer_the_workflow_could_not_read_is_refused(shell):
    """By the gate's schema, before anything is written: the run goes on waiting."""
    run_id = waiting(shell, "judge")
    assert "boolean, not object" in shell.refused("approve", run_id, code=2)
    assert "'pay' is missing" in shell.refused("approve", run_id, "--answer", "{}", code=2)
    assert shell.status(run_id) == "waiting"
    shell.said("approve", run_id, "pay/or not", "--answer", '{"pay": true}')
    shell.reaches(run_id, "succeeded")


def test_a_signal_with_an_id_counts_once(shell):
    """Told to a run that waits, it wakes it; the same id again is no new signal."""
    run_id = waiting(shell, "listen")
    told = ("signal", run_id, "price", "7", "--id", "offer-1")
    assert shell.json(*told) == {"run_id": run_id, "signal": "price", "changed": True}
    shell.reaches(run_id, "succeeded")
    assert shell.json("show", run_id)["result"] == 7
    assert shell.json(*told)["changed"] is False


def test_cancel_is_refused_when_it_is_too_late(shell):
    """A run that nobody holds ends at once; one that is over refuses, with exit code 1."""
    run_id = shell.start("nap")
    canceled = shell.json("cancel", run_id, "--reason", "changed my mind")
    assert canceled == {"run_id": run_id, "status": "canceled"}
    assert "'Cancel' is not possible now" in shell.refused("cancel", run_id, code=1)
    assert "changed my mind" in shell.said("show", run_id)


def test_a_gate_that_is_not_there_is_refused(history):
    """With the gates that are."""
    run_id = history.ids["pay"]
    assert "'release payment'" in history.refused("approve", run_id, "pay", code=1)
    assert "none is open" in history.refused("approve", history.ids["listen"], code=1)


def test_contradictions_are_usage_errors(history):
    """A no has no answer, and a note belongs to a no."""
    run_id = history.ids["pay"]
    history.refused("approve", run_id, "--no", "--answer", "1", code=2)
    history.refused("approve", run_id, "--note", "so", code=2)
    history.refused("signal", run_id, "price", "cheap", code=2)
