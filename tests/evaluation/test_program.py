"""The program that an image contains; tests/contract/test_evaluate.py runs it to its end on two hosts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from xsft.workers.evaluation_archive import ARCHIVE, IN_POD, program_archive, program_digest
from xsft.workers.sent import carried_argv


@pytest.mark.parametrize(("content", "held"), [(program_archive() + b" ", "has sha256 "), (b"", "is missing")])
def test_pod_refuses_a_program_other_than_the_planned_one(tmp_path: Path, content: bytes, held: str) -> None:
    archive = tmp_path / ARCHIVE
    if content:
        archive.write_bytes(content)
    _, *argv = carried_argv(IN_POD, {}, (), archive=str(archive), sha256=program_digest())
    done = subprocess.run((sys.executable, "-I", *argv), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert held in done.stderr
    assert f"the plan expects sha256 {program_digest()}" in done.stderr
