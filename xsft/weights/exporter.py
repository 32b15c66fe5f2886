"""Plan an export of MaxText's weights from the record of their training. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from msgspec import Struct, to_builtins

from xsft.base.errors import Refused, UsageError
from xsft.catalog.hf_config import FIELDS, WRITTEN, written_fields
from xsft.catalog.models import model, pins
from xsft.catalog.releases import DEFAULT, Release, release, versions
from xsft.catalog.sizes import CHANGES_ARRAYS, changed_sizes
from xsft.catalog.weights import weights_failure
from xsft.records.record import Record
from xsft.spec.conversion_inputs import is_folder
from xsft.spec.export_inputs import FORMS, REPOSITORY, ExportDtype, ExportForm, ExportInputs, ExportSource, LoraScale
from xsft.spec.paths import HERE
from xsft.spec.yamltext import load_yaml
from xsft.trainer.arguments import argument
from xsft.trainer.tokenizer_copy import TokenizerCopy, split_copying
from xsft.weights.export_record import ALL_BELOW_BYTES, SAMPLE, ExportPlan
from xsft.workers.delivery import text_of

STAGE = "export"
HF_MODEL_PATH = "--hf_model_path="
SHAPING = frozenset({*CHANGES_ARRAYS, "param_scan_axis", "scan_layers"})
"""Keys of the training that the exporter needs as well."""
ROPE = "rope_"
"""Start of the keys that the exporter writes into config.json. source: maxtext@0.2.5
checkpoint_conversion/to_huggingface.py _apply_yarn_rope_config"""

LOGITS_KEYS: Mapping[str, Any] = MappingProxyType(
    {
        "dtype": "float32",
        "attention": "dot_product",
        "hardware": "cpu",
        "skip_jax_distributed_system": True,
        "per_device_batch_size": 1,
        "log_config": False,
        "enable_goodput_recording": False,
        "enable_single_controller": False,
    }
)
"""Keys of a forward pass on this machine."""
LORA_EXPORTER = "xsft.workers.export_lora"
"""Program that runs MaxText's exporter for adapters."""
COMPARER = "xsft.workers.compare_export"
"""Program that answers `comparison_job`."""
MODEL_FILES = "xsft.workers.model_files"
"""Program that answers `model_files_job`."""
NOT_HERE = ("ici_", "dcn_", "lora.lora_restore_path=")
"""Keys of meshes, whose devices this machine lacks."""


class ExportRequest(Struct, frozen=True, kw_only=True):
    """The user's request for an export."""

    form: ExportForm | None = None
    """None: `merged` after LoRA, else `full`."""
    dtype: ExportDtype = "bfloat16"
    step: int | None = None
    """None: the newest."""
    hub: str | None = None
    """Repository of the hub that gets the files, `owner/name`."""


class TrainedRun(Struct, frozen=True, kw_only=True):
    """The training whose weights are exported, by its record or, before it began, by its plan."""

    run_name: str
    spec_digest: str
    argv: tuple[str, ...]
    """Command line of the trainer."""
    output: str
    """base_output_directory, without a slash at its end."""
    release: str
    """Release of MaxText."""
    tokenizer_name: str = ""
    """As in `ExportInputs`."""
    source: ExportSource | None = None
    """The weights of model.hf; None: the workload names none."""


class TrainerWords(Struct, frozen=True, kw_only=True):
    """The command line of a training, taken apart."""

    keys: Mapping[str, str]
    """Each key with its text as MaxText received it."""
    copied: TokenizerCopy | None
    """The tokenizer that the training copied, with other tokens; None: it used one unchanged."""

    def value(self, key: str) -> Any:
        """Return the value as MaxText reads it; None without the key."""
        return load_yaml(self.keys[key]) if key in self.keys else None

    @property
    def values(self) -> dict[str, Any]:
        """Return each key with its value as MaxText reads it."""
        return {key: self.value(key) for key in self.keys}

    def text(self, key: str) -> str | None:
        value = self.value(key)
        return value if isinstance(value, str) and value else None


def words_of(argv: tuple[str, ...]) -> TrainerWords:
    """Return the keys of a trainer's command line."""
    copied, words = split_copying(argv[1:])
    pairs = (word.partition("=") for word in words if "=" in word and not word.startswith("-"))
    return TrainerWords(keys={key: text for key, _, text in pairs}, copied=copied)


def trained_run(record: Record, *, output: str) -> TrainedRun:
    """Return the training of a record that has an attempt. `output`: base_output_directory, which may have moved."""
    image = record.spec.get("image")
    version = image.get("maxtext") if isinstance(image, Mapping) else None
    model_section = record.spec.get("model")
    tokenizer = str(model_section.get("tokenizer")) if isinstance(model_section, Mapping) else ""
    return TrainedRun(
        run_name=record.run_name,
        spec_digest=record.spec_digest,
        argv=record.last.argv,
        output=output.rstrip("/"),
        release=version if version in versions() else DEFAULT,
        tokenizer_name=tokenizer if tokenizer.startswith(HERE) else "",
        source=_recorded_source(record),
    )


def _recorded_source(record: Record) -> ExportSource | None:
    """Return the weights of the workload's model.hf: its repository, or the folder that the conversion read. A record
    names a folder by its content, or by a path relative to an unknown one."""
    match record.spec.get("model"):
        case {"hf": {"repo": str(repo), **rest}} if re.fullmatch(REPOSITORY, repo) or repo.startswith("/"):
            revision = rest.get("revision")
            return ExportSource(repo=repo, revision=revision if isinstance(revision, str) else None)
        case {"hf": _}:
            argv = record.last.resolved.get("conversion_argv") or ()
            paths = (word.partition(HF_MODEL_PATH)[2] for word in argv)
            folder = next((path for path in paths if path.startswith("/")), None)
            return ExportSource(repo=folder) if folder else None
        case _:
            return None


def export_inputs(
    trained: TrainedRun, request: ExportRequest, *, step: int, content: str, converted: ExportSource | None = None
) -> ExportInputs:
    """Return the inputs of the export. `step`: of the checkpoint; `content`: the digest of its small files;
    `converted`: what the conversion of the initial checkpoint recorded.

    Raises UsageError or Refused, by id, for what MaxText's exporter cannot export.
    """
    words = words_of(trained.argv)
    name = words.text("model_name") or "default"
    made_by = release(trained.release)
    _refuse_model(trained, name, made_by, scan_layers=words.value("scan_layers") is not False)
    lora = _lora(words)
    form = _form(trained, request, words)
    copied = words.copied
    tokenizer = copied.tokenizer if copied else words.text("tokenizer_path") or model(name).hf_id
    return ExportInputs(
        training=trained.run_name,
        training_digest=trained.spec_digest,
        step=step,
        weights=weights_path(trained, step=step),
        content=content,
        form=form,
        dtype=request.dtype,
        release=made_by.version,
        model=name,
        keys=tuple(f"{key}={text}" for key, text in words.keys.items() if key in SHAPING or key.startswith(ROPE)),
        base=words.text("load_parameters_path"),
        tokenizer=str(tokenizer),
        tokenizer_name=trained.tokenizer_name,
        tokenizer_revision=copied.revision if copied else None,
        pad_token=copied.pad_token if copied else "",
        bos_token=copied.bos_token if copied else "",
        template=words.text("chat_template"),
        lora=lora,
        hub=request.hub,
        source=converted or trained.source or _guessed_source(words, name, tokenizer=str(tokenizer)),
    )


def _guessed_source(words: TrainerWords, name: str, *, tokenizer: str) -> ExportSource | None:
    """Return MaxText's repository of the model, for weights of unknown origin that may be its own. A training whose
    tokenizer is on the machine needs no hub, so that none is asked."""
    own_sizes = changed_sizes(name, words.values)
    repo = model(name).hf_id
    if repo is None or own_sizes or is_folder(tokenizer) or words.text("load_parameters_path") is None:
        return None
    return ExportSource(repo=repo, guessed=True)


def weights_path(trained: TrainedRun, *, step: int) -> str:
    return f"{trained.output}/{trained.run_name}/checkpoints/{step}/model_params"


def export_argv(inputs: ExportInputs, *, directory: str) -> tuple[str, ...]:
    """Return `python3 -m …to_huggingface …`, which writes the Hugging Face folder into `directory`."""
    keys = tuple(argument(key, value) for key, value in _paths(inputs).items() if value is not None)
    added: dict[str, Any] = {"hardware": "cpu", "skip_jax_distributed_system": True, "weight_dtype": inputs.dtype}
    text_only = {} if pins(inputs.model).get("use_multimodal") is True else {"use_multimodal": False}
    return (
        "python3",
        *(("-c", text_of(LORA_EXPORTER)) if inputs.lora else ("-m", release(inputs.release).to_huggingface)),
        argument("model_name", _exporters_name(inputs)),
        *inputs.keys,
        *keys,
        argument("base_output_directory", directory),
        *(argument(key, value) for key, value in {**added, **text_only}.items()),
        "--override_model_architecture=True",  # its own copies differ from its models, and are not exported
        f"{HF_MODEL_PATH}{inputs.tokenizer}",
    )


def checked_argv(inputs: ExportInputs) -> tuple[str, ...]:
    """Return the command whose keys describe the model to the program that verifies the export."""
    cpu = ("hardware=cpu", "skip_jax_distributed_system=True", f"weight_dtype={inputs.dtype}")
    module = release(inputs.release).to_huggingface
    return ("python3", "-m", module, argument("model_name", _exporters_name(inputs)), *inputs.keys, *cpu)


def _exporters_name(inputs: ExportInputs) -> str:
    """Return the name in the exporter's tables: they lack names of instruction-tuned weights, and `to_maxtext` converts
    X-Instruct as X."""
    return inputs.model.replace("-Instruct", "")


def comparison_job(plan: ExportPlan, *, folders: tuple[str, ...], seed: int) -> dict[str, Any]:
    """Return the question to COMPARER. `seed`: of the choice of tensors, where not all are compared."""
    inputs = plan.inputs
    is_large = (plan.weights_bytes or 0) >= ALL_BELOW_BYTES
    return {
        "argv": list(checked_argv(inputs)),
        "form": inputs.form,
        "dtype": inputs.dtype,
        "weights": inputs.weights,
        "base": inputs.base,
        "scaling": inputs.lora.alpha / inputs.lora.rank if inputs.lora else None,
        "folders": list(folders),
        "sample": SAMPLE if is_large else None,
        "seed": seed,
    }


def model_files_job(plan: ExportPlan, *, folder: str) -> dict[str, Any]:
    """Return the question to MODEL_FILES. `folder`: of the exported model."""
    inputs = plan.inputs
    keys = words_of(plan.trainer_argv).values
    revision = inputs.tokenizer_revision
    # The weights' own repository has the tokenizer at the revision of the weights.
    if revision is None and inputs.source and inputs.source.repo == inputs.tokenizer:
        revision = inputs.source.revision
    return {
        "folder": folder,
        "tokenizer": inputs.tokenizer,
        "tokenizer_revision": revision,
        "pad_token": inputs.pad_token,
        "bos_token": inputs.bos_token,
        "template": inputs.template,
        "source": to_builtins(inputs.source),
        "dtype": inputs.dtype,
        "computed": written_fields(inputs.model, keys, version=inputs.release),
        "changed": [field for field in WRITTEN if FIELDS[field][0] in keys],
        "own_rope": keys.get("rope_type") == "yarn" or "rope_factor" in keys,
    }


def logits_argv(plan: ExportPlan) -> tuple[str, ...]:
    """Return the trainer's command with the exported weights, for one CPU device and in float32. The weights are
    rounded as the export's are, those of a merged export later (`merged_dtype`)."""
    inputs = plan.inputs
    weights = {"load_parameters_path": inputs.base if inputs.lora else inputs.weights}
    adapters = {"lora.lora_restore_path": inputs.weights} if inputs.lora else {}
    weight_dtype = "float32" if merged_dtype(inputs) else inputs.dtype
    return forward_argv(plan.trainer_argv, {**weights, **adapters, "weight_dtype": weight_dtype})


def forward_argv(trainer_argv: tuple[str, ...], weights: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the trainer's command for one forward pass on a CPU device in float32. `weights`: the keys that name the
    weights."""
    added = {**weights, **LOGITS_KEYS}
    module = trainer_argv.index("-m")
    words = (word for word in trainer_argv[module:] if not word.startswith(NOT_HERE))
    unchanged = tuple(word for word in words if word.partition("=")[0] not in added)
    return ("python3", *unchanged, *(argument(key, value) for key, value in added.items()))


def merged_dtype(inputs: ExportInputs) -> ExportDtype | None:
    """Return the data type to which the export rounded the sum of base and adapters; None if it rounded no sum."""
    return inputs.dtype if inputs.form == "merged" and inputs.dtype != "float32" else None


def _paths(inputs: ExportInputs) -> dict[str, Any]:
    """Return the keys that name the weights. source: maxtext@0.2.5 checkpoint_conversion/to_huggingface.py main."""
    scale = {"lora.lora_rank": inputs.lora.rank, "lora.lora_alpha": inputs.lora.alpha} if inputs.lora else {}
    match inputs.form:
        case "full":
            return {"load_parameters_path": inputs.weights}
        case "adapters":
            return {"lora.lora_restore_path": inputs.weights, **scale}
        case "merged":
            return {"load_parameters_path": inputs.base, "lora.lora_restore_path": inputs.weights, **scale}


def _refuse_model(trained: TrainedRun, name: str, made_by: Release, *, scan_layers: bool) -> None:
    if made_by.layout == "legacy" or not made_by.reads_sft_checkpoint:
        raise Refused(
            f"{trained.run_name} was trained by MaxText {made_by.version}, whose exporter cannot read SFT checkpoints",
            fix=f"Train with image.maxtext: {DEFAULT}.",
            id="export-legacy",
        )
    failure = weights_failure(name, stage="export", version=made_by.version, scan_layers=scan_layers)
    if failure is not None:
        raise UsageError(
            f"MaxText {made_by.version} cannot export the model {name!r} to Hugging Face: {failure.why}",
            fix="Read its checkpoint with MaxText; `xsft check` says before a training which models can be exported.",
            id="export-model",
        )


def _lora(words: TrainerWords) -> LoraScale | None:
    if words.value("lora.enable_lora") is not True:
        return None
    return LoraScale(rank=int(words.value("lora.lora_rank")), alpha=float(words.value("lora.lora_alpha")))


def _form(trained: TrainedRun, request: ExportRequest, words: TrainerWords) -> ExportForm:
    """Return the requested form, or the default. Raises UsageError if the training has no such export."""
    is_lora = _lora(words) is not None
    form = request.form or ("merged" if is_lora else "full")
    if is_lora == (form == "full"):
        allowed = ", ".join(form for form in FORMS if (form != "full") == is_lora)
        kind = "with LoRA" if is_lora else "without LoRA"
        raise UsageError(
            f"{trained.run_name} was trained {kind}, so it has no {form} export",
            fix=f"Use: {allowed}.",
            id="export-form",
        )
    if is_lora and words.text("load_parameters_path") is None:
        raise UsageError(
            f"{trained.run_name} trained adapters of a model with random weights, which no checkpoint contains",
            fix="Train LoRA from model.hf or model.checkpoint.",
            id="export-no-base",
        )
    return form
