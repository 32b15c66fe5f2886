"""Runs in MaxText's environment: writes checkpoints of tiny models, as its converter and its SFT trainer do.

Answers JSON documents, `{"folder": FOLDER, "part": PART}`, with what each folder that it wrote holds, or with what
MaxText makes of some that do not fit. After `torn`, the last one, the saves under `torn/` stand still in their middle:
whoever ends this process with SIGKILL leaves them as a killed writer does.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import json
import os
import sys
import time
import unittest  # noqa: F401 - MaxText exits the process on a configuration error unless it sees this module
from pathlib import Path
from typing import Any

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"

import jax
import ml_dtypes
import numpy as np
import optax
import orbax.checkpoint as ocp
from flax import nnx
from flax.linen import logical_axis_rules
from maxtext.checkpoint_conversion.utils.utils import save_weights_to_checkpoint
from maxtext.configs import pyconfig
from maxtext.utils import lora_utils, maxtext_utils, model_creation_utils
from maxtext.utils.globals import MAXTEXT_PKG_DIR
from orbax.checkpoint._src.path import atomicity
from orbax.checkpoint._src.serialization import serialization
from tunix.sft.checkpoint_manager import CheckpointManager

SFT = str(Path(MAXTEXT_PKG_DIR, "trainers", "post_train", "sft", "train_sft.py"))
HERE = (
    *("run_name=x", "hardware=cpu", "attention=dot_product", "override_model_config=True", "log_config=False"),
    *("base_output_directory=out", "skip_jax_distributed_system=True"),
)
SIZES = (
    *("base_emb_dim=64", "base_num_query_heads=4", "base_num_kv_heads=2", "head_dim=16", "base_mlp_dim=128"),
    *("vocab_size=512", "base_num_decoder_layers=6"),
)
QWEN, GEMMA, MIXTRAL = ("qwen3-0.6b",), ("gemma2-2b",), ("mixtral-8x7b", "num_experts=4", "base_moe_mlp_dim=128")
CONVERTED: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "qwen3-z0o0": (QWEN, {}),
    "qwen3-z0o1": (QWEN, {"ocdbt": True}),
    "qwen3-z1o0": (QWEN, {"zarr3": True}),
    "qwen3-z1o1": (QWEN, {"zarr3": True, "ocdbt": True}),
    "qwen3-axis0": ((*QWEN, "param_scan_axis=0"), {}),
    "qwen3-unscanned": ((*QWEN, "scan_layers=False"), {}),
    "qwen3-int8": (QWEN, {"dtype": "int8"}),
    "qwen3-float8": (QWEN, {"dtype": "float8_e4m3fn", "zarr3": True, "ocdbt": True}),
    "gemma2-z0o0": (GEMMA, {"dtype": "bfloat16"}),
    "gemma2-unscanned": ((*GEMMA, "scan_layers=False"), {"dtype": "bfloat16", "zarr3": True, "ocdbt": True}),
    "mixtral-z0o1": (MIXTRAL, {"dtype": "bfloat16", "ocdbt": True}),
    "mixtral-unscanned": ((*MIXTRAL, "scan_layers=False"), {"dtype": "bfloat16", "zarr3": True}),
}
TRAINED = {
    "qwen3": (QWEN, "cpu"),
    "gemma2-unscanned": ((*GEMMA, "scan_layers=False"), "cpu"),
    "mixtral-pathways": (MIXTRAL, "proxy,cpu"),
}
"""Folder -> model, and what JAX_PLATFORMS says when the manager is made: with `proxy` it writes as under Pathways."""
LORA = (*QWEN, "lora.enable_lora=True", "lora.lora_rank=4", "lora.lora_alpha=8.0", "weight_dtype=bfloat16")


def main(folder: Path, part: str) -> dict[str, Any]:
    """One part at a time: on a busy machine all of them take longer than one answer may."""
    match part:
        case "converted":
            return {
                f"converted/{name}/0/items": converted(folder / part / name, *how) for name, how in CONVERTED.items()
            }
        case "trained":
            saved = (trained(folder / part / name / "checkpoints", *how) for name, how in TRAINED.items())
            return {name: held for arrays_of_part in saved for name, held in arrays_of_part.items()}
        case "adapters":
            return adapters(folder / "trained" / "lora" / "checkpoints")
        case "largest":
            return {name: read(folder / "converted" / f"qwen3-{name}" / "0" / "items") for name in ("int8", "float8")}
        case "rank":
            return {"rank": restored(folder / "trained" / "lora" / "checkpoints" / "2" / "model_params", rank=8)}
        case _:
            tear(folder / "torn")
            return {}


def configured(name: str, *keys: str) -> Any:
    return pyconfig.initialize([SFT, f"model_name={name}", *HERE, *SIZES, *keys])


@functools.cache
def shaped(name: str, *keys: str) -> tuple[Any, Any, nnx.Module]:
    """A model's configuration, mesh and arrays without values; tracing it takes seconds."""
    config = configured(name, *keys)
    mesh = jax.sharding.Mesh(maxtext_utils.create_device_mesh(config), config.mesh_axes)
    return config, mesh, model_creation_utils.create_nnx_abstract_model(config, mesh)[1]


def built(name: str, *keys: str) -> tuple[Any, Any, nnx.Module]:
    """The model that fine-tuning builds, with random values: initialising it would take longer than all the rest."""
    config, mesh, abstract = shaped(name, *keys)
    graph, state = nnx.split(abstract)
    return config, mesh, nnx.merge(graph, jax.tree.map(filled, state))


def filled(array: Any) -> Any:
    if jax.numpy.issubdtype(array.dtype, jax.dtypes.prng_key):
        key = jax.random.key(0)
        return jax.device_put(jax.random.split(key, array.shape) if array.shape else key, array.sharding)
    return jax.device_put(noise(array.shape, array.dtype), array.sharding)


def noise(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    return (np.random.default_rng(0).normal(size=shape) * 50).astype(dtype)


def said(arrays: Any) -> dict[str, Any]:
    leaves = jax.tree.leaves(arrays)
    return {
        "parameters": sum(leaf.size for leaf in leaves),
        "bytes": sum(leaf.nbytes for leaf in leaves),
        "dtypes": sorted({str(leaf.dtype) for leaf in leaves}),
    }


def converted(folder: Path, model: tuple[str, ...], how: dict[str, Any]) -> dict[str, Any]:
    """`to_maxtext` ends in this function."""
    config, _, abstract = shaped(*model)
    name = how.get("dtype", "float32")
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    weights = jax.tree.map(lambda one: noise(one.shape, dtype), nnx.to_pure_dict(nnx.state(abstract, nnx.Param)))
    formats = how.get("ocdbt", False), how.get("zarr3", False)
    save_weights_to_checkpoint(str(folder), {"params": weights}, 4, *formats, config)
    return said(weights)


def trained(folder: Path, model: tuple[str, ...], platforms: str) -> dict[str, Any]:
    _, _, made = built(*model)
    optimizer = nnx.Optimizer(made, optax.adam(1e-3), wrt=nnx.Param)
    os.environ["JAX_PLATFORMS"] = platforms
    manager = CheckpointManager(str(folder))
    os.environ["JAX_PLATFORMS"] = "cpu"
    manager.save(2, made, optimizer, force=True)
    manager.close()
    parameters = said(nnx.state(made, nnx.Param))
    step = f"{folder.parent.parent.name}/{folder.parent.name}/checkpoints/2"
    return {f"{step}/model_params": parameters, f"{step}/optimizer_state": {"parameters": None}}


def read(items: Path) -> float:
    """The largest of the weights that a bfloat16 run would begin with."""
    config = configured(*QWEN, "weight_dtype=bfloat16", f"load_parameters_path={items}")
    model, _ = model_creation_utils.from_pretrained(config)
    return max(float(abs(leaf).max()) for leaf in jax.tree.leaves(nnx.state(model, nnx.Param)))


def adapted(*keys: str) -> tuple[Any, nnx.Module]:
    config, mesh, made = built(*LORA, *keys)
    with jax.set_mesh(mesh), logical_axis_rules(config.logical_axis_rules):
        return config, lora_utils.apply_lora_to_model(made, mesh, config)


def restored(saved: Path, *, rank: int) -> int:
    """The rank of a run's first adapter after it took those that were saved."""
    config, made = adapted(f"lora.lora_rank={rank}", f"lora.lora_restore_path={saved}")
    lora_utils.restore_lora_from_path(made, config)
    return int(jax.tree.leaves(nnx.state(made, nnx.LoRAParam))[0].shape[-1])


def adapters(folder: Path) -> dict[str, Any]:
    _, made = adapted()
    manager = CheckpointManager(str(folder))
    manager.save(2, made, save_only_lora_params=True, force=True)
    manager.close()
    return {"trained/lora/checkpoints/2/model_params": said(nnx.state(made, nnx.LoRAParam))}


WRITTEN_FIRST = 3
"""Arrays of a save that is to stop among its arrays."""


def tear(folder: Path) -> None:
    """Saves that stand still: among their arrays, or before their commit; in a bucket a folder has its name at once."""
    reached: dict[str, int] = {}
    hold_arrays(reached)
    for kind in (atomicity.AtomicRenameTemporaryPath, atomicity.CommitFileTemporaryPath):
        hold_commit(kind, reached)
    _, _, made = built(*QWEN)
    in_bucket = ocp.CheckpointManagerOptions(temporary_path_class=atomicity.CommitFileTemporaryPath)
    for name, options in (("folder", None), ("bucket", in_bucket)):
        for where in ("arrays", "commit"):
            manager = CheckpointManager(str(folder / f"{name}-{where}" / "checkpoints"), options=options)
            manager.save(2, made, force=True)
    until(lambda: len(reached) == 4)


def hold_arrays(reached: dict[str, int]) -> None:
    write = serialization.async_serialize_from_host

    async def held(*args: Any, **options: Any) -> Any:
        where = next((name for name in ("folder-arrays", "bucket-arrays") if name in str((args, options))), None)
        if where is None:
            return await write(*args, **options)
        reached[where] = reached.get(where, 0) + 1
        if reached[where] > WRITTEN_FIRST:
            await asyncio.sleep(3600)
        return await write(*args, **options)

    serialization.async_serialize_from_host = held


def hold_commit(kind: Any, reached: dict[str, int]) -> None:
    finalize = kind.finalize

    async def held(self: Any, *args: Any, **options: Any) -> Any:
        path = self.get()
        if "-commit/" in str(path) and path.name.startswith("2"):
            reached[str(path)] = 1
            await asyncio.sleep(3600)
        return await finalize(self, *args, **options)

    kind.finalize = held


def until(done: Any) -> None:
    """Within a minute."""
    for _ in range(600):
        if done():
            return
        time.sleep(0.1)
    raise TimeoutError("the saves did not come to where they are held")


if __name__ == "__main__":
    gc.freeze()  # MaxText collects after each array, and its imports are half a million objects
    with os.fdopen(os.dup(1), "w") as own:
        os.dup2(2, 1)  # MaxText prints; only the answer goes out
        for line in sys.stdin:
            asked = json.loads(line)
            print(json.dumps(main(Path(asked["folder"]), asked["part"])), file=own, flush=True)
