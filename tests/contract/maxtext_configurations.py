"""Runs in MaxText's environment: prints the configurations of Hugging Face that MaxText keeps of its models."""

from __future__ import annotations

import json

from maxtext.checkpoint_conversion.utils.hf_model_configs import HF_MODEL_CONFIGS

told = {
    name: one if isinstance(one, dict) else {**one.to_dict(), "model_type": one.model_type}
    for name, one in HF_MODEL_CONFIGS.items()
}
print(json.dumps(told, default=str))
