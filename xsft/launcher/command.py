"""The trainer's command and the arguments of the Pathways proxy, which all launchers put into their JobSets. Pure."""

from __future__ import annotations

from xsft.launcher.encoding import CountedArgument, encode_command
from xsft.spec.resolve import Run
from xsft.trainer.shuffling import SEED, counted_seeds
from xsft.trainer.trainer import trainer_of


def command(run: Run) -> str:
    """Return the trainer's command line, encoded to survive xpk's YAML, Kubernetes' `$()` and bash."""
    seeds, trainer = counted_seeds(run), trainer_of(run)
    counted = CountedArgument(key=SEED, first=seeds.first, each=seeds.per_restart) if seeds else None
    return encode_command(
        argv=trainer.trainer_argv(run), env=trainer.command_env(run), mode=run.mode.value, counted=counted
    )


def proxy_args(run: Run) -> tuple[str, ...]:
    """Return the arguments of the Pathways proxy: XLA flags act there (maxtext@0.2.5 benchmarks/maxtext_xpk_runner.py
    _get_pathways_proxy_flags)."""
    flags = run.spec.pathways.proxy_args if run.spec.pathways else ()
    return (*flags, *run.spec.xla_flags)
