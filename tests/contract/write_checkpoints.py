"""Runs in MaxText's environment: writes checkpoints as its converter does (`to_maxtext` ends in this function).

usage: write_checkpoints.py FOLDER. One folder each: z<zarr3>o<ocdbt>, axis0 and unscanned.
"""

import os
import sys
from pathlib import Path
from types import SimpleNamespace

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"

import numpy as np
from maxtext.checkpoint_conversion.utils.utils import save_weights_to_checkpoint

LAYERS, WIDTH, MLP = 6, 64, 128


def decoder(*, scan: bool, axis: int) -> dict:
    """Two kernels and a norm per layer, with MaxText's names and shapes."""
    sizes = {"mlp": {"wi_0": {"kernel": (WIDTH, MLP)}, "wo": {"kernel": (MLP, WIDTH)}}, "norm": {"scale": (WIDTH,)}}
    if not scan:
        return {f"layers_{i}": arrays(sizes, lambda s: s) for i in range(LAYERS)}
    return {"layers": arrays(sizes, lambda s: (*s[:axis], LAYERS, *s[axis:]))}


def arrays(tree, shape):
    if isinstance(tree, dict):
        return {key: arrays(value, shape) for key, value in tree.items()}
    return np.zeros(shape(tree), np.float32)


def write(folder: Path, *, zarr3: bool = False, ocdbt: bool = False, scan: bool = True, axis: int = 1) -> None:
    own = {**decoder(scan=scan, axis=axis), "decoder_norm": {"scale": np.zeros((WIDTH,), np.float32)}}
    weights = {"decoder": own, "token_embedder": {"embedding": np.zeros((512, WIDTH), np.float32)}}
    config = SimpleNamespace(scan_layers=scan)
    save_weights_to_checkpoint(str(folder), {"params": weights}, 4, ocdbt, zarr3, config)


root = Path(sys.argv[1])
for z in (False, True):
    for o in (False, True):
        write(root / f"z{z:d}o{o:d}", zarr3=z, ocdbt=o)
write(root / "axis0", axis=0)
write(root / "unscanned", scan=False)
