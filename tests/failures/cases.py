"""Each failure of docs/failures.toml that xsft reports, fed to xsft: the ids of the problems that it raises."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tensorstore

from tests.checks.factory import DROP, FLAGSHIP, GOOD, spec
from tests.checks.test_admission import CPU_FLAVOR, TPU_FLAVOR, queue, said
from tests.checks.test_admission import facts as cluster_facts
from tests.checks.test_checkpoint_weights import full
from tests.checks.test_controllers import QUEUED, deployment
from tests.checks.test_image_contents import OURS
from tests.checks.test_image_contents import said as image_said
from tests.checks.test_node_pools import TAINT, pools, spoilt
from tests.checks.test_node_pools import said as nodes_said
from tests.checks.test_pod_identity import ANNOTATED, of_nodes, with_rights
from tests.checks.test_quota_namespace_quota import quota
from tests.cluster.test_cluster import NO_ENDPOINTS, sent_to
from tests.fakes.clusters import ClusterApi, standing_in
from tests.fakes.gcs import ALL, Bucket, Failure
from tests.fakes.gcs import serving as serving_bucket
from tests.launch.test_admission import hold_a_slice, limit_start, plan_for
from tests.machine.test_objects import remote
from tests.submissions import good_image, planned, submitter
from tests.weights.test_read_checkpoint import CONVERTED, Memory
from xsft.base.errors import XsftError
from xsft.base.problems import Problem
from xsft.checks.controllers import check_managed
from xsft.checks.facts import Facts
from xsft.checks.image import maxtext_differs
from xsft.checks.pod_identity import PodRights
from xsft.data.facts import DataFacts, HubDataFacts, TokenizerFacts
from xsft.data.findings import findings, summarize
from xsft.data.passes import GivenMessage, GivenRow, InspectionResult, PassRead, TokenSequence, Vocabulary, reading_of
from xsft.data.read_rows import read_rows
from xsft.data.tokenizer import tokenizer_problem
from xsft.launch.admission import examine
from xsft.launch.notes import start_notes
from xsft.machine.writable import check_writable
from xsft.planning.planner import make_intent
from xsft.spec.facts import CheckpointFacts, SavedArray, SourceFacts
from xsft.spec.model import WorkloadSpec
from xsft.spec.resolve import resolve
from xsft.weights.read_checkpoint import read_checkpoint

Raised = set[str]
Case = Callable[[Path], Raised]

LORA = {"rank": 8, "alpha": 16, "restore_path": "gs://my-bucket/runs/a/checkpoints/2/model_params"}
UNSCANNED = {**GOOD, "model": {**GOOD["model"], "scan_layers": False}}
FILES = {"hf_path": "json", "hf_train_files": "gs://my-bucket/rows.jsonl", "train_split": "train"}
CHAT = {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]}


GEMMA = {"name": "gemma2-2b", "tokenizer": "google/gemma-2-2b-it"}
INACTIVE = {"status": {"conditions": [{"type": "Active", "status": "False", "reason": "FlavorNotFound"}]}}
LARGE = CheckpointFacts(
    path="gs://my-bucket/0/items",
    status="read",
    arrays=(SavedArray(path=("params", "params", "wi"), piece=(16384, 126, 53248), dtype="bfloat16"),),
)
OLD = {"0/items/manifest.ocdbt": b"x", "0/items/d/1": b"x", "0/items/params.params.wi/manifest.ocdbt": b"x"}
FROM_HUB = {"model": {"checkpoint": DROP, "hf": {"repo": "me/qwen"}}}
SPOT = {"key": "cloud.google.com/gke-spot", "value": "true", "effect": "NoSchedule"}
SERVER = {"image": f"vllm/vllm-tpu@sha256:{'0' * 64}", "type": "v6e-4"}
TAINTED = {"spec": {**TPU_FLAVOR["spec"], "nodeTaints": [{"key": "team", "value": "other", "effect": "NoSchedule"}]}}


KEY_REFUSED = (
    "Permission denied on Cloud KMS key. Please ensure that your Cloud Storage service account has been authorized to"
    " use this key."
)
"""source: github.com/ollionorg/gcp-landing-zone/pull/59."""


def said_of(workload: WorkloadSpec, facts: Facts | None = None) -> Raised:
    """Ids of what `xsft check` prints; notes are only printed on request, so they report nothing."""
    return printed(make_intent(workload, facts or Facts()).problems)


def printed(problems: tuple[Problem, ...]) -> Raised:
    return {problem.id for problem in problems if problem.severity != "note"}


def workload(base: Mapping[str, Any] = GOOD, /, *, facts: Facts | None = None, **changes: Any) -> Case:
    """Return the case of a workload that is wrong in itself, or with these facts."""
    return lambda _folder: said_of(spec(base, **changes), facts)


def keys(base: Mapping[str, Any] = GOOD, /, **maxtext_keys: Any) -> Case:
    return workload(base, overrides={"maxtext": maxtext_keys})


def rows(*row_list: object, file: str = "rows.jsonl", **changes: Any) -> Case:
    """Return the case of rows in a file that MaxText's pipeline does not take, or that train nothing."""

    def raised(folder: Path) -> Raised:
        path = folder / file
        path.write_text("".join(f"{json.dumps(row)}\n" for row in row_list))
        read = read_rows(str(path), of="json", where="data.hf_train_files")
        return said_of(spec(data=FILES, **changes), Facts(data=read))

    return raised


def answered(*messages: GivenMessage, error: str = "", trained: bool = True) -> Case:
    """Return the case of rows whose messages, or whose error, MaxText's own pipeline answers."""
    sequence = TokenSequence(inputs=(1, 2), trained=(trained, False), segments=(1, 1), padding=2)
    given_row = GivenRow(fault="", texts=("<u>?", "!"), messages=messages, length=2)
    read = PassRead(rows=(sequence,), given=(given_row,), ended=True, error=error)
    reading = reading_of(resolve(spec(), Facts())[0])
    inspection = InspectionResult(sample=read, packed=None, other=None)
    summary = summarize(inspection, reading=reading, vocabulary=Vocabulary())
    return lambda _folder: printed(tuple(findings(inspection, summary, reading=reading)))


def stored(files: Mapping[str, bytes], path: str, base: Mapping[str, Any] = GOOD) -> Case:
    """Return the case of an initial checkpoint with these files."""

    def raised(_folder: Path) -> Raised:
        checkpoint_facts = read_checkpoint(f"gs://my-bucket/{path}", storage=Memory(files))
        return said_of(spec(base, model={"checkpoint": checkpoint_facts.path}), Facts(checkpoint=checkpoint_facts))

    return raised


def saved_adapters(module: str, *, rank: int) -> Facts:
    """Facts of adapters as Tunix saves them: for each module a pair of arrays."""
    path = ("decoder", "layers", *module.split("."))
    pair = (("kernel_lora_a", (1024, 28, rank)), ("kernel_lora_b", (rank, 28, 16, 128)))
    arrays = tuple(
        SavedArray(path=(*path, name), piece=shape, ways=(1,) * len(shape), shape=shape) for name, shape in pair
    )
    return Facts(adapters=CheckpointFacts(path=LORA["restore_path"], status="read", arrays=arrays))  # type: ignore[arg-type]


def a_torn_save(_folder: Path) -> Raised:
    step = {name: content for name, content in CONVERTED.items() if not name.endswith("wo.kernel/.zarray")}
    return stored(step, "0/items")(_folder)


def an_ocdbt_checkpoint(_folder: Path) -> Raised:
    context = tensorstore.Context()
    base = {"driver": "memory"}
    store = tensorstore.KvStore.open({"driver": "ocdbt", "base": base}, context=context).result()
    arrays = {name: content for name, content in CONVERTED.items() if name.endswith(".zarray")}
    for name, content in arrays.items():
        store.write(name.removeprefix("0/items/"), content).result()
    written = tensorstore.KvStore.open(base, context=context).result()
    files = {f"0/items/{key.decode()}": written.read(key).result().value for key in written.list().result()}
    metadata = CONVERTED["0/items/_METADATA"].replace(b'ocdbt": false', b'ocdbt": true')
    others = {name: content for name, content in CONVERTED.items() if name not in arrays}
    return stored({**others, **files, "0/items/_METADATA": metadata}, "0/items", FLAGSHIP)(_folder)


def a_refused_checkpoint(_folder: Path) -> Raised:
    checkpoint_facts = read_checkpoint("gs://my-bucket/0/items", storage=Memory(CONVERTED, refuse="_METADATA"))
    return said_of(spec(), Facts(checkpoint=checkpoint_facts))


def an_image_of_another_release(_folder: Path) -> Raised:
    return printed((maxtext_differs("0.2.3", resolve(spec(), Facts())[0]),))


def a_bucket_that_may_not_be_written(_folder: Path) -> Raised:
    with serving_bucket(Bucket({}, permissions=frozenset({"storage.objects.get"}))) as bucket:
        return printed(check_writable("gs://my-bucket/runs", objects=remote(bucket)))


def a_bucket_that_keeps_everything(_folder: Path) -> Raised:
    with serving_bucket(Bucket({}, settings={"retentionPolicy": {"retentionPeriod": "864000"}})) as bucket:
        return printed(check_writable("gs://my-bucket/runs", objects=remote(bucket)))


def a_bucket_that_forgets(_folder: Path) -> Raised:
    rule = {"action": {"type": "Delete"}, "condition": {"age": 1}}
    with serving_bucket(Bucket({}, settings={"lifecycle": {"rule": [rule]}})) as bucket:
        return printed(check_writable("gs://my-bucket/runs", objects=remote(bucket)))


def written(content: bytes) -> Case:
    """Return the case of a file of rows with this content."""

    def raised(folder: Path) -> Raised:
        (folder / "rows.jsonl").write_bytes(content)
        read = read_rows(f"{folder}/rows.jsonl", of="json", where="data.hf_train_files")
        return said_of(spec(data=FILES), Facts(data=read))

    return raised


def a_bucket_overseas(_folder: Path) -> Raised:
    with serving_bucket(Bucket({}, settings={"location": "EUROPE-WEST4"})) as bucket:
        return printed(check_writable("gs://my-bucket/runs", "us-east5-b", objects=remote(bucket)))


def a_bucket_whose_key_is_refused(folder: Path) -> Raised:
    refusal = Failure(match="^POST ", status=403, message=KEY_REFUSED)
    with serving_bucket(Bucket({}, failures=[refusal])) as bucket, standing_in(folder) as api:
        try:
            submitter(api, bucket_url=bucket.url, state=folder).submit(planned(namespace=api.namespace))
        except XsftError as refused:
            assert not api.standin.objects.of("jobset.x-k8s.io/jobsets")
            return {problem.id for problem in refused.problems}
    return set()


def a_bucket_that_bills_its_readers(_folder: Path) -> Raised:
    with serving_bucket(Bucket({}, settings={"billing": {"requesterPays": True}})) as bucket:
        return printed(check_writable("gs://my-bucket/runs", objects=remote(bucket)))


def a_bucket_that_hides_itself(_folder: Path) -> Raised:
    with serving_bucket(Bucket({}, permissions=ALL - {"storage.buckets.get"})) as bucket:
        return printed(check_writable("gs://my-bucket/runs", objects=remote(bucket)))


def a_folder_of_files(folder: Path) -> Raised:
    read = read_rows(str(folder), of="json", where="data.hf_train_files")
    return said_of(spec(data=FILES), Facts(data=read))


def a_queue(**queue_spec: Any) -> Case:
    queue = {"metadata": {"name": "q"}, "spec": {"namespaceSelector": {}, "resourceGroups": [], **queue_spec}}
    return lambda _folder: printed(said(cluster_facts(cluster_queue=queue)))


def dry_run(act: Callable[[ClusterApi, dict[str, Any]], None]) -> Case:
    """Return the case of a cluster that refuses the planned JobSet's dry run."""

    def raised(folder: Path) -> Raised:
        with standing_in(folder) as api:
            manifest = sent_to(api)
            act(api, manifest)
            try:
                api.connect().dry_run_jobset(manifest)
            except XsftError as refused:
                return {problem.id for problem in refused.problems}
        return set()

    return raised


def without_webhook(service: str, why: str = "") -> Case:
    message = NO_ENDPOINTS.replace("jobset", service)
    message = f"{message.rpartition(': ')[0]}: {why}" if why else message
    return dry_run(lambda api, _: api.server.fail("^POST ", code=500, message=message, times=9))


def an_unknown_field(api: ClusterApi, _manifest: dict[str, Any]) -> None:
    message = 'JobSet cannot be handled: strict decoding error: unknown field "spec.failurePolicy.rules"'
    api.server.fail("^POST ", code=400, message=message, times=9)


def the_queue_of_another_namespace(folder: Path) -> Raised:
    with standing_in(folder) as api:
        return printed(examine(api.connect(), plan_for(api, queue="nosuch"))[1])


def a_jobset_without_a_queue(folder: Path) -> Raised:
    with standing_in(folder) as api:
        hold_a_slice(api)
        return printed(examine(api.connect(), plan_for(api))[1])


def a_start_longer_than_kueue_waits(folder: Path) -> Raised:
    with standing_in(folder) as api:
        limit_start(api)
        plan = plan_for(api)
        facts, problems_read = examine(api.connect(), plan)
        return printed(start_notes(plan, good_image("i"), facts, found=problems_read))


def a_queue_without_chips(_folder: Path) -> Raised:
    groups = [{"coveredResources": ["cpu", "memory", "pods"], "flavors": []}]
    queue = {"metadata": {"name": "q"}, "spec": {"namespaceSelector": {}, "resourceGroups": groups}}
    return printed(said(cluster_facts(cluster_queue=queue)))


def without_cpu(_folder: Path) -> Raised:
    cluster_queue = queue()
    covered = [
        part
        for group in cluster_queue["spec"]["resourceGroups"]
        for flavor in group["flavors"]
        for part in flavor["resources"]
    ]
    for part in covered:
        part["nominalQuota"] = 0 if part["name"] == "cpu" else part["nominalQuota"]
    return printed(said(cluster_facts(cluster_queue=cluster_queue)))


def an_old_jobset(_folder: Path) -> Raised:
    manager = {"name": "manager", "image": "registry.k8s.io/jobset/jobset:v0.5.2"}
    installed = {"spec": {"template": {"spec": {"containers": [manager]}}}, "status": {"readyReplicas": 1}}
    return printed(said(cluster_facts(controllers={"JobSet": installed})))


def a_small_head(_folder: Path) -> Raised:
    allocatable = {"allocatable": {"cpu": "16", "memory": "64Gi"}}
    heads = [node for node in pools(2) if "google.com/tpu" not in node["status"]["allocatable"]]
    small = tuple({**node, "status": {**node["status"], **allocatable}} for node in heads)
    return printed(tuple(nodes_said((*(node for node in pools(2) if node not in heads), *small))))


def an_unmanaged_jobset(_folder: Path) -> Raised:
    return printed(tuple(check_managed({"metadata": QUEUED, "spec": {"suspend": False}}, context="c")))


def image(**labels: Any) -> Case:
    return lambda _folder: printed(tuple(image_said(**labels)))


def a_tokenizer_with_its_own_program(folder: Path) -> Raised:
    names = {"tokenizer_class": "KimiTokenizer", "auto_map": {"AutoTokenizer": ["kimi.KimiTokenizer", None]}}
    (folder / "tokenizer_config.json").write_text(json.dumps(names))
    (folder / "tokenizer.json").write_text("{}")
    reported = tokenizer_problem(str(folder))
    return printed((reported,) if reported else ())


def a_strict_queue(_folder: Path) -> Raised:
    strict = {**queue(queueingStrategy="StrictFIFO"), "status": {"pendingWorkloads": 7}}
    return printed(said(cluster_facts(cluster_queue=strict)))


def hosts_with_fewer_chips(_folder: Path) -> Raised:
    few = {"allocatable": {"google.com/tpu": "1"}, "conditions": [{"type": "Ready", "status": "True"}]}
    all_nodes = pools(2)
    chips = [node for node in all_nodes if "google.com/tpu" in node["status"]["allocatable"]]
    return printed(tuple(nodes_said(tuple({**node, "status": few} if node in chips else node for node in all_nodes))))


OLD_IMAGE = {"maxtext": "0.2.3"}
SPLIT_EXPERTS = {"ici": {"fsdp": 4, "expert": 4}}
BASE_MODEL = {"name": "qwen3-30b-a3b-base", "checkpoint": DROP, "hf": {"repo": "Qwen/Qwen3-30B-A3B-Base"}}

CASES: Mapping[str, Case] = {
    "releases.buffer": workload(
        FLAGSHIP, image=OLD_IMAGE, parallelism=SPLIT_EXPERTS, overrides={"maxtext": {"ragged_buffer_factor": 2.0}}
    ),
    "releases.vocabulary-tiling": workload(image={"maxtext": "0.2.4"}, overrides={"maxtext": {"num_vocab_tiling": 4}}),
    "releases.experts-bias": workload(model={"name": "gpt-oss-20b"}, image=OLD_IMAGE, parallelism=SPLIT_EXPERTS),
    "releases.rope": workload(
        model=BASE_MODEL, image=OLD_IMAGE, facts=Facts(source=SourceFacts(fields={"rope_theta": 1e6}))
    ),
    "restarts.spot": workload(tpu={"type": "v6e-16", "capacity": "spot"}, restarts=DROP),
    "attention.context": workload(parallelism={"ici": {"context": 4}}),
    "keys.positions": keys(override_model_config=True, rope_max_timescale=1000),
    "keys.dtype": keys(dtype="float16"),
    "keys.weights": keys(weight_dtype="bfloat16"),
    "keys.warm-up": keys(warmup_steps_fraction=1.0),
    "keys.schedule": keys(learning_rate_schedule_steps=100),
    "keys.profile": keys(profiler="xplane", skip_first_n_steps_for_profiler=2000),
    "keys.no-checkpoints": keys(enable_checkpointing=False),
    "checkpoint.period": workload(train={"steps": 800, "checkpoint_period": 1000}),
    "checkpoint.quantized": workload(
        model={"checkpoint": DROP, "hf": {"repo": "Qwen/Qwen3-0.6B-FP8"}},
        facts=Facts(source=SourceFacts(commit="0" * 40, quantized="quantization_config: fp8")),
    ),
    "checkpoint.rope": workload(**FROM_HUB, facts=Facts(source=SourceFacts(fields={"rope_theta": 10_000.0}))),
    "checkpoint.tied": workload(**FROM_HUB, facts=Facts(source=SourceFacts(fields={"tie_word_embeddings": False}))),
    "data.gated": workload(
        data={"hf_path": "me/rows", "train_split": "train"}, facts=Facts(hub_data=HubDataFacts(access="gated"))
    ),
    "rights.requester-pays": a_bucket_that_bills_its_readers,
    "keys.accumulation": workload(train={"gradient_accumulation_steps": 4}, image={"maxtext": "tutorial-v1.5.0"}),
    "cluster.controller": lambda _folder: printed(
        said(cluster_facts(controllers={"JobSet": deployment(wanted=1, ready=0)}))
    ),
    "cluster.namespace-quota": lambda _folder: printed(
        said(cluster_facts(resource_quotas=quota({"requests.google.com/tpu": "256"})))
    ),
    "cluster.strict-queue": a_strict_queue,
    "cluster.chips-of-host": hosts_with_fewer_chips,
    "cluster.spot": lambda _folder: printed(tuple(nodes_said(spoilt({"spec": {"taints": [SPOT]}}, at=0)))),
    "cluster.pull-secret": lambda _folder: printed(
        said(cluster_facts(secrets={"r": frozenset({"password"})}), **{"image.pull_secret": "r"})
    ),
    "serving.length": workload(stages={"export": {}, "serve": {**SERVER, "max_model_len": 131_072}}),
    "start.flag-value": workload(env={"LIBTPU_INIT_ARGS": "--xla_tpu_scoped_vmem_limit_kib=96M"}),
    "start.transfer": workload(env={"HF_HUB_ENABLE_HF_TRANSFER": "1"}),
    "tokens.own-code": a_tokenizer_with_its_own_program,
    "start.batch": workload(train={"per_device_batch_size": 64}),
    "start.platform": workload(env={"JAX_PLATFORMS": "cpu"}),
    "attention.indexer": workload(
        FLAGSHIP, model={"name": "deepseek3.2-671b", "tokenizer": "deepseek-ai/DeepSeek-V3.2"}
    ),
    "attention.sequence": workload(train={"max_target_length": 1000}),
    "mesh.dimension": workload(model={"name": "gpt-oss-20b"}, tpu={"type": "v6e-256"}),
    "mesh.product": workload(parallelism={"ici": {"fsdp": 3}}),
    "mesh.heads": workload(parallelism={"ici": {"tensor": 16, "fsdp": 1}}, tpu={"type": "v6e-16"}),
    "keys.renamed": keys(enable_profiler=True),
    "keys.value": keys(remat_policy="fulll"),
    "keys.moved": an_image_of_another_release,
    "keys.full-state": keys(load_full_state_path="gs://my-bucket/full"),
    "checkpoint.scan": stored(CONVERTED, "0/items", UNSCANNED),
    "checkpoint.shape": workload(facts=full("qwen3-8b")),
    "checkpoint.incomplete": a_torn_save,
    "checkpoint.copied": stored(
        {name: content for name, content in CONVERTED.items() if not name.endswith("commit_success.txt")}, "0/items"
    ),
    "checkpoint.own-output": workload(
        model={"checkpoint": "gs://my-bucket/runs/qwen-chat/checkpoints/100/model_params"}
    ),
    "checkpoint.local-folder": workload(output="/tmp/checkpoints"),
    "checkpoint.ocdbt": an_ocdbt_checkpoint,
    "checkpoint.unreadable": a_refused_checkpoint,
    "adapters.rank": workload(lora=LORA, facts=saved_adapters("self_attention.query", rank=16)),
    "adapters.modules": workload(
        lora={**LORA, "module_path": "decoder/layers/.*mlp/wi_0"}, facts=saved_adapters("self_attention.query", rank=8)
    ),
    "data.conversation": rows({"messages": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "yes"}]}),
    "data.string": rows({"messages": json.dumps(CHAT["messages"])}),
    "data.column": rows({"MESSAGES": CHAT["messages"]}),
    "data.column-known": workload(data={"columns": ["text"]}),
    "data.role": answered(GivenMessage(role="bing", text="?", kind="str", written=False)),
    "data.first-null": answered(error="TypeError: Couldn't cast array of type string to null"),
    "data.eval-small": workload(
        data={**FILES, "hf_eval_files": "gs://my-bucket/eval.jsonl"},
        eval={"interval": 100, "steps": 1},
        facts=Facts(eval_data=DataFacts(counted=7)),
    ),
    "data.few-files": workload(data=FILES, tpu={"type": "v6e-256"}, facts=Facts(data=DataFacts(files=10))),
    "data.grain-workers": workload(
        data={**FILES, "pipeline": "grain", "hf_path": "parquet", "train_split": DROP},
        overrides={"maxtext": {"grain_worker_count": 8}},
        facts=Facts(data=DataFacts(files=8)),
        tpu={"type": "v6e-16"},
    ),
    "data.other-column": rows({"conversations": CHAT["messages"], "system": "be kind"}),
    "data.no-target": answered(trained=False),
    "data.split-of-files": workload(
        data={"hf_path": "json", "hf_train_files": "gs://my-bucket/a.jsonl", "train_split": "all_examples"}
    ),
    "data.split": workload(data={"train_split": "train"}),
    "data.exhausted": rows(*[CHAT] * 20),
    "data.empty": rows(),
    "data.hub-disconnects": workload(tpu={"type": "v6e-256"}),
    "tokens.gated": workload(model={"name": "llama3.1-8b", "tokenizer": "meta-llama/Llama-3.1-8B-Instruct"}),
    "tokens.pad-is-eos": workload(FLAGSHIP, model={"pad_token": DROP}),
    "image.platform": image(labels=OURS, platforms=("linux/arm64",)),
    "image.libtpu": image(labels={**OURS, "dev.xsft.packages": "jax==0.11.0 libtpu==0.0.41"}),
    "rights.output": a_bucket_that_may_not_be_written,
    "rights.pod": lambda _folder: printed(tuple(with_rights(PodRights(bound=False)))),
    "start.timeout": workload(
        tpu={"type": "v6e-16", "num_slices": 2},
        overrides={"maxtext": {"jax_distributed_initialization_timeout": 60}},
    ),
    "cluster.name": workload(FLAGSHIP, name="deepseek-ultrachat-of-november"),
    "cluster.jobset-down": without_webhook("jobset"),
    "cluster.kueue-down": without_webhook("kueue"),
    "cluster.old-jobset": dry_run(an_unknown_field),
    "cluster.unknown-field": dry_run(an_unknown_field),
    "cluster.no-such-topology": workload(tpu={"type": "v6e-6"}),
    "cluster.pool-in-error": lambda _folder: printed(tuple(nodes_said(pools(1)))),
    "data.columns-of-known": workload(data={"columns": ["question", "answer"]}),
    "cluster.unmanaged": an_unmanaged_jobset,
    "cluster.versions": an_old_jobset,
    "cluster.taint": lambda _folder: printed(
        said(cluster_facts(flavors={"2xv6e-256": TAINTED, "cpu-user": CPU_FLAVOR}))
    ),
    "cluster.node-taint": lambda _folder: printed(tuple(nodes_said(spoilt({"spec": {"taints": [TAINT]}}, at=64)))),
    "cluster.head": a_small_head,
    "cluster.nodes": lambda _folder: printed(tuple(nodes_said(pools(0)))),
    "cluster.queue-of-nothing": lambda _folder: printed(said(cluster_facts(cluster_queue=None))),
    "cluster.quota": a_queue_without_chips,
    "cluster.namespace": the_queue_of_another_namespace,
    "start.libtpu-flag": workload(env={"LIBTPU_INIT_ARGS": "--xla_tpu_enable_latency_hiding_schduler=true"}),
    "start.xla-flag": workload(env={"XLA_FLAGS": "--xla_tpu_spmd_rng_bit_generator_unsafe=1"}),
    "start.process-addresses": workload(env={"TPU_PROCESS_ADDRESSES": "localhost:8479"}),
    "start.megascale": workload(env={"MEGASCALE_COORDINATOR_ADDRESS": "10.0.0.1"}),
    "tokens.offline": workload(env={"HF_HUB_OFFLINE": "1"}),
    "tokens.context": workload(train={"max_target_length": 65536}),
    "adapters.no-module": workload(lora={"rank": 8, "alpha": 16, "module_path": "model.layers.*.q_proj"}),
    "adapters.rate": workload(lora={"rank": 8, "alpha": 16}, train={"learning_rate": 5e-6}),
    "rights.host-network": lambda _folder: printed(tuple(of_nodes(PodRights(), ANNOTATED))),
    "rights.bucket-get": a_bucket_that_hides_itself,
    "rights.retention": a_bucket_that_keeps_everything,
    "data.parts": answered(GivenMessage(role="user", text="[]", kind="list", written=True)),
    "data.first-empty-list": answered(error="TypeError: Couldn't cast array of type struct<id: int64> to null"),
    "data.added-column": answered(error="CastError: Couldn't cast"),
    "data.folder": a_folder_of_files,
    "checkpoint.relative": workload(model={"checkpoint": "converted/0/items"}),
    "cluster.priority": lambda _folder: printed(said(cluster_facts(priority_classes={"medium": None}))),
    "cluster.namespace-selector": a_queue(namespaceSelector={"matchLabels": {"team": "other"}}),
    "cluster.held": a_queue(stopPolicy="Hold"),
    "data.grain-files": workload(
        data={**FILES, "pipeline": "grain", "hf_path": "parquet", "train_split": DROP},
        facts=Facts(data=DataFacts(files=3)),
        tpu={"type": "v6e-16"},
        image={"maxtext": "0.2.4"},
    ),
    "tokens.beyond-vocabulary": workload(facts=Facts(tokenizer=TokenizerFacts(folder="/t", vocabulary=151_937))),
    "data.system": rows(
        {"messages": [{"role": "system", "content": "be kind"}, *CHAT["messages"]]},
        model=GEMMA,
    ),
    "data.script": workload(data={"hf_path": "team/rows"}, facts=Facts(hub_data=HubDataFacts(script="rows.py"))),
    "keys.eval-start": keys(eval_start_step=5),
    "keys.gpu-attention": keys(attention="cudnn_flash_te"),
    "keys.vertex": keys(use_vertex_tensorboard=True),
    "keys.rate": workload(train={"learning_rate": 0.05}),
    "tokens.roles": rows({"messages": [CHAT["messages"][0], *CHAT["messages"]]}, model=GEMMA),
    "tokens.file": workload(model={"tokenizer": "gs://my-bucket/spm.model"}),
    "tokens.no-template": workload(model={"name": "llama3.1-8b", "tokenizer": "meta-llama/Llama-3.1-8B"}),
    "tokens.newer-file": image(env={"ENV_DEVICE": "tpu"}, made_by=("RUN pip install tokenizers==0.19.1",)),
    "image.transformers": image(env={"ENV_DEVICE": "tpu"}, made_by=("RUN pip install transformers==4.30.0",)),
    "tokens.foreign-template": keys(
        chat_template="{% for m in messages %}<start_of_turn>{{ m['content'] }}<end_of_turn>{% endfor %}"
    ),
    "tokens.added": workload(
        model={
            "name": "llama2-7b",
            "tokenizer": "meta-llama/Llama-2-7b-chat-hf",
            "checkpoint": DROP,
            "hf": {"repo": "me/llama2-chatml"},
        },
        facts=Facts(source=SourceFacts(commit="0" * 40, vocabulary=32_002)),
    ),
    "keys.wandb": keys(enable_wandb=True),
    "adapters.scale": workload(lora={"rank": 8, "alpha": 512}),
    "data.utf16": written((f"{json.dumps(CHAT)}\n" * 4000).encode("utf-16")),
    "data.no-messages": rows({"messages": []}),
    "data.plain-text": rows({"text": "Once upon a time"}),
    "tokens.no-end": keys(chat_template="{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"),
    "tokens.pad-set-to-eos": workload(model={"pad_token": "<|im_end|>"}),
    "checkpoint.old": stored(OLD, "0/items"),
    "data.configurations": workload(
        data={"hf_path": "me/rows", "train_split": "train"},
        facts=Facts(hub_data=HubDataFacts(splits={"a": ("train",), "b": ("train",)})),
    ),
    "cluster.no-cpu": without_cpu,
    "image.jax": image(labels={**OURS, "dev.xsft.packages": "jax==0.4.35"}),
    "data.jsonl": workload(data={**FILES, "hf_path": "jsonl"}),
    "data.preference": rows({"prompt": "a", "chosen": "b", "rejected": "c"}),
    "data.answer-first": rows({"messages": [CHAT["messages"][1], *CHAT["messages"]]}),
    "data.pointer": written(b"version https://git-lfs.github.com/spec/v1\nsize 146946961\n"),
    "rights.lifecycle": a_bucket_that_forgets,
    "checkpoint.limit": workload(facts=Facts(checkpoint=LARGE)),
    "serving.heads": workload(
        model={"name": "qwen2.5-7b", "tokenizer": "Qwen/Qwen2.5-7B-Instruct"},
        stages={"export": {}, "serve": {"image": f"vllm/vllm-tpu@sha256:{'0' * 64}", "type": "v6e-8"}},
    ),
    "cluster.flavor-missing": lambda _folder: printed(said(cluster_facts(cluster_queue={**queue(), **INACTIVE}))),
    "cluster.webhook-slow": without_webhook("jobset", "context deadline exceeded"),
    "image.pull-limit": workload(
        tpu={"type": "v6e-256", "num_slices": 2}, image={"ref": f"me/trainer@sha256:{'0' * 64}"}
    ),
    "image.no-libtpu": lambda _folder: printed(
        tuple(image_said(story="qwen3_gsm8k", labels={"dev.xsft.packages": "jax==0.11.0"}))
    ),
    "rights.bucket-far": a_bucket_overseas,
    "rights.bucket-key": a_bucket_whose_key_is_refused,
    "cluster.foreign-pods": a_jobset_without_a_queue,
    "cluster.ready-timeout": a_start_longer_than_kueue_waits,
    "export.embedding": workload(image={"maxtext": "tutorial-v1.5.0"}, stages={"export": {}}),
    "export.sft-checkpoint": workload(image={"maxtext": "tutorial-v1.5.0"}, stages={"export": {}}),
}
