"""The shuffle seed that the trainer's process receives at each start: the plan's manifest, the pods that the real
JobSet makes of it, and the real bash. Only the kubelet is played (tests/podshell.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.commandline import Machine, machine
from tests.control_plane.api import Cluster
from tests.fakes.clusters import reaching
from tests.podshell import received, stubs_in
from tests.stories import intent_of, plans_of, spec_of, varied
from xsft.base.names import ModeName
from xsft.base.pointers import find_pointer
from xsft.environments.environments import BuiltEnvironment
from xsft.planning.steps import Plan
from xsft.records.jobset_paths import RESTART_ATTEMPT, TRAINER_CONTAINER, places
from xsft.spec.modes import mode_rules
from xsft.trainer.shuffling import STARTS

pytestmark = pytest.mark.contract

MODES: tuple[ModeName, ...] = ("mcjax", "pathways")
EPOCHS = 2
Received = Callable[..., tuple[str, ...]]


@pytest.fixture
def trainer_gets(tmp_path: Path) -> Received:
    stubs = tmp_path / "stubs"
    stubs.mkdir()
    stubs_in(stubs)

    def gets(container: Any, metadata: Any) -> tuple[str, ...]:
        return received(container, metadata=metadata, stubs=stubs, out=tmp_path / "got")

    return gets


@pytest.fixture(scope="module")
def plans(xpk_python: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Plan]:
    specs = {mode: varied(spec_of("llama31_lora"), {"mode": mode, "data.num_epoch": EPOCHS}) for mode in MODES}
    intents = {mode: intent_of(spec) for mode, spec in specs.items()}
    return plans_of(intents, python=xpk_python, scratch=tmp_path_factory.mktemp("renders"))


def seed_in(argv: tuple[str, ...]) -> int:
    (seed,) = [argument.partition("=")[2] for argument in argv if argument.startswith("data_shuffle_seed=")]
    return int(seed)


@pytest.mark.parametrize("restarts", [None, 0, 1, 17, 1000])
@pytest.mark.parametrize("mode", MODES)
def test_the_seed_counts_the_restarts_and_nothing_else_changes(
    mode: ModeName, restarts: int | None, plans: dict[str, Plan], trainer_gets: Received
) -> None:
    """Without the label (run by hand) it is the first start's."""
    plan = plans[mode]
    _, container = find_pointer(plan.manifest, places(mode).trainer)
    labels = {} if restarts is None else {RESTART_ATTEMPT: str(restarts)}
    argv = trainer_gets(container, {"labels": labels})
    assert seed_in(argv) == EPOCHS * (restarts or 0)
    same = [word for word in argv if not word.startswith("data_shuffle_seed=")]
    assert same == [word for word in plan.trainer_argv if not word.startswith("data_shuffle_seed=")]
    if not restarts:
        assert argv == plan.trainer_argv


@pytest.fixture
def here(tmp_path: Path, xpk_environment: BuiltEnvironment, real_cluster: Cluster) -> Iterator[Machine]:
    with (
        reaching(real_cluster, tmp_path, gated=False) as api,
        machine(tmp_path, environments=xpk_environment.folder.parent, api=api) as equipment,
    ):
        yield equipment


@pytest.mark.cluster
@pytest.mark.parametrize("mode", MODES)
def test_jobset_counts_the_restarts_and_xsft_the_attempts(
    mode: ModeName, here: Machine, real_cluster: Cluster, trainer_gets: Received
) -> None:
    """All hosts of a start read in the same order, and no two starts do."""
    submitted = _workload(here, mode)
    hosts, job = 2 if mode == "mcjax" else 1, mode_rules(mode).trainer_job
    namespace = here.api.namespace

    def pods(jobset: str, restarts: int) -> list[Any]:
        which = {"jobset-name": jobset, "replicatedjob-name": job, "restart-attempt": str(restarts)}
        selector = ",".join(f"jobset.sigs.k8s.io/{key}={value}" for key, value in which.items())
        return real_cluster.wait_pods(namespace, selector, count=hosts)

    def seeds(jobset: str, restarts: int) -> set[int]:
        pods_of_attempt = pods(jobset, restarts)
        return {seed_in(trainer_gets(_trainer(pod), pod["metadata"])) for pod in pods_of_attempt}

    def end(jobset: str, code: int) -> None:
        which = f"jobset.sigs.k8s.io/jobset-name={jobset},jobset.sigs.k8s.io/replicatedjob-name={job}"
        real_cluster.end(namespace, f"{which},batch.kubernetes.io/job-completion-index=0", code=code)

    here_is = here.xsft("submit", submitted)
    assert here_is.returncode == 0, here_is.stderr
    assert seeds("seeds", 0) == {0}
    end("seeds", 42)
    assert seeds("seeds", 1) == {EPOCHS}
    end("seeds", 1)  # no restart mends that: the attempt has failed
    real_cluster.wait(lambda: _failed(here, "seeds"), what="the JobSet to fail")
    again = here.xsft("submit", submitted)
    assert again.returncode == 0, again.stderr
    assert seeds("seeds-2", 0) == {EPOCHS * STARTS}
    end("seeds-2", 42)
    assert seeds("seeds-2", 1) == {EPOCHS * (STARTS + 1)}


def _workload(here: Machine, mode: ModeName) -> Path:
    """Small: two hosts."""
    changes = {
        "name": "seeds",
        "mode": mode,
        "model": {"name": "llama3.1-8b", "tokenizer": "meta-llama/Llama-3.1-8B-Instruct"},
        "secrets": None,
        "checks": {"hub-token-missing": "a test"},
    }
    data = {"hf_path": "HuggingFaceH4/ultrachat_200k", "train_split": "train_sft", "columns": ["messages"]}
    return here.workload("llama31_lora", **changes, data={**data, "num_epoch": EPOCHS})


def _trainer(pod: Any) -> Any:
    return next(
        pod_container for pod_container in pod["spec"]["containers"] if pod_container["name"] == TRAINER_CONTAINER
    )


def _failed(here: Machine, name: str) -> bool:
    (jobset_object,) = [listed_jobset for listed_jobset in here.jobsets if listed_jobset["metadata"]["name"] == name]
    return bool(jobset_object.get("status", {}).get("terminalState") == "Failed")
