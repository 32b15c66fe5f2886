"""The nightly job of the guide: its own shell lines, run, with an xsft that ends as it is told."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from xsft.base.names import run_name_limit
from xsft.spec.explain import read_spec
from xsft.spec.yamltext import load_yaml
from xsft.verbs.cli import parser

ROOT = Path(__file__).parent.parent
WORKFLOW = ROOT / "docs" / "examples" / "nightly.yaml"
GUIDE = ROOT / "docs" / "guides" / "nightly.md"
ACTIONLINT = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.7"

STUB = """\
#!/bin/sh
printf '%s\\n' "$*" >> calls
echo '{"schema": "xsft.run/1"}'
status=$(head -n 1 statuses)
sed -i 1d statuses
exit "$status"
"""


@dataclass
class Host:
    folder: Path

    def run(self, script: str, *statuses: int, **env: str) -> subprocess.CompletedProcess[str]:
        (self.folder / "statuses").write_text("".join(f"{s}\n" for s in statuses))
        environment = {"PATH": f"{self.folder}/bin:{os.environ['PATH']}", "HOME": str(self.folder), **env}
        argv = ("bash", "-eo", "pipefail", "-c", script)
        return subprocess.run(
            argv, cwd=self.folder / "xsft", env=environment, capture_output=True, text=True, check=False
        )

    @property
    def calls(self) -> list[list[str]]:
        return [shlex.split(line) for line in (self.folder / "xsft" / "calls").read_text().splitlines()]

    @property
    def pauses(self) -> str:
        return (self.folder / "pauses").read_text() if (self.folder / "pauses").exists() else ""


@pytest.fixture
def host(tmp_path: Path) -> Host:
    programs = {
        "xsft/.venv/bin/xsft": STUB.replace("statuses", "../statuses"),
        "bin/sleep": '#!/bin/sh\nprintf "%s " "$1" >> "$HOME/pauses"\n',
        "bin/date": '#!/bin/sh\ntest "$*" = "-u +%Y%m%d" && echo 20261121\n',
        "bin/logger": '#!/bin/sh\necho "$*" > "$HOME/logged"\n',
    }
    for name, text in programs.items():
        program = tmp_path / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(text)
        program.chmod(0o755)
    return Host(tmp_path)


def workflow() -> dict[str, Any]:
    document: dict[str, Any] = load_yaml(WORKFLOW.read_text(encoding="utf-8"))
    return document


def step(name: str) -> dict[str, Any]:
    named_step: dict[str, Any] = next(s for s in workflow()["jobs"]["run"]["steps"] if s.get("name") == name)
    return named_step


def test_every_action_is_pinned_by_its_commit() -> None:
    used = re.findall(r"uses: (\S+)(.*)", WORKFLOW.read_text(encoding="utf-8"))
    assert len(used) == 5
    assert all(
        re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action) and re.fullmatch("  # v[0-9.]+", tag) for action, tag in used
    )


def submitted(host: Host, *statuses: int, asked: str = "") -> subprocess.CompletedProcess[str]:
    chosen = step("Run")
    env = {"WORKLOAD": chosen["env"]["WORKLOAD"], "MINUTES": str(chosen["env"]["MINUTES"]), "ASKED": asked}
    return host.run(chosen["run"], *statuses, **env)


@pytest.mark.parametrize(
    ("statuses", "status", "calls", "pauses"),
    [
        ((0,), 0, 1, ""),
        ((2,), 2, 1, ""),
        ((3,), 3, 1, ""),
        ((4,), 4, 1, ""),
        ((6,), 6, 1, ""),
        ((7,), 7, 1, ""),
        ((5, 0), 0, 2, "60 "),
        ((8, 5, 0), 0, 3, "60 300 "),
        ((8, 4), 4, 2, "60 "),
        ((5, 5, 5), 5, 3, "60 300 "),
    ],
)
def test_a_night_submits_again_only_after_exit_5_or_8(
    host: Host, statuses: tuple[int, ...], status: int, calls: int, pauses: str
) -> None:
    done = submitted(host, *statuses)
    assert (done.returncode, len(host.calls), host.pauses) == (status, calls, pauses)
    assert done.stdout.startswith('{"schema": "xsft.run/1"}\n')
    assert ("run_name qwen3-gsm8k-20261121" in done.stdout) == (status == 7)
    assert len({tuple(call) for call in host.calls}) == 1


@pytest.mark.parametrize(("question", "name"), [("", "qwen3-gsm8k-20261121"), ("an-old-night", "an-old-night")])
def test_the_run_is_named_by_the_date_or_by_hand(host: Host, question: str, name: str) -> None:
    submitted(host, 0, asked=question)
    (call,) = host.calls
    args = parser().parse_args(call)
    assert (args.verb, args.run_name, args.json, args.last) == ("run", name, True, "evaluate")
    spec = read_spec((ROOT / args.file).read_text())
    assert spec.image.name == "post_training"  # of the committed images/post_training.lock.json


def test_the_summary_is_a_table_of_the_stages(host: Host) -> None:
    train = {"name": "train", "run_name": "a", "action": "done", "state": "done", "why": "saved", "result": "gs://a"}
    why = "verdict failed: a | b"
    evaluate = {"name": "evaluate", "run_name": "a-evaluate", "action": "created", "state": "done", "why": why}
    stages = [{**train, "verdict": None}, {**evaluate, "verdict": "failed", "result": "gs://b"}]
    problem = {"id": "verdict-failed", "message": "a-evaluate: a | b.", "fix": "Train longer."}
    (host.folder / "xsft" / "run.json").write_text(json.dumps({"stages": stages, "problems": [problem]}))
    (host.folder / "xsft" / ".venv" / "bin" / "python").symlink_to(sys.executable)
    summary = host.folder / "summary.md"
    done = host.run(step("Summary")["run"], GITHUB_STEP_SUMMARY=str(summary))
    assert done.returncode == 0, done.stderr
    assert summary.read_text().splitlines() == [
        "| stage | run | action | state | verdict | why | result |",
        "|---|---|---|---|---|---|---|",
        "| train | a | done | done |  | saved | gs://a |",
        "| evaluate | a-evaluate | created | done | failed | verdict failed: a \\| b | gs://b |",
        "",
        "- verdict-failed: a-evaluate: a | b. Train longer.",
    ]


def test_the_limit_of_a_night_is_shorter_than_that_of_its_runner() -> None:
    """With the pauses, which no wait counts."""
    assert step("Run")["env"]["MINUTES"] < workflow()["jobs"]["run"]["timeout-minutes"] - 20


def test_all_tries_together_take_no_longer_than_the_limit(host: Host) -> None:
    run = step("Run")["run"].replace("name=", "SECONDS=18000; name=", 1)
    host.run(run, 5, 0, WORKLOAD="w.yaml", MINUTES="330", ASKED="a")
    assert [parser().parse_args(call).timeout_s for call in host.calls] == [30 * 60, 30 * 60]


def test_the_dated_run_name_fits_the_limit() -> None:
    spec = read_spec((ROOT / step("Run")["env"]["WORKLOAD"]).read_text())
    assert spec.tpu is not None
    limit = run_name_limit(target="xpk", mode="mcjax", num_slices=spec.tpu.num_slices or 1, hosts=64)
    assert len("qwen3-gsm8k-20261121") <= limit


def test_the_workflow_holds_no_key_and_asks_for_minimal_permissions() -> None:
    document = workflow()
    assert document["permissions"] == {"contents": "read", "id-token": "write"}
    assert "secrets." not in WORKFLOW.read_text()
    assert not re.search(r"credentials_json|service_account_key", WORKFLOW.read_text())
    assert document["concurrency"]["cancel-in-progress"] is False


def test_the_cron_line_of_the_guide_submits_the_nightly_run(host: Host) -> None:
    (line,) = re.findall(r"^```crontab\n(.*)\n```$", GUIDE.read_text(), re.MULTILINE)
    minute, hour, *every, command = line.split(" ", 5)
    assert (minute, hour, every) == ("17", "2", ["*", "*", "*"])
    assert not re.search(r"(?<!\\)%", command)  # cron would end the command there
    done = host.run(command.replace("\\%", "%"), 4)
    (call,) = host.calls
    assert call == [
        "run",
        "workloads/qwen3_gsm8k.yaml",
        "--run-name",
        "qwen3-gsm8k-20261121",
        "--to",
        "evaluate",
        "--json",
    ]
    assert done.returncode == 0
    assert (host.folder / "nightly.jsonl").read_text() == '{"schema": "xsft.run/1"}\n'
    assert (host.folder / "logged").read_text() == "-t xsft nightly: exit status 4\n"


@pytest.fixture(scope="session")
def actionlint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the Go module proxy into the user's cache, once."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("NOT RUN: actionlint needs Go")
    folder = (
        Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "xsft-tests" / ACTIONLINT.rpartition("@")[2]
    )
    program = folder / "actionlint"
    if not program.exists():
        env = {**os.environ, "GOBIN": str(folder), "GOFLAGS": "", "CGO_ENABLED": "0"}
        built = subprocess.run(
            (go, "install", ACTIONLINT), env=env, capture_output=True, text=True, timeout=500, check=False
        )
        if built.returncode != 0:
            pytest.skip(f"NOT RUN: actionlint could not be built: {built.stderr[-300:]}")
    return program


def lint(actionlint: Path, file: Path) -> subprocess.CompletedProcess[str]:
    argv = (str(actionlint), "-shellcheck=", "-pyflakes=", "-no-color", str(file))
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.contract
def test_the_workflow_passes_actionlint(actionlint: Path, tmp_path: Path) -> None:
    clean = lint(actionlint, WORKFLOW)
    assert (clean.returncode, clean.stdout) == (0, "")
    broken = tmp_path / "broken.yaml"
    broken.write_text(WORKFLOW.read_text().replace("inputs.run_name", "inputs.run_nam"))
    assert "run_nam" in lint(actionlint, broken).stdout
