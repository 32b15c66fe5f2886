"""The lines a person copies out of a plan are the argv that the plan means."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.localruns import local_plan
from tests.replacing import replace
from tests.stories import NAMES, ROOT, intent_of, spec_of
from xsft.base.problems import Problem, error, note, warning
from xsft.planning.planner import make_plan
from xsft.spec.yamltext import load_yaml
from xsft.verbs.plan_text import plan_text, shell_line, summary

WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=12)
ARGVS = st.lists(
    st.sampled_from(["python3", "-m", "a=b", "--c=d e", "it's", "\\", "\n", "$X", "`x`"]) | WORDS, min_size=1
)


def _as_bash_reads(lines: list[str]) -> list[tuple[str, ...]]:
    script = "\n".join(f"show {line}" for line in lines)
    show = "show() { printf '%s\\0' \"$@\"; printf '\\1\\0'; }\n"
    done = subprocess.run(("bash",), input=(show + script).encode(), capture_output=True, check=True)
    return [tuple(part.split("\0")[:-1]) for part in done.stdout.decode().split("\1\0")[:-1]]


def test_a_copied_shell_line_is_the_argv() -> None:
    """Drawn first, read by one bash."""
    drawn: list[tuple[str, ...]] = []

    @settings(database=None)
    @given(argv=ARGVS.filter(lambda words: not any("\x01" in word for word in words)))
    def draw(argv: list[str]) -> None:
        drawn.append(tuple(argv))

    draw()
    assert _as_bash_reads([shell_line(argv) for argv in drawn]) == drawn


@pytest.mark.parametrize("name", NAMES)
def test_the_shell_lines_of_a_plan_are_its_argvs(name: str) -> None:
    """One flag a line: the module first, then a key each."""
    intent = intent_of(spec_of(name))
    argvs = [argv for argv in (intent.trainer_argv, intent.xpk_argv, intent.conversion_argv) if argv]
    assert _as_bash_reads([shell_line(argv) for argv in argvs]) == argvs
    first = shell_line(intent.trainer_argv).splitlines()[0]
    assert first.startswith("python3 ")
    assert first.endswith("-m maxtext.trainers.post_train.sft.train_sft \\")


def test_a_plan_without_a_manifest_is_printed_in_part() -> None:
    text = plan_text(make_plan(intent_of(spec_of("deepseek_ultrachat")), rendered=None, file="a.yaml"))
    assert text.startswith("# a.yaml\n")
    assert "## xpk\n" in text
    assert "## audit" not in text
    assert text.endswith("\n")


def test_the_plan_of_a_local_run_names_its_image(tmp_path: Path) -> None:
    lines = plan_text(local_plan(tmp_path, image__ref="h.example.com/team/image:1")).splitlines()
    assert "place       this machine, in a container of h.example.com/team/image:1" in lines
    assert "\nplace       this machine\n" in plan_text(local_plan(tmp_path))


def flagship(**how: Any) -> str:
    manifest = load_yaml((ROOT / "tests" / "golden" / "deepseek_ultrachat.manifest.yaml").read_text())
    return plan_text(make_plan(intent_of(spec_of("deepseek_ultrachat")), rendered=manifest, file="a.yaml"), **how)


def test_all_of_a_plan_begins_with_a_dozen_lines_that_say_whether_it_is_ready() -> None:
    head = flagship().partition("\n\n")[0].splitlines()
    assert len(head) <= 15
    labels = [line.split()[0] for line in head[1:]]
    assert labels[0] == "ready"
    assert {"model", "data", "steps", "fits", "restarts", "secrets", "slices"} <= set(labels)
    assert "steps       1000 of 524,288 tokens (512 sequences of 1,024), a checkpoint every 100" in head
    assert any(line.startswith("fits        yes: ") for line in head)


def ready(*problems: Problem) -> str:
    plan = make_plan(intent_of(spec_of("deepseek_ultrachat")), rendered=None, file="a.yaml")
    return dict(summary(replace(plan, problems=problems)))["ready"]


def test_the_line_ready_names_the_problems_that_refuse_plan_and_submit() -> None:
    accepted = note("image-not-pinned", "", "a tag (accepted: ours do not move)")
    assert ready(accepted) == "yes"
    assert ready(warning("grace-period", "", "short", "")) == "yes, with 1 warning (grace-period)"
    assert (
        ready(warning("image-not-pinned", "", "a tag", "", kind="open"))
        == "not yet: submit would refuse it (image-not-pinned)"
    )
    both = (error("does-not-fit", "", "no", ""), error("env-name", "", "no", ""))
    assert ready(*both, accepted) == "no: 2 errors (does-not-fit, env-name)"


def test_the_audit_is_printed_as_counts_unless_requested() -> None:
    assert "FIELD" not in flagship()
    assert "(--audit shows each field)" in flagship()
    assert "FIELD" in flagship(audit=True)


def test_text_is_wrapped_to_the_terminal_and_commands_are_not() -> None:
    text = flagship(width=80)
    lines = text.splitlines()
    copied = lines.index("## xpk"), lines.index("## its environment")
    assert [line for line in (*lines[: copied[0]], *lines[copied[1] :]) if len(line) > 80 and " " in line.strip()] == []
    assert shell_line(intent_of(spec_of("deepseek_ultrachat")).trainer_argv) in text
