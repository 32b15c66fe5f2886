"""Runs in MaxText's environment: what a trained checkpoint predicts after each text.

    python maxtext_next.py JOBS ANSWERS

JOBS is a JSON list of `{"argv": […], "texts": […]}`, argv as the trainer gets it with `load_parameters_path`; ANSWERS
becomes a list of lists: the likeliest next token after each text.
"""

from __future__ import annotations

import json
import sys
import unittest  # noqa: F401 - MaxText exits the process on a configuration error unless it sees this module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import transformers
from flax import linen
from maxtext.configs import pyconfig
from maxtext.utils import maxtext_utils, model_creation_utils


def likeliest(job: dict[str, Any]) -> list[str]:
    _python, _m, module, *arguments = job["argv"]
    module_spec = find_spec(module)
    assert module_spec is not None
    config = pyconfig.initialize([module_spec.origin, *arguments])
    tokenizer = transformers.AutoTokenizer.from_pretrained(config.tokenizer_path)
    mesh = maxtext_utils.get_mesh_from_config(config)
    with jax.set_mesh(mesh), linen.logical_axis_rules(config.logical_axis_rules):
        model = model_creation_utils.from_pretrained(config, mesh=mesh)
        ids = [tokenizer(text)["input_ids"] for text in job["texts"]]
        length = max(map(len, ids))
        tokens = jnp.array([[*row, *[0] * (length - len(row))] for row in ids])
        places = jnp.broadcast_to(jnp.arange(length), tokens.shape)
        # What follows a text does not change what comes after it: attention looks back only.
        logits = model(
            decoder_input_tokens=tokens,
            decoder_positions=places,
            decoder_segment_ids=jnp.ones_like(tokens),
            enable_dropout=False,
        )
    return [tokenizer.decode([int(logits[i, len(row) - 1].argmax())]) for i, row in enumerate(ids)]


if __name__ == "__main__":
    asked, answered = map(Path, sys.argv[1:])
    answered.write_text(json.dumps([likeliest(job) for job in json.loads(asked.read_text())]))
