"""Runs in MaxText's environment: prints the arrays of models as it builds them for fine-tuning, without any weights.

usage: maxtext_arrays.py NAME[,KEY=VALUE…]…
"""

import json
import sys
from pathlib import Path

import jax
import maxtext.configs
from flax import nnx
from maxtext.configs import pyconfig
from maxtext.utils import maxtext_utils, model_creation_utils

SFT = str(Path(next(iter(maxtext.configs.__path__))) / "post_train" / "sft.yml")
COMMON = (
    "run_name=x", "hardware=cpu", "skip_jax_distributed_system=True", "log_config=False", "attention=dot_product",
    "override_model_config=True", "base_output_directory=out",
)  # fmt: skip
STATE = (nnx.RngState, nnx.Cache, nnx.Intermediate, nnx.BatchStat)
"""What from_pretrained does not read from a checkpoint."""


def arrays(asked: str) -> dict:
    name, *keys = asked.split(",")
    config = pyconfig.initialize(["", SFT, f"model_name={name}", *COMMON, *keys])
    mesh = jax.sharding.Mesh(maxtext_utils.create_device_mesh(config), config.mesh_axes)
    _, built = model_creation_utils.create_nnx_abstract_model(config, mesh)
    state = nnx.to_flat_state(nnx.state(built).filter(lambda _path, held: not isinstance(held, STATE)))
    return {".".join(map(str, path)): list(held.get_value().shape) for path, held in state}


found = {asked: arrays(asked) for asked in sys.argv[1:]}
print(json.dumps(found))
