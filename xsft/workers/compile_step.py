"""Compiles the step of an SFT run for a TPU, without one. Runs as a program in the compiler's environment.

usage: fit_worker.py JOB ANSWER. Of the keys of JOB see `answer`; ANSWER becomes what it returns, or
`{"error": "Type: message", "phase": …}`. Lines that begin with `xsft fit: ` name the phase that begins.

The step is Tunix's, as MaxText's trainer builds it: `MaxTextPeftTrainer.create_train_step_fn` under
`nnx.jit(donate_argnames=("optimizer",))`, lowered for arguments that have shapes and shardings, but no values.
source: maxtext@0.2.5 trainers/post_train/sft/train_sft.py, google-tunix@0.1.7 sft/peft_trainer.py.
"""

from __future__ import annotations

import json
import math
import re
import resource
import sys
import time
import unittest  # noqa: F401 - MaxText exits the process on a configuration error unless it sees this module
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BATCH = ("inputs", "inputs_position", "inputs_segmentation", "targets", "targets_position", "targets_segmentation")
"""Arguments of the loss function. source: maxtext@0.2.5 train_sft.py, use_maxtext_loss_function"""

REFUSED = re.compile(
    r"RESOURCE_EXHAUSTED.*?\((?P<needed>[\d.]+[KMGT])\) exceeds available HBM \((?P<limit>[\d.]+[KMGT])\)"
)
"""source: libtpu@0.0.44: "the total memory required for HLO temporaries (31.60G) exceeds available HBM (31.24G)" """
UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}

TOO_LARGE = (2**20, 2**24)
"""Shape of 64 TiB in float32: no chip holds it, so the compiler names its limit."""


class Phases:
    """The phases of the work, announced as they begin, with the seconds that each took."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.name = ""
        self._began = time.monotonic()

    def begin(self, name: str) -> None:
        self.end()
        self.name = name
        print(f"xsft fit: {name}", flush=True)

    def end(self) -> None:
        now = time.monotonic()
        if self.name:
            self.seconds[self.name] = round(now - self._began, 1)
        self._began = now


class NoSuchSlice(Exception):
    """MaxText has no slice of that name."""


def answer(job: Mapping[str, Any], phases: Phases) -> dict[str, Any]:
    """Return the memory of the compiled step in bytes per device, or what the compiler refused it for.

    `config`: MaxText's yml of SFT, relative to its folder of configurations; `keys`: MaxText's keys as `key=value`;
    `topology`: the slice; `xla_flags`: of the compiler; `step`: `train` or `eval`; `program`: the file that the
    compiled program's text is written to. In the answer `resident` is the state that stays on the device beside the
    step's arguments: for `eval` the optimizer's.
    """
    phases.begin("importing")
    refuse_slice(job["topology"])
    phases.begin("configuring")
    step = SftStep.of(job["config"], job["keys"], evaluates=job["step"] == "eval")
    limit = compiler_limit(step.mesh)
    phases.begin("tracing")
    arguments = step.arguments()
    phases.begin("lowering")
    lowered = step.lower(arguments)
    phases.begin("compiling")
    sizes = {"model": per_device(arguments[0]), "optimizer": per_device(arguments[1])}
    resident = sizes["optimizer"] if step.evaluates else 0
    try:
        compiled = lowered.compile(compiler_options=compiler_options(job["xla_flags"]))
    except Exception as problem:
        refused = REFUSED.search(str(problem))
        if refused is None:
            raise
        return {"needed": in_bytes(refused["needed"]), "limit": limit, "resident": resident}
    Path(job["program"]).write_text(compiled.as_text() or "", encoding="utf-8")
    stats = {"memory": memory(compiled.memory_analysis()), "arguments": sizes, "resident": resident}
    return {**stats, "limit": limit}


def refuse_slice(name: str) -> None:
    """Raise NoSuchSlice, with names near it, for a slice on which MaxText cannot start."""
    from maxtext.utils.accelerator_to_spec_map import (
        UserFacingNameToSystemCharacteristics,
    )

    if name not in UserFacingNameToSystemCharacteristics:
        raise NoSuchSlice(f"{name} near {', '.join(nearest(name, UserFacingNameToSystemCharacteristics))}")


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """Return up to three slices of the same generation, the nearest size first."""
    generation, _, size = name.rpartition("-")
    wanted = int(size) if size.isdecimal() else 0
    same = [one for one in known if one.rpartition("-")[0] == generation]
    return sorted(same, key=lambda one: abs(int(one.rpartition("-")[2]) - wanted))[:3]


def compiler_limit(mesh: Any) -> int:
    """Return the compiler's limit in bytes per device, from its refusal of an array that no chip holds."""
    import jax

    one = jax.sharding.SingleDeviceSharding(mesh.devices.flat[0])
    try:
        jax.jit(lambda x: x + 1).lower(jax.ShapeDtypeStruct(TOO_LARGE, "float32", sharding=one)).compile()
    except Exception as problem:
        refused = REFUSED.search(str(problem))
        if refused is None:
            raise
        return in_bytes(refused["limit"])
    raise RuntimeError("the compiler accepted an array of 64 TiB")


def in_bytes(text: str) -> int:
    return int(float(text[:-1]) * UNITS[text[-1]])


def compiler_options(flags: list[str]) -> dict[str, Any]:
    from maxtext.utils import max_utils

    found: dict[str, Any] = max_utils.parse_libtpu_flags_to_dict(" ".join(flags))
    return found


@dataclass(frozen=True)
class SftStep:
    """The configuration of a run, and the mesh of devices for which its step is compiled."""

    config: Any
    mesh: Any
    evaluates: bool
    """Whether it is the step of evaluation, not of training."""

    @staticmethod
    def of(config: str, keys: list[str], *, evaluates: bool) -> SftStep:
        import jax
        import maxtext
        from maxtext.configs import pyconfig
        from maxtext.trainers.pre_train.train_compile import get_topology_mesh

        jax.config.update("jax_default_prng_impl", "unsafe_rbg")
        yml = Path(maxtext.__file__).parent / "configs" / config
        configured = pyconfig.initialize_pydantic(["", str(yml), *keys])
        return SftStep(config=configured, mesh=get_topology_mesh(configured), evaluates=evaluates)

    def arguments(self) -> tuple[Any, Any, dict[str, Any]]:
        """Return the model, the optimizer and the batch, as shapes with their shardings."""
        from flax import nnx
        from maxtext.utils import maxtext_utils, sharding

        state = self._abstract(self._state)
        shards = sharding.get_input_data_sharding(self.config, self.mesh)
        batch = maxtext_utils.get_shaped_batch(self.config, batch_sharding=shards, is_eval=self.evaluates)
        nnx.pop(state.model, nnx.Intermediate)
        return state.model, state.optimizer, {name: batch[name] for name in BATCH}

    def lower(self, arguments: tuple[Any, Any, dict[str, Any]]) -> Any:
        import jax
        from flax import nnx
        from flax.core.spmd import logical_axis_rules

        with jax.set_mesh(self.mesh), logical_axis_rules(self.config.logical_axis_rules):
            trainer = self._trainer(arguments[0])
            if self.evaluates:
                return nnx.jit(trainer.create_eval_step_fn()).lower(arguments[0], arguments[2])
            step = trainer.create_train_step_fn()
            return nnx.jit(step, donate_argnames=("optimizer",)).lower(*arguments)

    def _abstract(self, create: Callable[[], Any]) -> Any:
        """Return what `create` makes, traced, with shapes and shardings in place of arrays."""
        from flax import nnx
        from flax.core.spmd import logical_axis_rules
        from maxtext.utils import maxtext_utils

        shaped, _, _ = maxtext_utils.get_abstract_state(self.config, self.mesh, create, True)  # noqa: FBT003 - theirs
        with logical_axis_rules(self.config.logical_axis_rules):
            graph, _ = nnx.split(nnx.eval_shape(create))
        return nnx.merge(graph, shaped)

    def _state(self) -> Any:
        """Return the model and its optimizer, as `train_sft.setup_trainer_state` and Tunix's trainer make them."""
        from flax import nnx
        from maxtext.common import train_state_nnx
        from maxtext.utils import model_creation_utils

        model = model_creation_utils.get_nnx_create_model_fn(self.config, self.mesh)()
        adapted = self.config.lora.enable_lora
        model = self._with_adapters(model) if adapted else model
        nnx.pop(model, nnx.Intermediate)
        trained = nnx.LoRAParam if adapted else nnx.Param
        return train_state_nnx.TrainStateNNX(model, nnx.Optimizer(model, self._transformation(model), wrt=trained))

    def _transformation(self, model: Any) -> Any:
        import optax
        from maxtext.optimizers import optimizers
        from maxtext.utils import maxtext_utils

        schedule = maxtext_utils.create_learning_rate_schedule(self.config)
        chained = optimizers.get_optimizer(self.config, schedule, model)
        if self.config.gradient_clipping_threshold > 0:
            clipped = optax.clip_by_global_norm(max_norm=self.config.gradient_clipping_threshold)
            chained = optax.chain(clipped, chained)
        accumulated = self.config.gradient_accumulation_steps
        return optax.MultiSteps(chained, accumulated) if accumulated > 1 else chained

    def _with_adapters(self, model: Any) -> Any:
        """Return the model with LoRA's adapters. `lora_utils.apply_lora_to_model` does the same, and moves arrays."""
        import jax
        import qwix
        from flax import nnx
        from maxtext.utils import lora_utils

        tokens, positions = lora_utils._prepare_dummy_inputs(self.mesh)  # noqa: SLF001
        adapted = qwix.apply_lora_to_model(
            model,
            lora_utils._build_lora_provider(self.config),  # noqa: SLF001
            decoder_input_tokens=tokens,
            decoder_positions=positions,
            rngs=getattr(getattr(model, "decoder", model), "rngs", None),
        )
        for _, value in nnx.iter_graph(adapted):
            if "qwix_rngs" in getattr(value, "__dict__", {}):
                del value.qwix_rngs
            if isinstance(value, nnx.LoRAParam):
                value.set_metadata(sharding=jax.sharding.PartitionSpec(), out_sharding=None, sharding_names=None)
        lora_utils._verify_lora_parameters(adapted, self.config)  # noqa: SLF001
        return adapted

    def _trainer(self, model: Any) -> Any:
        """Return MaxText's trainer with what its step function reads; its constructor would save and log."""
        from maxtext.trainers.post_train.sft import train_sft

        trainer = object.__new__(train_sft.MaxTextPeftTrainer)
        trainer.model = model
        trainer.config = train_sft.get_tunix_config(self.config)
        trainer._lora_enabled = self.config.lora.enable_lora
        trainer.gen_model_input_fn = lambda inputs: inputs
        return train_sft.use_maxtext_loss_function(trainer, self.config)


def per_device(state: Any) -> int:
    """Return the bytes that a part of the state takes on one device."""
    import jax
    from flax import nnx

    return sum(_shard_bytes(leaf) for leaf in jax.tree.leaves(nnx.state(state)))


def _shard_bytes(leaf: Any) -> int:
    return int(math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize)


def memory(stats: Any) -> dict[str, int]:
    """Return the compiler's figures, bytes per device."""
    return {
        "peak": stats.peak_memory_in_bytes,
        "arguments": stats.argument_size_in_bytes,
        "output": stats.output_size_in_bytes,
        "alias": stats.alias_size_in_bytes,
        "temporaries": stats.temp_size_in_bytes,
        "host_temporaries": stats.host_temp_size_in_bytes,
    }


def main(argv: list[str]) -> None:
    phases = Phases()
    job = json.loads(Path(argv[0]).read_text(encoding="utf-8"))
    try:
        found = answer(job, phases)
    except Exception as problem:
        found = {"error": f"{type(problem).__name__}: {problem}", "phase": phases.name}
    phases.end()
    used = resource.getrusage(resource.RUSAGE_SELF)
    cost = {"seconds": phases.seconds, "cpu_s": round(used.ru_utime + used.ru_stime, 1), "rss_kib": used.ru_maxrss}
    Path(argv[1]).write_text(json.dumps({**found, **cost}), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
