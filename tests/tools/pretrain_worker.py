"""Compiles MaxText's pre-training step as its train_compile does; a program in the compiler's environment.

usage: python -m tests.tools.pretrain_worker JOB ANSWER, both as of `xsft.workers.compile_step`, which does all but
the step. source: maxtext@0.2.5 trainers/pre_train/train_compile.py, main.
"""

from __future__ import annotations

import sys
from typing import Any

from xsft.workers import compile_step


class PretrainStep(compile_step.SftStep):
    """The pre-training step of a configuration; unlike Tunix's it donates the model."""

    def lower(self, _: tuple[Any, Any, dict[str, Any]]) -> Any:
        import jax
        from flax.core.spmd import logical_axis_rules
        from maxtext.trainers.pre_train import train, train_compile
        from maxtext.utils import maxtext_utils, sharding

        config, mesh = self.config, self.mesh
        shaped, named, state_shards, _, graph = train_compile.get_shaped_inputs(mesh, config)
        model_shards, state_shards = sharding.maybe_update_params_sharding_with_opt(config, state_shards)
        state_shards = sharding.build_zero1_input_state_mesh_shardings(config, state_shards, model_shards)
        data = sharding.get_input_data_sharding(config, mesh)
        step, into, out, static, donated = maxtext_utils.get_functional_train_with_signature(
            train.train_step, data, state_shards, graph, config, model_shards
        )
        jitted = jax.jit(step, in_shardings=into, out_shardings=out, static_argnums=static, donate_argnums=donated)
        with jax.set_mesh(mesh), logical_axis_rules(config.logical_axis_rules):
            return jitted.lower(*shaped, **named)


if __name__ == "__main__":
    vars(compile_step)["SftStep"] = PretrainStep
    compile_step.main(sys.argv[1:])
