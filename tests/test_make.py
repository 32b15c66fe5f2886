"""The targets that people type, as make understands them; nothing is run."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.stories import ROOT


def told(*arguments: str, word: str = "xsft image") -> list[str]:
    make = shutil.which("make")
    if make is None:
        pytest.skip("no make here")
    done = subprocess.run((make, "-n", *arguments), cwd=ROOT, capture_output=True, text=True, check=True)
    lines = done.stdout.replace("\\\n", "").splitlines()
    return [" ".join(line.split()) for line in lines if word in line]


def test_make_image_push_is_one_call_of_xsft_image_push() -> None:
    line = ".venv/bin/xsft image push --image=post_training"
    assert told("image", "push") == told("-j4", "push", "image") == told("push") == [line]


def test_registry_place_image_and_further_options_are_passed_on() -> None:
    settings = ("REGISTRY=127.0.0.1:5000/team", "IMAGE=mine", "ARGS=--code ./mine")
    assert told("push", *settings) == [
        ".venv/bin/xsft image push --image=mine --registry=127.0.0.1:5000/team --code ./mine"
    ]
    assert told("image", "PLACE=main") == [".venv/bin/xsft image build --image=post_training --place=main"]


@pytest.mark.parametrize("tool", ["maxtext_release", "xpk_release"])
def test_a_release_command_passes_its_settings_on_and_runs_tests_that_exist(tool: str) -> None:
    settings = ("VERSION=1.2.3", "FACTS=a=true b=false", "DEFAULT=yes")
    (command,) = told(tool.replace("_", "-"), *settings, word=tool)
    given = "1.2.3 a=true b=false DEFAULT=yes" if tool == "maxtext_release" else "1.2.3"
    assert command == f".venv/bin/python -m tests.tools.{tool} {given}"
    *_, tests = told(tool.replace("_", "-"), *settings, word="-m pytest")
    paths = [ROOT / word for word in tests.split() if word.startswith("tests/")]
    assert len(paths) > 1
    assert all(path.exists() for path in paths)
