"""Documentation that can be checked is checked: every example of a page runs, every doctest too.

Examples of one page share their names, in the order they are read, and run in an empty folder.
One that must not run says so, with its reason, in a line before it: `<!-- not run: why -->`.
"""

from __future__ import annotations

import ast
import asyncio
import doctest
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import perdure

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLE = re.compile(
    r"(?P<not_run><!-- not run: .+? -->\n+)?^```python\n(?P<code>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
AWAITS = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
MODULES = ["perdure", *(m.name for m in pkgutil.walk_packages(perdure.__path__, "perdure."))]


def examples(text: str, name: str) -> list[ast.Module]:
    """Return the examples of a page, with the line numbers that they have there."""
    found = []
    for match in EXAMPLE.finditer(text):
        if not match["not_run"]:
            above = text.count("\n", 0, match.start("code"))
            found.append(compile("\n" * above + match["code"], name, "exec", AWAITS))
    return found


def run(codes: list[ast.Module]) -> None:
    """Run the examples of a page; what awaits at its top runs on an event loop."""
    names: dict[str, object] = {"__name__": "__main__"}
    try:
        for code in codes:
            running = eval(code, names)
            if inspect.iscoroutine(running):
                asyncio.run(running)
    finally:
        for value in names.values():
            if isinstance(value, perdure.App):
                value.close()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_example_of_a_page_runs(page, tmp_path, monkeypatch):
    """In the order they stand there, as a reader would type them."""
    monkeypatch.chdir(tmp_path)
    run(examples(page.read_text(encoding="utf-8"), str(page)))


def test_the_readme_has_examples():
    """Were there none, they would all run."""
    assert examples((ROOT / "README.md").read_text(encoding="utf-8"), "README.md")


def test_a_broken_example_is_seen():
    """Wherever it stands, with the line it has on its page; one that is not to run does not."""
    page = "# A\n\n```python\nx = 1\n```\n\n```python\nassert x == 2\n```\n"
    with pytest.raises(AssertionError) as failed:
        run(examples(page, "page.md"))
    assert str(failed.traceback[-1].path).endswith("page.md")
    assert failed.traceback[-1].lineno + 1 == 8
    run(examples(page.replace("```python\nassert", "<!-- not run: why -->\n```python\nassert"), ""))
    with pytest.raises(AssertionError):
        run(examples("```python\nimport asyncio\nawait asyncio.sleep(0)\nassert 0\n```\n", ""))


def doctests(module: object) -> list[doctest.DocTest]:
    """Return the doctests of a module; examples that await at their top are only compiled."""
    found = []
    for test in doctest.DocTestFinder(exclude_empty=True).find(module):
        for example in list(test.examples):
            code = compile(example.source, test.name, "exec", AWAITS)
            if code.co_flags & inspect.CO_COROUTINE:
                test.examples.remove(example)
        found.append(test)
    return found


@pytest.mark.parametrize("name", MODULES)
def test_the_doctests_of_a_module_hold(name):
    """What a docstring shows is what one sees."""
    if name.endswith("__main__"):
        return
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    said: list[str] = []
    for test in doctests(importlib.import_module(name)):
        runner.run(test, out=said.append)
    assert not runner.failures, "".join(said)


def test_a_wrong_doctest_is_seen():
    """The value that one sees is not the value that is shown."""
    test = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, 0)
    assert doctest.DocTestRunner().run(test, out=str.strip).failed == 1


SHOWN = [name for name in perdure.__all__ if inspect.isfunction(getattr(perdure, name))]


@pytest.mark.parametrize("name", [*SHOWN, "App"])
def test_what_a_user_calls_has_an_example(name):
    """In its docstring, where an editor shows it."""
    assert ">>> " in (getattr(perdure, name).__doc__ or "")
