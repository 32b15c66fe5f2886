"""docs/examples/nightly.yaml and the lines of docs/guides/nightly.md on a real control plane, by the shell that GitHub
uses.

The pods log what runs of this machine logged (maxtext@0.2.5), and end with the exit statuses of those runs.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.contract.commandline import XSFT
from tests.control_plane.api import Cluster
from tests.control_plane.played import EVALUATE, PlayedPods, playing
from tests.stories import ROOT
from xsft.environments.installed import BuiltEnvironment
from xsft.spec.yamltext import load_yaml

pytestmark = pytest.mark.cluster
NIGHTLY = ROOT / "docs" / "examples" / "nightly.yaml"
GUIDE = ROOT / "docs" / "guides" / "nightly.md"
NAME = "qwen3-gsm8k-20261121"
SETUP = f"setup:\n\tmkdir -p .venv/bin && ln -sf {XSFT} {sys.executable} .venv/bin/\n"
"""In place of the real one, which tests/test_make.py runs."""
GUIDE_LINES = 4
"""The run, the comparison, the wait and the crontab's; lines of gcloud need Google Cloud."""


@dataclass
class Runner:
    """A machine of GitHub with the checkout in its folder; time passes without a pause."""

    pods: PlayedPods

    def shell(self, script: str, **env: str) -> int:
        argv = ("bash", "-eo", "pipefail", "-c", script)
        here = self.pods.here
        environment = {**here.env, "PATH": f"{here.folder}/bin:{here.folder}/.venv/bin:{here.env['PATH']}", **env}
        return subprocess.run(argv, env=environment, cwd=here.folder, check=False, timeout=500).returncode

    def night(self) -> tuple[int, str]:
        """Run every step, those after a failed one only `if: always()`: the first failure's exit status, and the job's
        summary."""
        summary = self.pods.here.folder / "summary.md"
        summary.unlink(missing_ok=True)
        night_environment = {"ASKED": NAME, "MINUTES": "7", "GITHUB_STEP_SUMMARY": str(summary)}
        statuses = [0]
        for step in load_yaml(NIGHTLY.read_text())["jobs"]["run"]["steps"]:
            if "run" in step and (not any(statuses) or step.get("if") == "always()"):
                statuses.append(self.shell(step["run"], **{**step.get("env", {}), **night_environment}))
        return next(filter(None, statuses), 0), summary.read_text()

    @property
    def stages(self) -> list[tuple[str, str | None]]:
        document: dict[str, Any] = json.loads((self.pods.here.folder / "run.json").read_text())
        return [(stage["action"], stage["state"]) for stage in document.get("stages", ())]


@pytest.fixture
def runner(real_cluster: Cluster, tmp_path: Path, xpk_environment: BuiltEnvironment) -> Iterator[Runner]:
    with playing(real_cluster, tmp_path, name=NAME, xpk=xpk_environment) as pods:
        programs = {"sleep": 'mv answering.yaml "$KUBECONFIG"', "date": "echo 20261121", "logger": "exit 1"}
        (tmp_path / "Makefile").write_text(SETUP)
        for folder in ("bin", "home"):
            (tmp_path / folder).mkdir(exist_ok=True)
        for checkout in ("home/xsft", "workloads"):
            (tmp_path / checkout).symlink_to(tmp_path)
        for name, line in programs.items():
            (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{line}\n")
            (tmp_path / "bin" / name).chmod(0o755)
        pods.workload(evaluate=EVALUATE).rename(tmp_path / "qwen3_gsm8k.yaml")
        yield Runner(pods)


def a_cluster_that_answers_the_second_try(runner: Runner) -> None:
    kubeconfig = runner.pods.here.api.kubeconfig
    text = kubeconfig.read_text()
    kubeconfig.with_name("answering.yaml").write_text(text)
    kubeconfig.write_text(re.sub(r"server: \S+", "server: https://127.0.0.1:9", text))


def a_wrong_workload(runner: Runner) -> None:
    file = runner.pods.here.folder / "workloads" / "qwen3_gsm8k.yaml"
    file.write_text(file.read_text().replace("v6e-8", "v6e-9"))


def succeeds(pods: PlayedPods) -> None:
    pods.converts()
    pods.trains()
    pods.evaluates(says="1 plus 1 is 2.")


def fails(pods: PlayedPods) -> None:
    pods.converts()
    pods.trains(log="failed", code=1)


def succeeds_again(pods: PlayedPods) -> None:
    pods.trains(attempt="-2")
    pods.evaluates(says="1 plus 1 is 2.")


DONE = [("created", "done")] * 3


@pytest.mark.parametrize(
    ("before", "nights"),
    [
        (a_cluster_that_answers_the_second_try, [(succeeds, 0, DONE, "| evaluate | .* | passed |")]),
        (a_wrong_workload, [(lambda _pods: None, 2, [], "- tpu-unknown: .*v6e-9")]),
        (
            lambda _runner: None,
            [
                (
                    fails,
                    6,
                    [*DONE[:1], ("created", "failed"), ("waiting", None)],
                    "- run-failed: (.|\n)*MaxText stopped because of NaN loss",
                ),
                (succeeds_again, 0, [("done", "done"), ("attempt", "done"), ("created", "done")], r"\| passed \|"),
            ],
        ),
    ],
    ids=["retried and green", "red by a check", "red by a failing run, green on the next call"],
)
def test_a_night(
    runner: Runner,
    before: Callable[[Runner], None],
    nights: list[tuple[Callable[[PlayedPods], None], int, list[tuple[str, str | None]], str]],
) -> None:
    before(runner)
    for play, status, stages, words in nights:
        with ThreadPoolExecutor() as threads:
            night = threads.submit(runner.night)
            play(runner.pods)
            night_status, summary = night.result()
        assert (night_status, runner.stages) == (status, stages)
        assert re.search(words, summary), summary
    if status == 0:  # what the guide says of this run, once it is done
        assert run_guide(runner) == [0] * GUIDE_LINES


def run_guide(runner: Runner) -> list[int]:
    """Return the exit statuses of its lines: nothing is done twice."""
    text = GUIDE.read_text()
    lines = re.findall(r"^```sh\n(.*?)\n```$", text, re.MULTILINE | re.DOTALL)
    (cron,) = re.findall(r"^```crontab\n(?:\S+ ){5}(.*)\n```$", text, re.MULTILINE)
    return [runner.shell(line, NIGHT_WEBHOOK="http://127.0.0.1:9/") for line in (*lines, cron.replace(r"\%", "%"))]
