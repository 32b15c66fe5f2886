"""The real xpk puts a run on the stand-in's cluster: by the shown line, safely, and what is said of it is true."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.contract.commandline import Machine, machine
from tests.documents import read_document
from tests.fakes.clusters import REAL, STANDIN, ClusterApi, reaching, standing_in
from tests.fakes.xpktools import Server, Tools, furnish, serving_xpk
from tests.faults import real
from tests.stories import ROOT
from xsft.environments.installed import BuiltEnvironment

pytestmark = pytest.mark.contract
NAME = "deepseek-ultrachat-mcjax"
PLACE = {"project": "team-project", "zone": "us-east5-b", "cluster": "team-cluster"}
STORY = "deepseek_ultrachat_mcjax"
SECRET = "s3cr3t-" * 3


@pytest.fixture
def tools(here: Machine) -> Tools:
    return equipped(here)


def equipped(here: Machine) -> Tools:
    tools_of_case = furnish(
        here.folder / "tools", server_of(here.api), context="gke_team-project_us-east5-b_team-cluster"
    )
    here.env |= {"PATH": f"{tools_of_case.folder}:{here.env['PATH']}", "KUBECONFIG": str(here.folder / "no-kubeconfig")}
    return tools_of_case


def server_of(api: ClusterApi) -> Server:
    if isinstance(api.world, real.RealWorld):
        return real.serving_xpk(api.world.cluster)
    return serving_xpk(api.standin)


def submit(here: Machine, *, closed: bool = False) -> subprocess.CompletedProcess[str]:
    file = here.workload(STORY, place=PLACE)
    return here.xsft("submit", "--through-xpk", file, "--json", closed=closed)


@dataclass
class Made:
    here: Machine
    tools: Tools
    done: subprocess.CompletedProcess[str]


@contextmanager
def ready(api: ClusterApi, folder: Path, environments: Path) -> Iterator[tuple[Machine, Tools]]:
    """A machine with secrets in its environment, which xpk must not get."""
    with machine(folder, environments=environments, api=api) as here:
        tools = equipped(here)
        (here.folder / "tmp").mkdir()
        here.env |= {
            "MY_PASSWORD": SECRET,
            "HF_TOKEN": SECRET,
            "XPK_TESTER": "true",
            "TMPDIR": str(here.folder / "tmp"),
        }
        yield here, tools


CASES: dict[str, dict[str, Any]] = {
    "all is well": {},
    "exit status": {"fails": ({"match": "kubectl apply", "when": "after"},)},
    "failure": {"fails": ({"match": "kubectl get workloads", "says": "workloads are out today"},)},
    "question": {"workloads": (NAME,)},
}
"""What the tools are told, by case."""


@pytest.fixture(scope="module")
def standins(
    tmp_path_factory: pytest.TempPathFactory, xpk_environment: BuiltEnvironment
) -> Iterator[Mapping[str, Made]]:
    """A run of xpk for each case, all at once: ten seconds of each are a sleep of xpk's."""
    with ExitStack() as stack, ThreadPoolExecutor(len(CASES)) as threads:
        started = {}
        for case, behaviour in CASES.items():
            folder = tmp_path_factory.mktemp("standin")
            api = stack.enter_context(standing_in(folder))
            here, tools = stack.enter_context(ready(api, folder, xpk_environment.folder.parent))
            tools.tell(**behaviour)
            started[case] = here, tools, threads.submit(submit, here, closed=True)
        yield {case: Made(here, tools, done.result()) for case, (here, tools, done) in started.items()}


@pytest.fixture(scope="module", params=[STANDIN, pytest.param(REAL, marks=pytest.mark.cluster)])
def submitted(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, xpk_environment: BuiltEnvironment
) -> Iterator[Made]:
    """One run of xpk, looked at by several tests."""
    if request.param == STANDIN:
        yield request.getfixturevalue("standins")["all is well"]
        return
    folder = tmp_path_factory.mktemp("made")
    with (
        reaching(request.getfixturevalue("real_cluster"), folder) as api,
        ready(api, folder, xpk_environment.folder.parent) as (here, tools),
    ):
        yield Made(here, tools, submit(here, closed=True))


def test_xpk_makes_the_jobset_that_its_line_says(submitted: Made) -> None:
    assert submitted.done.returncode == 0, submitted.done.stderr
    document = read_document("submit", submitted.done.stdout)
    (jobset,) = submitted.here.jobsets
    assert (document["action"], document["uid"]) == ("created", jobset["metadata"]["uid"])
    assert "kubectl-client-side-apply" in [
        managed_field["manager"] for managed_field in jobset["metadata"]["managedFields"]
    ]
    objects = submitted.here.bucket.objects
    record = json.loads(objects[f"runs/{NAME}/xsft/attempt-1.json"])
    assert record["attempts"][0]["xpk_argv"][:3] == ["xpk", "workload", "create"]
    facts = json.loads(objects[f"runs/{NAME}/xsft/attempt-1.created.json"])
    assert facts["read_back"]["outcome"] == "same"
    assert [p["id"] for p in facts["problems"]] == ["through-xpk"]


def test_xpk_gets_nothing_of_the_users_and_leaves_nothing(submitted: Made) -> None:
    by_xpk = [c for c in submitted.tools.calls if "xsft-scratch-through-xpk-" in str(c["env"])]
    assert any("apply" in c["argv"] for c in by_xpk)  # type: ignore[operator]
    for call in by_xpk:
        env: Any = call["env"]
        assert SECRET not in json.dumps(call)
        assert (env["TELEMETRY_ENABLED"], env["DEPENDENCY_AUTO_DOWNLOAD"], env["XPK_TESTER"]) == ("false",) * 3
        assert "xsft-scratch-through-xpk-" in env["KUBECONFIG"]
        assert "xsft-scratch-through-xpk-" in env["TMPDIR"]
        assert not call["tty"]
    folder = submitted.here.folder
    assert list((folder / "tmp").iterdir()) == []
    assert not (folder / "home" / ".config" / "xpk").exists()
    assert not (folder / "no-kubeconfig").exists()


def test_a_jobset_of_xpk_is_adopted_even_after_its_submitter_was_killed(submitted: Made) -> None:
    here, uid = submitted.here, json.loads(submitted.done.stdout)["uid"]
    calls = len(submitted.tools.calls)
    file = here.workload(STORY, place=PLACE)
    for killed in (False, True):
        if killed:
            del here.bucket.objects[f"runs/{NAME}/xsft/attempt-1.created.json"]
        for again in (submit(here), here.xsft("submit", file, "--json")):
            assert again.returncode == 0, again.stderr
            document = json.loads(again.stdout)
            assert (document["action"], document["uid"]) == ("adopted", uid)
    assert [line for line in submitted.tools.lines[calls:] if "apply" in line] == []
    assert len(here.jobsets) == 1


@pytest.mark.standin_only("xpk")
def test_xpks_exit_status_is_not_the_truth(standins: Mapping[str, Made]) -> None:
    made = standins["exit status"]
    assert made.done.returncode == 0, made.done.stderr
    assert json.loads(made.done.stdout)["uid"] == made.here.jobsets[0]["metadata"]["uid"]


@pytest.mark.standin_only("xpk")
def test_an_xpk_failure_is_reported_with_its_own_message(standins: Mapping[str, Made]) -> None:
    failure = standins["failure"]
    assert failure.done.returncode == 2, failure.done.stdout
    assert [p["id"] for p in json.loads(failure.done.stdout)["problems"]] == ["xpk-failed"]
    assert failure.here.jobsets == []
    assert f"runs/{NAME}/xsft/attempt-1.not-created.json" in failure.here.bucket.objects


@pytest.mark.standin_only("xpk")
def test_a_prompt_of_xpk_ends_the_submission_and_deletes_nothing(standins: Mapping[str, Made]) -> None:
    """Kueue knows a workload of this name that the API did not show: xpk asks, and nobody answers."""
    question = standins["question"]
    assert question.done.returncode == 2
    assert question.here.jobsets == []
    assert [line for line in question.tools.lines if "delete" in line] == []


@pytest.mark.standin_only("no-request")
@pytest.mark.parametrize(
    ("story", "changes", "fields"),
    [
        ("deepseek_ultrachat", {}, {"restarts.max"}),
        (STORY, {"secrets": {"hf_token": {"secret": "hf", "key": "token"}}}, {"secrets.hf_token"}),
        (STORY, {"queue": "team-queue"}, {"queue"}),
    ],
)
def test_through_xpk_refuses_fields_that_xpk_drops(
    here: Machine, tools: Tools, story: str, changes: dict[str, Any], fields: set[str]
) -> None:
    file = here.workload(story, place=PLACE, **changes)
    done = here.xsft("submit", "--through-xpk", file, "--json")
    assert done.returncode == 4, done.stderr
    (problem,) = json.loads(done.stdout)["problems"]
    assert problem["id"] == "xpk-loses"
    named = re.search(r"settings of the workload: (.*?) \(", problem["message"])
    assert named is not None
    assert set(named[1].split(", ")) == fields
    assert (here.jobsets, tools.calls, here.api.server.seen) == ([], [], [])


@pytest.mark.standin_only("no-request")
def test_a_cluster_that_is_not_gkes_is_refused(here: Machine) -> None:
    done = here.xsft("submit", "--through-xpk", here.workload(STORY), "--json")
    assert done.returncode == 4
    assert json.loads(done.stdout)["problems"][0]["id"] == "xpk-cluster"


@pytest.mark.standin_only("no-request")
def test_through_xpk_exits_3_when_tools_are_missing(here: Machine, tools: Tools) -> None:
    (tools.folder / "kubectl").unlink()
    here.env["PATH"] = str(tools.folder)
    done = here.xsft("submit", "--through-xpk", here.workload(STORY, place=PLACE), "--json")
    assert done.returncode == 3
    assert [p["id"] for p in json.loads(done.stdout)["problems"]] == ["xpk-tools"]
    assert here.jobsets == []


@pytest.mark.standin_only("no-request")
def test_a_run_of_this_machine_has_no_xpk(here: Machine) -> None:
    done = here.xsft("submit", "--through-xpk", ROOT / "workloads" / "tiny_local.yaml")
    assert done.returncode == 2
    assert "runs on this machine" in done.stderr
