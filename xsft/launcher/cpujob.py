"""Jobs of a training that need no chip: one process in one pod on a CPU node or, on request, on the first host of a TPU
slice; and the commands of containers. Pure data.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from xsft.base.names import JOB_MODE, StageWork, attempt_name
from xsft.base.stage import to_document
from xsft.catalog.machines import GIB, CpuType, cpu_type_for, cpu_types
from xsft.launcher.encoding import CountedArgument, encode_command
from xsft.records import attempt_stem
from xsft.records.document import facts_to_json
from xsft.records.record import AttemptFacts
from xsft.spec.conversion_inputs import RECORD_FILE, ConversionInputs, ConversionRecord
from xsft.spec.resolve import Mode, Run
from xsft.trainer.shuffling import SEED, counted_seeds
from xsft.trainer.trainer import HF_TOKEN_DIRECTORY, trainer_of
from xsft.weights.conversion_plan import SOURCE, ConversionPlan, source_job
from xsft.weights.estimates import ConversionEstimate, ExportEstimate
from xsft.weights.export_record import FILE, ExportPlan, ExportRecord
from xsft.weights.exporter import COMPARER, MODEL_FILES, comparison_job, model_files_job
from xsft.workers.delivery import pod_argv

SCRATCH = "/xsft-scratch"
"""Folder in which the pod may write."""
EXPORTED = f"{SCRATCH}/export"
"""Folder in which an export is written before it is copied to its destination."""
OF_CHIPS = ("LIBTPU_", "TPU_", "XLA_", "JAX_")
"""Prefixes of the training's variables that would stop a process on a CPU, or mean nothing to it."""


class CpuJob(Struct, frozen=True, kw_only=True):
    """One process on one CPU node."""

    work: StageWork
    run: Run
    """The workload's run under the job's own name: image, place, queue, Secrets and priority are the workload's."""
    training: str
    """run_name of the workload."""
    digest: str
    """Digest of its inputs, 64 hex digits: two jobs with one digest are the same job."""
    argv: tuple[str, ...]
    memory: int
    """Bytes of memory."""
    disk: int
    """Bytes of scratch space."""
    writes: str
    """Path of the job's result."""
    inputs: ConversionInputs | None = None
    """Inputs of a conversion; None for other work."""
    export: ExportPlan | None = None
    """Plan of an export; None for other work."""

    @property
    def on_tpu(self) -> bool:
        """Return whether it takes a TPU slice, whose chips are idle."""
        return self.run.slice is not None

    @property
    def cpus(self) -> int:
        """Return the CPUs to request, in the machine's proportion of 1 to 4 GiB: as many jobs fit as their memory
        allows."""
        return max(2, min(math.ceil(self.memory / (4 * GIB)), self.machine.vcpus * 9 // 10))

    @property
    def machine(self) -> CpuType:
        """Return the smallest machine that holds the job; the largest that xpk names if none does."""
        return cpu_type_for(self.memory) or cpu_types()[-1]

    @property
    def command(self) -> str:
        """Return the encoded command, as `xsft.launcher.cpujob.command`. Raises ValueError if it cannot be sent."""
        return encode_command(argv=self.process, env=(), mode=self.run.mode.value)

    @property
    def process(self) -> tuple[str, ...]:
        """Return the arguments of the container's process: those of the work, run by one that records its end."""
        if self.export is not None:
            return exported_argv(self.export, run=self.run)
        return self.argv if self.inputs is None else _converting_argv(self, self.inputs)

    @property
    def env(self) -> dict[str, str]:
        """Return the variables of the job's container."""
        variables = {"HF_HOME": f"{SCRATCH}/huggingface", "JAX_PLATFORMS": "cpu"}
        variables |= {name: value for name, value in self.run.spec.env.items() if not name.startswith(OF_CHIPS)}
        token = self.run.spec.secrets.hf_token
        if token:
            variables["HF_TOKEN_PATH"] = f"{HF_TOKEN_DIRECTORY}/{token.key}"
        return variables

    def attempt(self, number: int) -> CpuJob:
        """Return the same job under the name of its nth attempt."""
        run = cpu_job_run(self.run, run_name=self.run.run_name, attempt=number, on_tpu=self.on_tpu)
        return replace(self, run=run)

    @property
    def memory_quantity(self) -> str:
        return f"{math.ceil(self.memory / GIB)}Gi"


def conversion_job(plan: ConversionPlan, run: Run, needs: ConversionEstimate, *, on_tpu: bool = False) -> CpuJob:
    """Return the conversion job of the workload's run; the pod writes to the output itself, so only the download needs
    its disk."""
    return CpuJob(
        work="convert",
        run=cpu_job_run(run, run_name=plan.run_name, attempt=1, on_tpu=on_tpu),
        training=plan.training,
        digest=plan.digest,
        argv=plan.argv,
        memory=needs.memory,
        disk=needs.download,
        writes=plan.checkpoint,
        inputs=plan.inputs,
    )


def export_job(plan: ExportPlan, run: Run, needs: ExportEstimate) -> CpuJob:
    """Return the export job of the workload's run; the model is written to the pod's disk before it is copied."""
    return CpuJob(
        work="export",
        run=cpu_job_run(run, run_name=plan.run_name, attempt=1),
        training=plan.training,
        digest=plan.digest,
        argv=plan.argv,
        memory=needs.memory,
        disk=needs.disk,
        writes=plan.writes,
        export=plan,
    )


def _converting_argv(job: CpuJob, inputs: ConversionInputs) -> tuple[str, ...]:
    """Return the container's command. A commit that only the hub named is in the record, as on this machine."""
    run = job.run
    record = ConversionRecord(digest=job.digest, run_name=run.run_name, argv=job.argv, inputs=dict(to_builtins(inputs)))
    comparison = None
    if run.release.layout != "legacy":
        comparison = {"module": SOURCE, "notes": source_job(inputs, job.writes, seed=0, size=job.disk)}
    return recorded_argv(
        job.argv,
        record=record,
        end=noted_end(run),
        checkpoint=job.writes,
        comparison=comparison,
        carried=run.evaluation_program,
    )


def job_run(run: Run, *, run_name: str, attempt: int, process: str) -> Run:
    """Return the workload's run as a job of it: under another name, and in the mode of jobs. `process`: how it
    runs."""
    mode = Mode(value=JOB_MODE, reason=process)
    return replace(run, run_name=run_name, attempt=attempt, jobset=attempt_name(run_name, attempt), mode=mode)


def cpu_job_run(run: Run, *, run_name: str, attempt: int, on_tpu: bool = False) -> Run:
    """Return the workload's run as its job on a CPU node, or on one slice of the workload's TPU type."""
    if not on_tpu:
        off_slice = replace(run, slice=None)
        return job_run(off_slice, run_name=run_name, attempt=attempt, process="one process on a CPU node")
    tpu = run.spec.tpu.model_copy(update={"num_slices": 1}) if run.spec.tpu else None
    on_slice = replace(run, spec=run.spec.model_copy(update={"tpu": tpu}))
    return job_run(on_slice, run_name=run_name, attempt=attempt, process="one process on the first host of a slice")


def command(run: Run) -> str:
    """Return the trainer's command line, encoded to survive xpk's YAML, Kubernetes' `$()` and bash."""
    trainer = trainer_of(run)
    counted = None
    if seeds := counted_seeds(run):
        counted = CountedArgument(key=SEED, first=seeds.first, each=seeds.per_restart)
    return encode_command(
        argv=trainer.trainer_argv(run), env=trainer.command_env(run), mode=run.mode.value, counted=counted
    )


def proxy_args(run: Run) -> tuple[str, ...]:
    """Return the arguments of the Pathways proxy: XLA flags act there (maxtext@0.2.5 benchmarks/maxtext_xpk_runner.py
    _get_pathways_proxy_flags)."""
    flags = run.spec.pathways.proxy_args if run.spec.pathways else ()
    return (*flags, *run.spec.xla_flags)


def noted_end(run: Run) -> dict[str, Any]:
    """Return the document of the end, without outcome and time, and its path, without `.<outcome>.json`. `run`: of this
    attempt."""
    end = AttemptFacts(outcome="completed", at="", submitter="container")
    return {
        "attempt": json.loads(facts_to_json(end, run_name=run.run_name, number=run.attempt)),
        "attempt_stem": attempt_stem(str(run.output), run.run_name, run.attempt),
    }


CONVERSION_PROGRAM = "xsft.workers.conversion_container"


def recorded_argv(
    argv: tuple[str, ...],
    *,
    record: ConversionRecord,
    end: Mapping[str, Any],
    checkpoint: str,
    comparison: Mapping[str, Any] | None = None,
    carried: str | None = None,
) -> tuple[str, ...]:
    """Return the command that runs `argv` and records its end, even if no xsft waits for it: a program of the
    image's Python (`container`).

    Arguments:
        record: Written beside the result before the converter starts, and again at its end.
        end: `attempt`, the document of the end of the run's attempt without outcome and time, and `attempt_stem`, its
            path without `.<outcome>.json`.
        checkpoint: Path of the result, `<try>/0/items`.
        comparison: Question to the program that compares it with its source, `{"module", "notes"}`; None: the image's
            MaxText has no tables for it.
        carried: As in `pod_argv`.
    """
    path = f"{checkpoint.removesuffix('/0/items')}/{RECORD_FILE}"
    notes = {"record": to_document(record), **end, "checkpoint": checkpoint, "record_path": path}
    if comparison is not None:
        notes["comparison"] = comparison
    return pod_argv(CONVERSION_PROGRAM, notes, argv, carried=carried)


EXPORT_PROGRAM = "xsft.workers.export_container"


def exported_argv(plan: ExportPlan, *, run: Run) -> tuple[str, ...]:
    """Return the command that exports, verifies, copies and records the end. `run`: of this attempt."""
    notes = export_notes(plan, argv=plan.argv) | noted_end(run)
    return pod_argv(EXPORT_PROGRAM, notes, plan.argv, carried=run.evaluation_program)


def export_notes(plan: ExportPlan, *, argv: tuple[str, ...], logits: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return what the program does, wherever it runs. `argv`: the exporter's command, with the machine's interpreter;
    `logits`: how they are compared, or why not."""
    inputs = dict(to_builtins(plan.inputs))
    record = ExportRecord(digest=plan.digest, run_name=plan.run_name, argv=argv, inputs=inputs)
    return {
        "record": to_document(record),
        "record_path": f"{plan.directory}/{FILE}",
        "directory": plan.directory,
        "folder": plan.folder,
        "hub": plan.inputs.hub,
        "title": f"xsft export {plan.digest}",
        "model_files": {"module": MODEL_FILES, "notes": model_files_job(plan, folder=plan.folder)},
        "comparison": {"module": COMPARER, "notes": comparison_job(plan, folders=(plan.folder,), seed=0)},
        **(logits or {}),
    }
