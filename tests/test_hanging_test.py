"""A test that hangs ends its stage and says where it hung: CI shows that instead of its own time limit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.stories import ROOT

pytestmark = pytest.mark.contract


def test_hanging_test_is_named_and_ends_the_run(tmp_path: Path) -> None:
    hangs = tmp_path / "test_that_hangs.py"
    hangs.write_text("import threading\n\n\ndef test_it():\n    threading.Event().wait()\n", encoding="utf-8")
    argv = (sys.executable, "-m", "pytest", "-q", "-c", str(ROOT / "pyproject.toml"), "-o", "faulthandler_timeout=1")
    done = subprocess.run((*argv, str(hangs)), cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1
    assert f'File "{hangs}", line 5 in test_it' in done.stderr
