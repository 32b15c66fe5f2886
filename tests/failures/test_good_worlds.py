"""Sixty good workloads and the shipped ones pass `check` and the looks of `submit` in their worlds without a word, and
so do good clusters of other administrators than xpk.

Qwen's, since MaxText repeats the BOS of Gemma's and Llama's templates in every round, which is said rightly.
"""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.checkpoints import small_files
from tests.checks.factory import GOOD, merged
from tests.failures.worlds import CHAT, ROWS, STEP, GoodWorld, furnish_slices, good_world, tpu_labels
from tests.fakes.clusters import standing_in
from tests.fakes.kubeobjects import Objects
from tests.importing.pastes import pasted
from tests.stories import FILES as STORIES
from tests.stories import ROOT
from tests.test_tutorial import TRAINERS, Tutorial
from xsft.environments.installed import BuiltEnvironment
from xsft.importing.build import import_paste
from xsft.launch.admission import examine
from xsft.planning import api
from xsft.spec.yamltext import load_yaml

pytestmark = pytest.mark.contract
MODELS = {"qwen3-0.6b": "Qwen/Qwen3-0.6B", "qwen3-4b": "Qwen/Qwen3-4B", "qwen3-8b": "Qwen/Qwen3-8B"}
SERVERS = "us-docker.pkg.dev/cloud-tpu-v2-images/pathways"
PATHWAYS: dict[str, Any] = {
    "mode": "pathways",
    "place": {
        "pathways": {
            "proxy_image": f"{SERVERS}/proxy_server:jax-0.11.0",
            "server_image": f"{SERVERS}/server:jax-0.11.0",
            "scratch": "gs://my-bucket/pathways",
        }
    },
}
FILES = {"hf_path": "json", "hf_train_files": "gs://my-bucket/rows/*.jsonl", "train_split": "train"}
COMMON = {"data": {"num_epoch": 2}, "tpu": {"type": "v6e-16"}}
WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "long": {"train": {"max_target_length": 4096, "steps": 200}, "data": {"num_epoch": 3}},
    "two-slices": {"tpu": {"num_slices": 2}, "parallelism": {"dcn": {"fsdp": 2}}, "data": {"num_epoch": 3}},
    "evaluated": {"data": {"hf_eval_split": "test_sft"}, "eval": {"interval": 100, "steps": 10}},
    "adapters": {"lora": {"rank": 16, "alpha": 32}, "train": {"weight_dtype": "bfloat16", "learning_rate": 2e-4}},
    "saving": {"train": {"checkpoint_period": 50}},
    "keys": {"overrides": {"maxtext": {"remat_policy": "full", "adam_b2": 0.95, "warmup_steps_fraction": 0.05}}},
    "blocks": {
        "train": {"max_target_length": 2048, "steps": 300},
        "data": {"num_epoch": 3},
        "overrides": {"maxtext": {"attention": "flash", "sa_block_q": 1024, "sa_block_kv_compute": 256}},
    },
    "files": {"data": FILES},
    "on-hub": {"data": {"hf_path": "me/rows", "hf_name": "math", "train_split": "train"}},
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GoodWorld]:
    with good_world(tmp_path_factory.mktemp("world"), tuple(MODELS)) as good_worlds:
        yield good_worlds


def workload(way: dict[str, Any], model: str, mode: dict[str, Any]) -> dict[str, Any]:
    base = {key: value for key, value in GOOD.items() if key not in ("place", "image")}
    named = {"model": {"name": model, "tokenizer": MODELS[model], "checkpoint": f"gs://my-bucket/{model}/0/items"}}
    return merged(merged(merged(merged(base, COMMON), named), mode), way)


def test_sixty_good_workloads_pass_without_a_warning(
    world: GoodWorld, tmp_path: Path, xpk_environment: BuiltEnvironment
) -> None:
    modes: dict[str, dict[str, Any]] = {"m": {"mode": "mcjax"}, "p": PATHWAYS}
    files = [
        world.write(tmp_path, f"{mode}{n}-{way}", workload(WAYS[way], model, modes[mode]))
        for mode in modes
        for n, model in enumerate(MODELS)
        for way in WAYS
    ]
    assert len(files) >= 60
    reported = world.said(files)
    assert {name: lines_of_file for name, lines_of_file in reported.items() if lines_of_file} == {}


EXTRA = {**CHAT, "id": 3, "source": None, "score": 0.5}
SYSTEM = {"messages": [{"role": "system", "content": "Be brief."}, *CHAT["messages"], *CHAT["messages"]]}


def rows_at(pattern: str) -> dict[str, Any]:
    return {"data": {**FILES, "hf_train_files": f"gs://my-bucket/{pattern}"}}


UNUSUAL: dict[str, dict[str, Any]] = {
    "slash": {"model": {"checkpoint": "gs://my-bucket/qwen3-0.6b/0/items/"}},
    "axis": {"model": {"checkpoint": "gs://my-bucket/axis/0/items"}, "overrides": {"maxtext": {"param_scan_axis": 0}}},
    "marked": {"data": {"hf_path": "me/marked", "train_split": "train"}},
    "gzip": rows_at("gzip/*.jsonl.gz"),
    "deep": rows_at("deep/**/*.jsonl"),
    "more-columns": rows_at("extra/*.jsonl"),
    "system": rows_at("system/*.jsonl"),
    "own-eval": {
        "data": {**FILES, "hf_eval_files": "gs://my-bucket/rows/0.jsonl", "hf_eval_split": "train"},
        "eval": {"interval": 100, "steps": 5},
    },
    "bucket-tokenizer": {"model": {"tokenizer": "gs://my-bucket/tokenizers/qwen3"}},
    "context": {
        "train": {"max_target_length": 32768, "steps": 20},
        "parallelism": {"ici": {"fsdp": 4, "context": 4}},
        "overrides": {"maxtext": {"context_parallel_load_balance": False}},
    },
    "traced": {"overrides": {"maxtext": {"enable_tensorboard": True, "profiler": "xplane", "profiler_steps": 3}}},
    "flags": {"env": {"LIBTPU_INIT_ARGS": "--xla_tpu_enable_async_collective_fusion=true"}},
    "output": {"output": "gs://my-bucket/team/a/b"},
    "one-step": {"train": {"steps": 1}},
}


SLOW = ("gzip", "marked")
"""Met in a world where each answer comes 0.25 s later, with rows in a bucket and on the hub: every look has several
times as long for all that it asks."""


def test_good_but_unusual_workloads_pass_without_a_warning(
    world: GoodWorld, tmp_path: Path, xpk_environment: BuiltEnvironment
) -> None:
    lines = {name: f"{json.dumps(row)}\n".encode() * 4000 for name, row in (("extra", EXTRA), ("system", SYSTEM))}
    for n in range(64):
        world.bucket.objects[f"gzip/{n}.jsonl.gz"] = gzip.compress(ROWS, compresslevel=1)
        world.bucket.objects[f"deep/{n % 4}/x/{n}.jsonl"] = ROWS
        world.bucket.objects |= {f"{name}/{n}.jsonl": content for name, content in lines.items()}
    world.bucket.objects |= {f"axis/0/items/{name}": held for name, held in small_files("qwen3-0.6b", axis=0).items()}
    world.bucket.objects["axis/0/_CHECKPOINT_METADATA"] = STEP
    marked = {"gated": False, "cardData": {"configs": [{"config_name": "en", "default": True}]}}
    world.web.answers["/api/datasets/me/marked"] = (200, {}, json.dumps(marked).encode())
    files = {name: world.write(tmp_path, name, workload(way, "qwen3-0.6b", {})) for name, way in UNUSUAL.items()}
    with world.slow(0.25):
        reported = world.said([files.pop(name) for name in SLOW])
    reported |= world.said(list(files.values()))
    assert {name: lines_of_file for name, lines_of_file in reported.items() if lines_of_file} == {}


SHIPPED = tuple(file for file in STORIES if "target: local" not in file.read_text(encoding="utf-8"))


def shipped(file: Path) -> dict[str, Any]:
    tree = {key: value for key, value in load_yaml(file.read_text(encoding="utf-8")).items() if key != "image"}
    return {**tree, "place": PATHWAYS["place"] if tree["mode"] == "pathways" else {}}


def imported(tutorial: Tutorial) -> dict[str, Any]:
    """A tutorial's command as a workload, as a user completes it: with an image and the Pathways images."""
    tree = load_yaml(import_paste(pasted(tutorial)).yaml)
    return {**{key: value for key, value in tree.items() if key != "image"}, "place": PATHWAYS["place"]}


FAULTY = {"answer-end-masked", "does-not-fit", "repeated-per-round", "steps-beyond-data", "hub-streaming"}
FAULTY_LORA = {
    "chat-template-path",
    "lora-float32",
    "lora-module-path",
    "answer-end-masked",
    "learning-rate-low",
    "fit-unknown",
}
"""What is wrong with the tutorials' commands themselves; tests/contract/ holds MaxText to most of it."""


def test_shipped_workloads_and_imported_tutorials_meet_no_false_alarm(
    world: GoodWorld, tmp_path: Path, xpk_environment: BuiltEnvironment
) -> None:
    trees = {file.stem.replace("_", "-"): shipped(file) for file in SHIPPED}
    tutorials = {name.lower().replace(" ", "-"): imported(trainer_argv) for name, trainer_argv in TRAINERS.items()}
    del tutorials["lora"]["lora"]["restore_path"]  # adapters in a bucket: tests/checks/test_lora_adapters.py
    (tmp_path / "math_qa.json").write_bytes((ROOT / "workloads" / "math_qa.json").read_bytes())
    files = [world.write(tmp_path, name, tree) for name, tree in (trees | tutorials).items()]
    for intent in api.intend([api.load(file) for file in files]):
        run, folder = intent.run, str(intent.run.checkpoint).removeprefix("gs://my-bucket/").removesuffix("/items")
        converted_files = small_files(
            run.spec.model.name, axis=int(run.spec.overrides.maxtext.get("param_scan_axis", 1))
        )
        world.bucket.objects |= {f"{folder}/items/{name}": content for name, content in converted_files.items()}
        world.bucket.objects[f"{folder}/_CHECKPOINT_METADATA"] = STEP
    rows = (ROOT / "tests" / "fakes" / "rows.parquet").read_bytes()
    world.bucket.objects |= {f"ultrachat_200k/train_sft-{n}.parquet": rows for n in range(128)}
    objects = world.cluster.standin.objects
    objects.add("/secrets", "hf-token", namespace="default", data={"token": "aA=="})
    spot_pool(objects, "2x4", hosts=2)
    reported = {
        name: {line.partition(":")[0] for line in lines_of_file} for name, lines_of_file in world.said(files).items()
    }
    assert {name: ids for name, ids in reported.items() if ids and name in trees} == {}
    false = {name: reported[name] - (FAULTY_LORA if name == "lora" else FAULTY) for name in tutorials}
    assert {name: ids for name, ids in false.items() if ids} == {}


NODES, QUEUES, FLAVORS = "/nodes", "kueue.x-k8s.io/clusterqueues", "kueue.x-k8s.io/resourceflavors"
TPU = {"key": "google.com/tpu", "value": "present", "effect": "NoSchedule"}
SPOT = {"key": "cloud.google.com/gke-spot", "value": "true", "effect": "NoSchedule"}
DEDICATED = {"key": "dedicated", "value": "ml", "effect": "NoSchedule"}


def queue(objects: Objects) -> dict[str, Any]:
    spec: dict[str, Any] = objects.of(QUEUES)["", "cluster-queue"]["spec"]
    return spec


def quotas(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the quotas of TPU chips, one for each flavor."""
    return [flavor["resources"][0] for flavor in spec["resourceGroups"][0]["flavors"]]


def hosts(objects: Objects) -> list[dict[str, Any]]:
    return [node for (_, name), node in objects.of(NODES).items() if "v6e" in name or "tpu" in name]


def spot_pool(objects: Objects, topology: str = "4x4", *, hosts: int = 4) -> None:
    """Taints that GKE sets, and xpk's pods tolerate."""
    labels = {**tpu_labels(topology), "cloud.google.com/gke-spot": "true", "cloud.google.com/gke-nodepool": "spot"}
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    for host in range(hosts):
        objects.add(NODES, f"spot-{host}", metadata={"labels": labels}, spec={"taints": [SPOT, TPU]}, status=ready)


def taint(objects: Objects, *taints: dict[str, str]) -> None:
    for node in hosts(objects):
        node["spec"] = {"taints": list(taints)}


def tolerated_by_flavors(objects: Objects) -> None:
    taint(objects, DEDICATED, TPU)
    for flavor in objects.of(FLAVORS).values():
        flavor["spec"]["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]


def lent_by_cohort(objects: Objects, *, key: str = "cohort", limit: int | None = None) -> None:
    """Remove the queue's own quota, so that it borrows from its cohort."""
    queue_object = queue(objects)
    queue_object[key] = "all"
    lender = copy.deepcopy(queue_object)
    for quota in quotas(queue_object):
        quota |= {"nominalQuota": 0, **({"borrowingLimit": limit} if limit else {})}
    for quota in quotas(lender):
        quota["nominalQuota"] = 256
    objects.add(QUEUES, "lender", spec=lender, status=objects.of(QUEUES)["", "cluster-queue"]["status"])


def one_flavor_without_labels(objects: Objects) -> None:
    resources = [{"name": "google.com/tpu", "nominalQuota": "4k"}]
    queue(objects)["resourceGroups"][0]["flavors"] = [{"name": "tpu", "resources": resources}]
    objects.add(FLAVORS, "tpu", spec={})


def grows_on_demand(objects: Objects) -> None:
    """An admission check adds the nodes before a run starts; until then there are none."""
    queue(objects)["admissionChecks"] = ["dws"]
    for node in hosts(objects):
        del objects.of(NODES)["", node["metadata"]["name"]]


def one_host_cordoned(objects: Objects) -> None:
    """Another slice of the type is free."""
    objects.of(NODES)["", "gke-v6e-16-0-0"]["spec"] = {"unschedulable": True}


def quota_of_pods(objects: Objects) -> None:
    flavor = {"name": "cpu-user", "resources": [{"name": "pods", "nominalQuota": 1000}]}
    queue(objects)["resourceGroups"].append({"coveredResources": ["pods"], "flavors": [flavor]})


def with_topology(objects: Objects) -> None:
    for flavor in objects.of(FLAVORS).values():
        flavor["spec"]["topologyName"] = "super-slice"


def selects(**selector: Any) -> Callable[[Objects], None]:
    return lambda objects: queue(objects).update(namespaceSelector=selector)


CLUSTERS: dict[str, Callable[[Objects], None]] = {
    "spot pool": spot_pool,
    "GKE's taints": lambda objects: taint(objects, TPU),
    "preferred taint": lambda objects: taint(objects, {"key": "x", "effect": "PreferNoSchedule"}),
    "taint that the flavors tolerate": tolerated_by_flavors,
    "cohort": lent_by_cohort,
    "cohortName of v1beta2": lambda objects: lent_by_cohort(objects, key="cohortName"),
    "borrowing limit": lambda objects: lent_by_cohort(objects, limit=64),
    "one flavor": one_flavor_without_labels,
    "admission check": grows_on_demand,
    "cordoned host": one_host_cordoned,
    "quota of pods": quota_of_pods,
    "topology": with_topology,
    "namespace by label": selects(matchLabels={"kubernetes.io/metadata.name": "default"}),
    "namespace by expression": selects(matchExpressions=[{"key": "team", "operator": "DoesNotExist"}]),
    "stop policy None": lambda objects: queue(objects).update(stopPolicy="None"),
    "nodes may not be listed": lambda objects: objects.denied.update({("list", "nodes"), ("get", "deployments")}),
}


def test_good_clusters_of_other_administrators_pass_without_a_warning(
    world: GoodWorld, tmp_path: Path, xpk_environment: BuiltEnvironment
) -> None:
    spot = {"tpu": {"capacity": "spot"}, "restarts": {"max": 3}}
    trees = {"mcjax": workload({}, "qwen3-0.6b", {}), "pathways": workload({}, "qwen3-0.6b", PATHWAYS)}
    trees["spot"] = workload(spot, "qwen3-0.6b", {})
    plans = api.plan([api.load(world.write(tmp_path, name, tree)) for name, tree in trees.items()])
    reported: dict[str, list[str]] = {}
    for name, change in CLUSTERS.items():
        with standing_in(tmp_path) as cluster:
            furnish_slices(cluster)
            change(cluster.standin.objects)
            asked_plans = [plan for plan in plans if (plan.run_name == "spot") == (name == "spot pool")]
            problems_read = [problem for plan in asked_plans for problem in examine(cluster.connect(), plan)[1]]
        reported[name] = [f"{problem.id}: {problem.message}" for problem in problems_read if problem.severity != "note"]
    assert {name: problems_read for name, problems_read in reported.items() if problems_read} == {}
