"""The lines a person copies out of a plan are the argv that the plan means."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.localruns import local_plan
from tests.stories import NAMES, intent_of, spec_of
from xsft.commands.plan_text import plan_text, shell_line
from xsft.planner import make_plan

WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=12)
ARGVS = st.lists(
    st.sampled_from(["python3", "-m", "a=b", "--c=d e", "it's", "\\", "\n", "$X", "`x`"]) | WORDS, min_size=1
)


def _as_bash_reads(lines: list[str]) -> list[tuple[str, ...]]:
    script = "\n".join(f"show {line}" for line in lines)
    show = "show() { printf '%s\\0' \"$@\"; printf '\\1\\0'; }\n"
    done = subprocess.run(("bash",), input=(show + script).encode(), capture_output=True, check=True)
    return [tuple(part.split("\0")[:-1]) for part in done.stdout.decode().split("\1\0")[:-1]]


def test_a_copied_line_is_the_argv() -> None:
    """Drawn first, read by one bash."""
    drawn: list[tuple[str, ...]] = []

    @settings(max_examples=200, database=None)
    @given(argv=ARGVS.filter(lambda words: not any("\x01" in word for word in words)))
    def draw(argv: list[str]) -> None:
        drawn.append(tuple(argv))

    draw()
    assert _as_bash_reads([shell_line(argv) for argv in drawn]) == drawn


@pytest.mark.parametrize("name", NAMES)
def test_a_plans_lines_are_its_argvs(name: str) -> None:
    """One flag a line: the module first, then a key each."""
    intent = intent_of(spec_of(name))
    argvs = [argv for argv in (intent.trainer_argv, intent.xpk_argv, intent.conversion_argv) if argv]
    assert _as_bash_reads([shell_line(argv) for argv in argvs]) == argvs
    first = shell_line(intent.trainer_argv).splitlines()[0]
    assert first.startswith("python3 ")
    assert first.endswith("-m maxtext.trainers.post_train.sft.train_sft \\")


def test_a_plan_without_a_manifest_says_what_it_can() -> None:
    text = plan_text(make_plan(intent_of(spec_of("deepseek_ultrachat")), rendered=None, file="a.yaml"))
    assert text.startswith("# a.yaml\n")
    assert "## xpk\n" in text
    assert "## audit" not in text
    assert text.endswith("\n")


def test_a_local_run_names_the_image_it_goes_into(tmp_path: Path) -> None:
    lines = plan_text(local_plan(tmp_path, image__ref="h.example.com/team/image:1")).splitlines()
    assert "image       h.example.com/team/image:1, in a container on this machine" in lines
    assert "\nimage " not in plan_text(local_plan(tmp_path))
