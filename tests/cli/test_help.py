"""What the command says of itself, and how little it imports to say it."""

import subprocess
import sys

import pytest

from perdure.cli import commands

COMMANDS = (
    *("demo", "run", "work", "list", "show", "explain", "events", "verify"),
    *("approve", "signal", "cancel"),
)


def test_help_lists_every_command(shell):
    """With and without being asked for help, and each with a line of its own."""
    asked, unasked = shell.said("--help"), shell.said()
    assert asked == unasked
    for name in COMMANDS:
        assert any(line.split()[:1] == [name] for line in asked.splitlines())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_where_the_table_says(name):
    """It is imported, bears its name, and explains itself and each of its options."""
    command = commands.get_command(None, name)
    assert command.name == name
    assert command.help
    for parameter in command.params:
        assert parameter.param_type_name == "argument" or parameter.hidden or parameter.help


@pytest.mark.parametrize("arguments", [["--help"], ["list"]])
def test_a_pipe_needs_no_rich(history, arguments):
    """What draws on terminals is not imported where nobody looks."""
    program = f"import sys; from perdure.cli import answer; answer({arguments}); assert 'rich' "
    done = subprocess.run(
        [sys.executable, "-c", program + "not in sys.modules"],
        cwd=history.folder,
        env={"PERDURE_STORE": "sqlite:///runs.db"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_version(shell):
    """The version is the package's."""
    assert shell.said("--version").startswith("perdure 0.")


def test_an_unknown_command_is_a_usage_error(shell):
    """Exit code 2 and the way to the list."""
    assert "perdure --help" in shell.refused("lits", code=2)
