"""`xsft plan` on a terminal: one screen with the verdict last, and its parts to copy."""

from __future__ import annotations

import shlex

import pytest
import yaml

from tests.inprocess import xsft
from tests.stories import ROOT
from tests.test_workloads import STORIES
from tests.verbs.terminals import seen
from xsft.environments.installed import BuiltEnvironment

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("xpk_environment")]

CLUSTER_STORIES = [name for name in STORIES if "local" not in name]
PROMPT = 1
"""Rows of the shell's next prompt."""


def file_of(name: str) -> str:
    return str(ROOT / "workloads" / f"{name}.yaml")


@pytest.mark.parametrize("name", CLUSTER_STORIES)
def test_the_plan_of_a_shipped_workload_fits_one_screen_and_ends_with_its_verdict(name: str) -> None:
    screen = seen("plan", file_of(name), "--offline")
    assert len(screen.lines) + PROMPT <= 30
    assert [line for line in screen.lines if len(line) > 100] == []
    assert screen.lines[-1].startswith("not ready: image-not-pushed, checkpoint-unread (2 warnings, ")
    assert screen.colours > 0
    summary = screen.lines[: screen.lines.index("")]
    assert len(summary) <= 18
    assert any(line.startswith("xpk         xpk workload create") and "--xpk prints it" in line for line in summary)


def test_a_narrow_terminal_breaks_no_command_and_no_colour_is_used_if_it_is_not_wanted() -> None:
    screen = seen("plan", file_of("qwen3_gsm8k"), "--offline", columns=80, rows=24, env={"NO_COLOR": "1"})
    assert all(len(line) <= 80 or " " not in line.strip() for line in screen.lines)
    piped = xsft("plan", file_of("qwen3_gsm8k"), "--offline").stdout
    assert "\x1b" not in piped
    assert " ".join(piped.split()) == " ".join(" ".join(screen.lines).split())


def test_each_part_is_printed_alone_to_be_copied(xpk_environment: BuiltEnvironment) -> None:
    def part(name: str) -> str:
        return xsft("plan", file_of("deepseek_ultrachat"), "--offline", f"--{name}").stdout.replace(" \\\n", " ")

    assert shlex.split(part("xpk"))[:3] == ["xpk", "workload", "create-pathways"]
    environment, trainer = shlex.split(part("trainer"))[:3], shlex.split(part("trainer"))[3:]
    assert [word.partition("=")[0] for word in environment] == [
        "JAX_PLATFORMS",
        "JAX_BACKEND_TARGET",
        "ENABLE_PATHWAYS_PERSISTENCE",
    ]
    assert trainer[:2] == ["python3", "-c"]
    assert yaml.safe_load(part("manifest"))["kind"] == "JobSet"
    assert "FIELD" in part("audit")
    assert "## xpk" in part("all")
    assert part("xpk").strip() in part("all")
