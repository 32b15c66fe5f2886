"""Converts Hugging Face weights on this machine: MaxText's to_maxtext in its environment, monitored and verified."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from xsft.base.acceptance import accept_late
from xsft.base.errors import AlreadyRunning, EnvironmentMissing, RunFailed
from xsft.base.problems import Problem, errors_in, warning
from xsft.base.stage import StageFound, to_json
from xsft.checks.cpu_job import CONVERSION_DISK, CONVERSION_MEMORY, CONVERSION_UNCHECKED
from xsft.launch.local_machine import Machine, program_environment
from xsft.launch.local_run import ProgramEnd, follow_program
from xsft.launch.recording import StageRun, beside_fields
from xsft.machine import clock
from xsft.machine.filelock import exclusive
from xsft.machine.files import write_atomic
from xsft.machine.parallel import repeat_call
from xsft.machine.paths import private_folder, scratch_folder
from xsft.planning.tries import OWN
from xsft.records import CONVERSION_KEY
from xsft.records.record import Record
from xsft.spec.conversion_inputs import RECORD_FILE, ConversionRecord
from xsft.stages.once import JobEnd, JobResult, StartedJob, shortages
from xsft.weights.conversion_plan import BytesDone, ConversionEvent, ConversionPlan, conversion_event

LOOK_EVERY_S = 0.5
"""Seconds between checks of the bytes written."""


ConversionResult = JobResult[ConversionPlan]


class Conversion(Struct, frozen=True, kw_only=True):
    """A conversion on this machine; a `LocalJob`."""

    look: Callable[[], ConversionPlan]
    """Read the files again and return the plan. Raises SpecError if the result is not what the workload requests."""
    machine: Callable[[], Machine]
    """Return the machine, whose environment is built if it is missing."""
    cache: Path
    """xsft's cache, which will hold the download."""
    on_event: Callable[[ConversionEvent], None]
    waiting: Callable[[], None]
    """Called if another process is converting the same weights."""
    verify: Callable[[ConversionPlan], str]
    """Compare the checkpoint with its source and return how. Raises RunFailed if they differ."""
    accepted: Mapping[str, str] = {}
    """`checks:` of the workload."""
    fix: str = "The whole output: {log}. What was written stays; the same command converts again."

    def run_of(self, plan: ConversionPlan) -> StageRun:
        inputs = {"training": plan.training, "directory": plan.directory, **to_builtins(plan.inputs)}
        return StageRun(
            run_name=plan.run_name, digest=plan.digest, output=plan.output, key=CONVERSION_KEY, inputs=inputs
        )

    def whole(self, plan: ConversionPlan) -> JobEnd | None:
        if plan.whole is None:
            return None
        unfinished = ""
        # A checkpoint without a record is not xsft's to judge; another outcome: it was not compared with its source.
        if plan.recorded is not None and plan.recorded.outcome != "completed":
            unfinished = "its record does not say so"
        return JobEnd(outcome="completed", result=plan.whole, why=_why_whole(plan.recorded), left=unfinished)

    def finish(self, plan: ConversionPlan, end: JobEnd) -> JobEnd:
        assert plan.recorded is not None
        assert plan.whole is not None
        verified = self.verify(plan)
        record = replace(plan.recorded, outcome="completed", finished_at=clock.now(), verified=verified)
        write_atomic(Path(plan.whole).parent.parent / RECORD_FILE, to_json(record))
        return replace(end, why=_why_whole(record), left="")

    def unfinished(self, plan: ConversionPlan) -> StageFound:
        return conversion_found(plan)

    @contextmanager
    def hold(self, plan: ConversionPlan) -> Iterator[None]:
        def refuse() -> None:
            raise AlreadyRunning(
                f"{plan.run_name} is converting other weights now",
                fix=f"wait for it: xsft wait {plan.run_name}",
            )

        # The first lock covers the conversion, whichever run asks for it; `status` and `cancel` read the second one.
        with exclusive(Path(plan.first) / "xsft" / "lock", waiting=self.waiting):
            if self.look().whole:
                yield
                return
            with exclusive(self.run_of(plan).folder.lock, waiting=refuse):
                yield

    def admit(self, plan: ConversionPlan) -> tuple[Problem, ...]:
        missing = accept_late(lacks(plan, cache=self.cache), self.accepted)
        refused = errors_in(missing)
        if refused:
            raise EnvironmentMissing(refused[0].message, fix=refused[0].fix, id=refused[0].id)
        return tuple(missing)

    def command(self, plan: ConversionPlan) -> tuple[str, ...]:
        return plan.argv

    def save_beside(self, plan: ConversionPlan, record: Record, end: JobEnd | None) -> None:
        verified = ""
        if end is not None:
            verified = end.verified
        inputs = to_builtins(plan.inputs)
        beside = Path(plan.directory) / RECORD_FILE
        private_folder(beside.parent)
        write_atomic(beside, to_json(ConversionRecord(**beside_fields(record), inputs=inputs, verified=verified)))

    def work(self, plan: ConversionPlan, attempt: StartedJob) -> JobEnd:
        converter = _run_converter(self, plan, attempt)
        reason = _why_unmade(plan, self.look(), converter)
        if reason:
            return JobEnd(outcome="failed", reason=reason, status=converter.status)
        try:
            verified = self.verify(plan)
        except RunFailed as failed:
            return JobEnd(outcome="failed", reason=f"{failed.message} {failed.fix}".strip(), status=converter.status)
        warnings: tuple[Problem, ...] = ()
        if converter.status:
            message = f"The checkpoint is complete; afterwards {converter.why}."
            fix = "Use the checkpoint; no second conversion is needed."
            warnings = (warning("failed-after-save", "model.hf", message, fix),)
        return JobEnd(
            outcome="completed",
            status=converter.status,
            result=plan.checkpoint,
            why="; ".join(text for text in (plan.why, verified) if text),
            verified=verified,
            warnings=warnings,
        )


def conversion_found(plan: ConversionPlan) -> StageFound:
    """Return the state of a conversion that no process does, here or on a cluster."""
    if plan.whole and plan.recorded is not None and plan.recorded.outcome != "completed":
        why = f"{plan.whole} is complete, but its record does not say so"
        return StageFound(state="torn", why=why, digest=plan.digest)
    if plan.whole:
        return StageFound(state="done", why=f"{plan.whole} is complete", result=plan.whole, digest=plan.digest)
    if plan.broken:
        why = f"{', '.join(plan.broken)} is not complete: {plan.why_not}"
        return StageFound(state="torn", why=why, digest=plan.digest)
    return StageFound(state="missing", why=plan.why, digest=plan.digest)


def _why_whole(record: ConversionRecord | None) -> str:
    if record is None:
        return "it has the model's names and shapes; no record names its source weights"
    text = f"{record.run_name} converted the same weights"
    if record.finished_at:
        text += f" at {record.finished_at}"
    if record.commit:
        text += f", commit {record.commit[:12]}"
    if record.verified:
        text += f"; {record.verified}"
    return text


def _run_converter(conversion: Conversion, plan: ConversionPlan, attempt: StartedJob) -> ProgramEnd:
    machine = attempt.machine

    def on_line(line: str) -> None:
        event = conversion_event(line)
        if event is not None:
            conversion.on_event(event)

    def tell_bytes() -> None:
        conversion.on_event(bytes_done(plan, Path(plan.directory), machine=machine))

    with scratch_folder("convert") as scratch, repeat_call(tell_bytes, every_s=LOOK_EVERY_S):
        env = program_environment(machine, scratch, online=not plan.inputs.source.is_folder)
        env["JAX_PLATFORMS"] = "cpu"
        command = (*machine.contain().prefix, *attempt.argv)
        return follow_program(command, name="to_maxtext", env=env, log=attempt.log, on_line=on_line)


def bytes_done(plan: ConversionPlan, directory: Path, *, machine: Machine) -> BytesDone:
    """Return the bytes of the result in `directory`; before there are any, those of the download."""
    needs, source, now = plan.estimate, plan.inputs.source, clock.monotonic()
    written = _folder_size(directory)
    if written or source.is_folder:
        return BytesDone(done=written, of=needs.output if needs else None, at=now)
    # Files are in `hub/models--<owner>--<name>/blobs` of HF_HOME, from their first byte.
    # source: huggingface_hub@2.4.0 file_download.py [repo_folder_name, hf_hub_download].
    blobs = machine.cache / "huggingface" / "hub" / f"models--{source.repo.replace('/', '--')}" / "blobs"
    return BytesDone(doing="downloading", done=_folder_size(blobs), of=needs.download if needs else None, at=now)


def _folder_size(directory: Path) -> int:
    """Return the bytes without xsft's own files. Orbax renames folders while it writes: one may be gone when it is
    read.
    """
    total = 0
    for folder, below, files in os.walk(directory):
        below[:] = [name for name in below if f"{name}/" != OWN]
        for name in files:
            try:
                total += os.stat(os.path.join(folder, name)).st_size
            except OSError:
                continue
    return total


def _why_unmade(plan: ConversionPlan, after: ConversionPlan, converter: ProgramEnd) -> str:
    """Return why there is no checkpoint, by the files that exist: the exit status proves neither success nor failure.
    Empty if it is complete."""
    if after.digest != plan.digest:
        return f"{plan.inputs.source.repo} changed while it was converted"
    if after.whole == plan.checkpoint:
        return ""
    if converter.status:
        return converter.why
    return f"{converter.why}, and {plan.checkpoint} is not the requested checkpoint: {after.why_not or 'not found'}"


def lacks(plan: ConversionPlan, *, cache: Path) -> tuple[Problem, ...]:
    """Return a problem for the memory and the disk space that the conversion needs and this machine lacks; a warning if
    the model's size is unknown, and so what it needs."""
    needs = plan.estimate
    if needs is None:
        return (unchecked_warning(plan),)
    problems: list[Problem] = []
    disk = ((Path(plan.directory), needs.output), (cache, needs.download))
    for kind, message in shortages(f"Converting {plan.inputs.model}", memory=needs.memory, disk=disk):
        if kind == "memory":
            fix = "Convert on a larger machine, or accept the risk: checks: {conversion-memory: why}."
            problems.append(CONVERSION_MEMORY.error("model.hf", message, fix))
        else:
            fix = "Free some space or name another output; or accept the risk: checks: {conversion-disk: why}."
            problems.append(CONVERSION_DISK.error("output", message, fix))
    return tuple(problems)


def unchecked_warning(plan: ConversionPlan) -> Problem:
    """Return the warning that nothing was checked."""
    message = f"The size of {plan.inputs.model} is unknown, so memory and disk were not checked before the conversion."
    fix = "Compare the size of the safetensors files with this machine: memory takes 1.2 times what is saved."
    return CONVERSION_UNCHECKED.warning("model.hf", message, fix)
