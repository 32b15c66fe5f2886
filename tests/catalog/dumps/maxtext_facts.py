"""Run by MaxText's own Python: configuration keys, models and TPU device counts as one JSON document on stdout."""

import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import get_args

import yaml

package = Path(find_spec("maxtext").submodule_search_locations[0])
sys.stdout = sys.stderr  # imports print; only the document goes out
from maxtext.configs import types
from maxtext.utils.accelerator_to_spec_map import UserFacingNameToSystemCharacteristics as spec_map
from maxtext.utils.globals import HF_IDS

sys.stdout = sys.__stdout__

fields = types.MaxTextConfig.model_fields
nested = {
    name: sorted(field.annotation.model_fields)
    for name, field in fields.items()
    if hasattr(field.annotation, "model_fields")
}
facts = {
    "keys": sorted(fields),
    "nested": nested,
    "models": sorted(get_args(types.ModelName)),
    "hf_ids": {name: repo for name, repo in HF_IDS.items() if name != "default"},
    "model_ymls": {path.stem: yaml.safe_load(path.read_text()) for path in (package / "configs/models").glob("*.yml")},
    "lora_patterns": yaml.safe_load((package / "configs/post_train/lora_module_path.yml").read_text()),
    "devices": {name: row.devices_per_slice for name, row in spec_map.items() if row.platform == "tpu"},
    "base": {key: value for key, value in yaml.safe_load((package / "configs/base.yml").read_text()).items()},
}
print(json.dumps(facts, default=str))
