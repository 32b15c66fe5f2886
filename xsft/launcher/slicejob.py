"""Jobs of a training that need its slices but do not train: one process per host, as in McJAX. Pure data."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from xsft.base.names import StageWork
from xsft.evaluation.inputs import EvaluationPlan
from xsft.evaluation.report import evaluation_argv
from xsft.launcher.cpujob import job_run, noted_end
from xsft.launcher.encoding import encode_command
from xsft.spec.resolve import Run
from xsft.trainer.tokenizer_copy import copy_arguments
from xsft.trainer.trainer import trainer_of
from xsft.workers.delivery import programs_digest

PROCESS = "one process per host"


class SliceJob(Struct, frozen=True, kw_only=True):
    """One process on each host of the training's slices."""

    work: StageWork
    run: Run
    """The workload's run under the job's own name."""
    training: str
    """run_name of the workload."""
    digest: str
    """Digest of its inputs, 64 hex digits: two jobs with one digest are the same job."""
    plan: EvaluationPlan
    """Plan of the evaluation."""
    program: str
    """sha256 of the programs of pods, 64 hex digits (`workers.delivery`)."""
    limit_s: int
    """Maximum seconds from the start of its pods; afterwards Kubernetes ends them."""
    writes: str
    """Path of the job's result."""

    @property
    def argv(self) -> tuple[str, ...]:
        """Return the process on each host, after the copy of the tokenizer if the training makes one."""
        python, *arguments = evaluation_argv(self.plan, end=noted_end(self.run), carried=self.run.evaluation_program)
        return (python, *copy_arguments(self.run), *arguments)

    @property
    def is_carried(self) -> bool:
        """Return whether the image carries that program; else the command contains it."""
        return self.run.evaluation_program == self.program

    @property
    def command(self) -> str:
        """Return the encoded command, as `xsft.launcher.cpujob.command`. Raises ValueError if it cannot be sent."""
        env = trainer_of(self.run).command_env(self.run)
        return encode_command(argv=self.argv, env=env, mode=self.run.mode.value)

    @property
    def env(self) -> dict[str, str]:
        """Return the variables of the job's container, those of the training."""
        return trainer_of(self.run).container_env(self.run)

    def attempt(self, number: int) -> SliceJob:
        """Return the same job under the name of its nth attempt."""
        run = job_run(self.run, run_name=self.run.run_name, attempt=number, process=PROCESS)
        return replace(self, run=run)


def evaluation_job(plan: EvaluationPlan, run: Run, *, limit_s: int) -> SliceJob:
    """Return the evaluation of the workload's run on as many slices as the training has."""
    return SliceJob(
        work="evaluate",
        run=job_run(run, run_name=plan.run_name, attempt=1, process=PROCESS),
        training=plan.training,
        digest=plan.digest,
        plan=plan,
        program=programs_digest(),
        limit_s=limit_s,
        writes=plan.result,
    )
