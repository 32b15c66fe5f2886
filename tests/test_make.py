"""The targets that people type, as make understands them; nothing is run."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.stories import ROOT


def told(*arguments: str) -> list[str]:
    make = shutil.which("make")
    if make is None:
        pytest.skip("no make here")
    done = subprocess.run((make, "-n", *arguments), cwd=ROOT, capture_output=True, text=True, check=True)
    return [" ".join(line.split()) for line in done.stdout.splitlines() if "xsft image" in line]


def test_image_push_is_one_push_which_asks_before_it_builds() -> None:
    line = ".venv/bin/xsft image push --image=post_training"
    assert told("image", "push") == told("-j4", "push", "image") == told("push") == [line]


def test_registry_place_image_and_further_options_are_passed_on() -> None:
    settings = ("REGISTRY=127.0.0.1:5000/team", "IMAGE=mine", "ARGS=--code ./mine")
    assert told("push", *settings) == [
        ".venv/bin/xsft image push --image=mine --registry=127.0.0.1:5000/team --code ./mine"
    ]
    assert told("image", "PLACE=main") == [".venv/bin/xsft image build --image=post_training --place=main"]
