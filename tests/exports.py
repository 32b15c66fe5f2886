"""Trainings that can be exported: their records, and the command lines of tiny ones."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.fakes.gcs import Bucket
from tests.hfmodels import SIZES
from xsft.base import stage
from xsft.records.document import to_json
from xsft.records.jobset_paths import DIGEST_ANNOTATION, RUN_LABEL, WRITES_ANNOTATION
from xsft.records.record import Attempt, Record
from xsft.records.record_files import RecordStore
from xsft.trainer.arguments import argument
from xsft.weights.export_record import FILE, ExportRecord, Verification

MODULE = "maxtext.trainers.post_train.sft.train_sft"
LORA = {"lora.enable_lora": True, "lora.lora_rank": 4, "lora.lora_alpha": 8}


def trainer_argv(output: Path, run_name: str, *, model: str, base: str | None, **keys: object) -> tuple[str, ...]:
    """Return the argv of xsft's training of tests.hfmodels' model. `model`: the folder of the tokenizer."""
    named: dict[str, object] = {
        "run_name": run_name,
        "base_output_directory": str(output),
        "model_name": "qwen3-0.6b",
        "load_parameters_path": base,
        "tokenizer_path": model,
        "scan_layers": True,
        "steps": 2,
        "max_target_length": 64,
        **SIZES,
        **keys,
    }
    return ("python3", "-m", MODULE, *(argument(key, value) for key, value in named.items() if value is not None))  # type: ignore[arg-type]


def recorded(
    store: RecordStore, output: Path, run_name: str, argv: tuple[str, ...], *, spec: Mapping[str, object] | None = None
) -> Record:
    """Record a training of this machine that completed, as xsft does."""
    attempt = Attempt(number=1, argv=argv, outcome="completed", log=str(output / run_name / "xsft" / "trainer-1.log"))
    record = Record(
        run_name=run_name,
        spec_digest="d" * 64,
        spec=spec or {"name": run_name},
        steps=2,
        output=str(output),
        attempts=(attempt,),
    )
    file = output / run_name / "xsft" / "run.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(to_json(record))
    store.index(record, str(file))
    return record


def written_by_pod(bucket: Bucket, jobset: Mapping[str, Any]) -> str:
    """Write the model and the record that the export's pod writes, and return the folder."""
    jobset_annotations = jobset["metadata"]["annotations"]
    folder = str(jobset_annotations[WRITES_ANNOTATION])
    record = ExportRecord(
        digest=jobset_annotations[DIGEST_ANNOTATION],
        run_name=jobset["metadata"]["labels"][RUN_LABEL],
        outcome="completed",
        files={"model.safetensors": 3},
        verification=Verification(tensors=1, compared=1, trained=1, changed=1),
    )
    path = folder.removeprefix("gs://my-bucket/")
    bucket.objects[f"{path}/model.safetensors"] = b"123"
    bucket.objects[f"{path}/{FILE}"] = stage.to_json(record).encode()
    return folder
