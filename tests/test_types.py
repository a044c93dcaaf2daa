"""The two judges that read the source: the types and the style."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(
    "judge",
    [
        ["mypy"],
        ["ruff", "check", "--no-cache", "."],
        ["ruff", "format", "--no-cache", "--check", "."],
    ],
    ids=["mypy", "ruff-check", "ruff-format"],
)
def test_the_source_is_clean(judge, tmp_path):
    """`mypy --strict` and ruff, by the rules of pyproject.toml, find nothing."""
    done = subprocess.run(
        [sys.executable, "-m", *judge],
        check=False,
        cwd=ROOT,
        env=os.environ | {"MYPY_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stdout + done.stderr
