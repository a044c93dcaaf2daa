"""What goes wrong at the edges: no store, nobody reads, somebody is impatient."""


def test_without_a_store_one_is_shown(shell):
    """As an option and as a variable, ready to be typed."""
    said = shell.refused("list", code=2, PERDURE_STORE="")
    assert "--store sqlite:///runs.db" in said
    assert "export PERDURE_STORE=sqlite:///runs.db" in said


def test_a_store_that_cannot_be_is_said(shell):
    """A file that is not there is not made by a look, and memory is nobody else's."""
    assert "there is no file" in shell.refused("list", "--store", "sqlite:///no.db", code=2)
    assert not (shell.folder / "no.db").exists()
    assert "in the process" in shell.refused("list", "--store", "memory://", code=2)
    assert "no store perdure knows" in shell.refused("list", "--store", "mysql://x", code=2)
    (shell.folder / "no.db").write_text("no database, but a text that is long enough to be one")
    assert "not a SQLite database" in shell.refused("list", "--store", "sqlite:///no.db", code=2)


def test_a_run_that_is_not_there_is_said(history):
    """By every command that is about one, with what to do."""
    for command in ("show", "explain", "events", "cancel", "approve"):
        assert "'perdure list' shows" in history.refused(command, "nothing", code=2)


def test_debug_shows_where_it_happened(history):
    """The traceback is there for whoever asks for it."""
    done = history("show", "nothing", PERDURE_DEBUG="1")
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "NoSuchRun" in done.stderr


def test_nobody_reads_is_no_error(shell):
    """A closed pipe ends the command without a word."""
    run_id = shell.start("listen")
    stream = shell.begin("events", "--follow", run_id)
    stream.stops_listening()
    shell.said("signal", run_id, "anything")
    assert stream.ends() == (141, "")
    assert stream.said() == ""


def test_ctrl_c_is_quiet(history):
    """Exit code 130 and nothing that looks like a defect."""
    stream = history.begin("events", "--follow", history.ids["listen"])
    stream.prints()
    stream.hears(2)
    assert stream.ends()[0] == 130
    assert stream.said().strip() == ""
