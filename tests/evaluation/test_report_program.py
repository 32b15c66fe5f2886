"""The program that an image contains; tests/contract/test_evaluate.py runs it to its end on two hosts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from xsft.evaluation.report import IN_POD
from xsft.workers.delivery import ARCHIVE, FOLDER_IN_IMAGE, pod_argv, programs_archive, programs_digest


@pytest.mark.parametrize(("content", "held"), [(programs_archive() + b" ", "has sha256 "), (b"", "is missing")])
def test_pod_refuses_a_program_other_than_the_planned_one(tmp_path: Path, content: bytes, held: str) -> None:
    archive = tmp_path / ARCHIVE
    if content:
        archive.write_bytes(content)
    _, *named = pod_argv(IN_POD, {}, (), carried=programs_digest())
    argv = [word.replace(FOLDER_IN_IMAGE, str(tmp_path)) for word in named]
    done = subprocess.run((sys.executable, "-I", *argv), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert held in done.stderr
    assert f"the plan expects sha256 {programs_digest()}" in done.stderr
