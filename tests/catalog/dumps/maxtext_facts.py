"""Run by MaxText's own Python: configuration keys, models and TPU device counts as one JSON document on stdout."""

import ast
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import get_args

import yaml

package = next(folder for entry in sys.path if (folder := Path(entry) / "maxtext").is_dir())
sys.modules["maxtext"] = ModuleType("maxtext")  # its __init__, which some releases lack, imports every model
sys.modules["maxtext"].__path__ = [str(package)]
sys.stdout = sys.stderr  # imports print; only the document goes out
from maxtext.configs import types  # noqa: E402
from maxtext.utils import accelerator_to_spec_map  # noqa: E402
from maxtext.utils import globals as shared  # noqa: E402

sys.stdout = sys.__stdout__

fields = types.MaxTextConfig.model_fields
lora_patterns = package / "configs/post_train/lora_module_path.yml"
classes = [one for one in vars(types).values() if isinstance(one, type) and hasattr(one, "model_fields")]
nested = {
    name: sorted(field.annotation.model_fields)
    for name, field in fields.items()
    if hasattr(field.annotation, "model_fields")
}


def _as_omegaconf_reads(value: object) -> object:
    """PyYAML takes `1e-5` for a string, OmegaConf (which MaxText uses) for a number."""
    if isinstance(value, str) and re.fullmatch(r"[0-9.]+e[+-]?[0-9]+", value):
        return float(value)
    return value


def _model_yml(path: Path) -> dict[str, object]:
    return {key: _as_omegaconf_reads(value) for key, value in yaml.safe_load(path.read_text()).items()}


def _weights() -> dict[str, list[str]]:
    """Models that the tables of checkpoint_conversion convert, and export; to_maxtext takes X for X-Instruct."""
    tables: dict[str, set[str]] = {}
    for file in sorted(package.rglob("*.py")):
        for node in ast.parse(file.read_text()).body:
            if (
                isinstance(node, ast.Assign)
                and isinstance(node.value, ast.Dict)
                and isinstance(node.targets[0], ast.Name)
            ):
                tables[node.targets[0].id] = {
                    str(key.value) for key in node.value.keys if isinstance(key, ast.Constant)
                }
    names = tables["HF_IDS"] - {"default"}
    both = tables["PARAM_MAPPING"] & tables["HOOK_FNS"] & tables["HF_MODEL_CONFIGS"]
    converted = sorted(name for name in names if name.replace("-Instruct", "") in both)
    exported = both & tables["HF_SHAPE"]
    return {"convert": converted, "export": [name for name in converted if name.replace("-Instruct", "") in exported]}


facts = {
    "weights": _weights(),
    "keys": sorted(fields),
    "nested": nested,
    "elsewhere": sorted({name for one in classes for name in one.model_fields} - set(fields)),
    "models": sorted(get_args(types.ModelName)),
    "hf_ids": {name: repo for name, repo in getattr(shared, "HF_IDS", {}).items() if name != "default"},
    "model_ymls": {path.stem: _model_yml(path) for path in (package / "configs/models").glob("*.yml")},
    "lora_patterns": yaml.safe_load(lora_patterns.read_text()) if lora_patterns.is_file() else {},  # since 0.2.3
    "devices": {
        name: row.devices_per_slice
        for name, row in accelerator_to_spec_map.UserFacingNameToSystemCharacteristics.items()
        if row.platform == "tpu"
    },
    "base": yaml.safe_load((package / "configs/base.yml").read_text()),
}
print(json.dumps(facts, default=str))
