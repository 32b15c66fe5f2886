"""Exports by the real MaxText, judged by their tensors, by NumPy, and by an engine that shares no code with it."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from msgspec import Struct

from tests.checks.factory import DROP, ids, spec
from tests.cpujobs import plan_of
from tests.exports import LORA, recorded, trainer_argv
from tests.fakes.gcs import Bucket, serving
from tests.hfmodels import write_model, write_safetensors
from tests.maxtext import answer, environment
from tests.podshell import command_of, executable
from tests.replacing import replace
from tests.stories import intent_of, spec_of, varied
from xsft.catalog.hf_config import source_fields
from xsft.catalog.machines import GIB
from xsft.catalog.weights import model_type
from xsft.checks import conversion
from xsft.checks.facts import Facts
from xsft.environments.installed import BuiltEnvironment
from xsft.launch.local_machine import Machine
from xsft.launcher.cpujob import export_job
from xsft.machine.pid_namespace import Containment
from xsft.machine.process import own_environment
from xsft.records.record_files import RecordStore, record_store
from xsft.spec.facts import SourceFacts
from xsft.stages.export import ExportResult, ExportWork
from xsft.stages.exported import plan_export, read_folder, sizes_in, training_of
from xsft.stages.once import do_once
from xsft.stages.verify import ExportShop, ask_worker, problems_of_logits, verify_logits
from xsft.weights.estimates import ExportEstimate
from xsft.weights.export_record import FILE, ExportPlan, Verification, from_json, missing_files
from xsft.weights.exporter import COMPARER, ExportRequest, comparison_job
from xsft.workers.export_judging import judged, read_headers

pytestmark = [pytest.mark.contract, pytest.mark.maxtext]
WRITER, CONFIGURATIONS = (
    Path(__file__).with_name(f"{name}.py") for name in ("write_trained", "maxtext_configurations")
)
ENGINES = {"rms_norm_eps": 1e-6, "rope_theta": 1e6, "max_position_embeddings": 2048}
TEMPLATE = "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}<|end|>\n{% endfor %}"
ADAPTERS = ExportRequest(form="adapters")


class Lab(Struct, frozen=True, kw_only=True):
    """A full training, one with LoRA, and the base of both."""

    folder: Path
    store: RecordStore
    machine: Machine
    engine: BuiltEnvironment

    @property
    def bucket(self) -> str:
        """A folder that pods mount."""
        return str(self.folder / "bucket")

    def plan(self, run_name: str, export_request: ExportRequest) -> ExportPlan:
        return plan_export(training_of(run_name, self.store), export_request, self.store)

    def export(self, run_name: str, export_request: ExportRequest, *, logits: bool) -> ExportResult:
        work = ExportWork(
            look=lambda: self.plan(run_name, export_request),
            machine=lambda: self.machine,
            say=lambda _line: None,
            engine=(lambda: self.engine) if logits else None,
        )
        return do_once(work)

    def shop(self, **env: str) -> ExportShop:
        machine = Machine(python=self.machine.python, env={**self.machine.env, **env}, cache=self.machine.cache)
        return ExportShop(machine=machine, scratch=self.folder / "scratch", logs=self.folder)

    def objects(self) -> dict[str, bytes]:
        """The checkpoints of the base and of the full training, as a bucket holds them."""
        files = (file for name in ("base", "tiny") for file in (self.folder / name).rglob("*") if file.is_file())
        return {str(file.relative_to(self.folder)): file.read_bytes() for file in files}


@pytest.fixture(scope="module")
def lab(
    tmp_path_factory: pytest.TempPathFactory,
    warm_python: Path,
    inference_engine: BuiltEnvironment,
    private_pids: Containment,
) -> Lab:
    folder = tmp_path_factory.mktemp("export")
    model = write_model(folder / "model", config=ENGINES)
    argv = (warm_python, "-I", WRITER, model, folder)
    subprocess.run(argv, check=True, env=environment(str(folder)), capture_output=True)
    env = own_environment(XSFT_STATE_DIR=str(folder / "state"), XSFT_CACHE_DIR=str(folder / "cache"))
    store = record_store(env)
    given: dict[str, Any] = {"model": str(model), "base": str(folder / "base" / "0" / "items")}
    recorded(store, folder, "tiny", trainer_argv(folder, "tiny", **given, chat_template=TEMPLATE))
    recorded(store, folder, "tinylora", trainer_argv(folder, "tinylora", **given, **LORA))
    (folder / "scratch").mkdir()
    machine = Machine(python=warm_python, env=env, cache=folder / "cache")
    return Lab(folder=folder, store=store, machine=machine, engine=inference_engine)


@pytest.fixture(scope="module")
def full(lab: Lab) -> ExportResult:
    return lab.export("tiny", ExportRequest(), logits=False)


@pytest.fixture(scope="module")
def merged(lab: Lab) -> ExportResult:
    return lab.export("tinylora", ExportRequest(dtype="float32"), logits=False)


@pytest.fixture(scope="module")
def adapters(lab: Lab) -> Path:
    """The folder that the command of a job's container writes, started as a kubelet starts it."""
    trained = training_of("tinylora", lab.store)
    export_plan = plan_export(trained, ADAPTERS, lab.store, output=lab.bucket, folder=str(lab.folder / "pod"))
    run = replace(intent_of(varied(spec_of("gemma2_ultrachat"), {"output": lab.bucket})).run, evaluation_program=None)
    job = export_job(export_plan, run, ExportEstimate(memory=GIB, disk=GIB))
    pod = plan_of(job).manifest["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    command, env = command_of(pod["spec"]["containers"][0], metadata=pod["metadata"])
    executable(lab.folder / "python3", f'#!/bin/sh\nexec {lab.machine.python} "$@"\n')
    here = environment(str(lab.folder)) | {"PATH": f"{lab.folder}:/usr/bin:/bin", "HF_HOME": str(lab.folder / "hub")}
    argv = (*lab.machine.contain().prefix, *command)
    done = subprocess.run(argv, env={**env, **here}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout[-3000:], done.stderr[-3000:])
    return Path(export_plan.directory)


def test_a_full_export_is_verified_and_gives_the_trained_answer(full: ExportResult, lab: Lab) -> None:
    assert (full.end.outcome, full.end.reason) == ("completed", None)
    assert full.end.verification is not None
    assert (full.end.verification.compared, full.end.verification.changed) == (310, 310)
    folder = Path(str(full.end.result))
    assert (folder / "chat_template.jinja").read_text() == TEMPLATE
    generation = json.loads((folder / "generation_config.json").read_text())
    assert generation["eos_token_id"] == [0]
    again = lab.export("tiny", ExportRequest(), logits=False)
    assert (again.action, again.end.result) == ("finished", full.end.result)


def test_verification_detects_each_wrong_layout(full: ExportResult, lab: Lab) -> None:
    """By one start of MaxText for the values, which TensorStore reads from a bucket, and one for the logits, of all
    folders together."""
    assert full.end.result
    right = Path(full.end.result)
    wrong = list(wrong_layouts(right, lab.folder / "wrong"))
    trained, base = "gs://my-bucket/tiny/checkpoints/2/model_params", "gs://my-bucket/base/0/items"
    in_bucket = replace(full.plan, inputs=replace(full.plan.inputs, weights=trained, base=base))
    with serving(Bucket(objects=lab.objects())) as bucket:
        verifications = verify_folders(in_bucket, (right, *wrong), lab.shop(TENSORSTORE_GCS_HTTP_URL=bucket.url))
    assert [verification.passed for verification in verifications] == [True, *(False for _ in wrong)]
    messages = {
        path.name: " ".join(verification.problems) for path, verification in zip(wrong, verifications[1:], strict=True)
    }
    assert "differ from the checkpoint" in messages["scan-axis"]
    assert "28 tensors differ" in messages["transposed"]
    assert "1 tensors are missing: model.norm.weight" in messages["missing-norm"]
    assert "lm_head.weight" in messages["untied-head"]
    logits = verify_logits(full.plan, (right, *wrong), lab.shop(), engine=lab.engine)
    differences = [problems_of_logits(verdict, dtype=full.plan.inputs.dtype) for verdict in logits]
    assert [bool(problems) for problems in differences] == [False, *(True for _ in wrong)], logits


def test_a_pod_exports_verifies_copies_and_records_the_end_last(adapters: Path, lab: Lab) -> None:
    record = from_json((adapters / FILE).read_bytes())
    assert record is not None
    assert (record.outcome, record.reason) == ("completed", None)
    assert record.verification is not None
    assert (record.verification.tensors, record.verification.compared) == (2 * 196, 196)
    assert not missing_files(record, sizes=sizes_in(adapters))
    assert {"adapter_config.json", "adapter_model.safetensors", "tokenizer.json"} <= record.files.keys()
    last = max((adapters / name for name in (*record.files, FILE)), key=lambda file: file.stat().st_mtime_ns)
    assert last == adapters / FILE
    export_plan = plan_export(training_of("tinylora", lab.store), ADAPTERS, lab.store, output=lab.bucket, folder="/pod")
    assert export_plan.whole == str(adapters)


def test_adapters_times_their_scale_on_the_base_are_the_merged_model(
    merged: ExportResult, adapters: Path, lab: Lab
) -> None:
    assert (merged.end.outcome, merged.end.reason) == ("completed", None)
    assert merged.end.verification is not None
    assert (merged.end.verification.trained, merged.end.verification.changed) == (196, 196)
    peft = arrays(adapters)
    scale = json.loads((adapters / "adapter_config.json").read_text())
    held = arrays(Path(str(merged.end.result)))
    base = arrays(lab.folder / "model")
    assert len(peft) == 2 * 196
    for name, before in base.items():
        plain = f"base_model.model.{name.removesuffix('.weight')}"
        lora_a, right = (peft.get(f"{plain}.lora_{end}.weight") for end in "AB")
        expected = (
            before if lora_a is None or right is None else before + scale["lora_alpha"] / scale["r"] * (right @ lora_a)
        )
        np.testing.assert_allclose(held[name], expected, rtol=1e-5, atol=1e-6, err_msg=name)


def test_a_merged_export_in_bfloat16_answers_as_maxtext_with_the_rounded_sum(merged: ExportResult, lab: Lab) -> None:
    """The tensors of the merged export, rounded: what the exporter writes for bfloat16."""
    exact = Path(str(merged.end.result))
    tensors = {name: rounded(tensor) for name, tensor in arrays(exact).items()}
    right = copied(exact, lab.folder / "rounded", tensors)
    mixed = {name: tensor.T if name.endswith("self_attn.o_proj.weight") else tensor for name, tensor in tensors.items()}
    wrong = copied(exact, lab.folder / "rounded-transposed", mixed)
    plan = lab.plan("tinylora", ExportRequest(dtype="bfloat16"))
    logits_verdicts = verify_logits(plan, (right, wrong, exact), lab.shop(), engine=lab.engine)
    differences = [problems_of_logits(verdict, dtype="bfloat16") for verdict in logits_verdicts]
    assert [bool(problems) for problems in differences] == [False, True, True], logits_verdicts


def rounded(values: Any) -> Any:
    """To the nearest value of bfloat16, ties to even; still float32."""
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).view(np.float32)


def verify_folders(plan: ExportPlan, folders: tuple[Path, ...], shop: ExportShop) -> list[Verification]:
    """Compare several folders with the checkpoint by one start of MaxText."""
    job = comparison_job(plan, folders=tuple(map(str, folders)), seed=1)
    answer = ask_worker(COMPARER, job, shop, online=True)
    pairs = zip(folders, answer["folders"], strict=True)
    dtype = plan.inputs.dtype
    return [
        Verification(**judged(*read_folder(export_folder), answer=answer, of=said, dtype=dtype))
        for export_folder, said in pairs
    ]


def wrong_layouts(right: Path, folder: Path) -> Iterator[Path]:
    """Copies of an export, each with one mistake."""
    tensors = arrays(right)
    names = [f"model.layers.{i}.self_attn.o_proj.weight" for i in range(28)]
    stacked = np.stack([tensors[name] for name in names], axis=1)  # as MaxText stacks them
    axis = {name: stacked.reshape(28, 64, 64)[i] for i, name in enumerate(names)}
    yield copied(right, folder / "scan-axis", {**tensors, **axis})
    yield copied(right, folder / "transposed", {**tensors, **{name: tensors[name].T for name in names}})
    without = {name: tensor for name, tensor in tensors.items() if name != "model.norm.weight"}
    yield copied(right, folder / "missing-norm", without)
    head = np.random.default_rng(3).normal(0, 0.02, tensors["model.embed_tokens.weight"].shape)
    untied = copied(right, folder / "untied-head", {**tensors, "lm_head.weight": head.astype(np.float32)})
    config = json.loads((untied / "config.json").read_text())
    (untied / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": False}))
    yield untied


def copied(right: Path, folder: Path, tensors: Mapping[str, Any]) -> Path:
    shutil.copytree(right, folder)
    write_safetensors(folder / "model.safetensors", tensors)
    return folder


def arrays(folder: Path) -> dict[str, Any]:
    """The tensors of a folder in float32, read without any library of MaxText's."""
    (file,) = folder.glob("*.safetensors")
    content = file.read_bytes()
    body = content[8 + int.from_bytes(content[:8], "little") :]
    found = {}
    for name, header in read_headers(*read_folder(folder)).items():
        part = body[header.begin : header.end]
        wide = np.frombuffer(part, "<u2").astype("<u4") << 16 if header.dtype == "BF16" else np.frombuffer(part, "<u4")
        found[name] = wide.view("<f4").reshape(header.shape)
    return found


@pytest.fixture(scope="module")
def configurations(maxtext_python: Path) -> dict[str, dict[str, Any]]:
    """The configurations of Hugging Face that MaxText keeps of its models."""
    return cast("dict[str, dict[str, Any]]", answer(maxtext_python, CONFIGURATIONS))


def test_model_types_are_those_of_the_exporters_configurations(configurations: dict[str, dict[str, Any]]) -> None:
    assert {name: model_type(name) for name in configurations} == {
        name: configuration["model_type"] for name, configuration in configurations.items()
    }


MISCOPIED = {
    *("gemma2-9b", "gemma2-27b"),  # query_pre_attn_scalar; MaxText scales by head_dim, wrong for the hub's gemma2-27b
    *("gemma3-4b", "gemma3-12b", "gemma3-27b"),  # the activation, and rope_theta of global layers
    *("qwen3-4b-thinking-2507", "llama3.1-405b"),  # rope_theta
    *("olmo3-7b", "olmo3-32b"),  # RoPE without YaRN
}
"""Models of which MaxText's copy of the configuration differs from its own model: it exported the copy."""


def test_configurations_tell_the_catalogues_models(configurations: dict[str, dict[str, Any]]) -> None:
    for name, configuration in configurations.items():
        local = spec(
            target="local", tpu=DROP, place=DROP, model={"name": name, "checkpoint": DROP, "hf": {"repo": "./mine"}}
        )
        reported = ids(conversion.check, local, Facts(source=SourceFacts(fields=source_fields(configuration))))
        assert reported == ({"weights-config"} if name in MISCOPIED else set()), name
