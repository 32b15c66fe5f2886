"""Runs in MaxText's environment: what MaxText itself makes of command lines.

Serves until its standard input ends, one JSON document a line; importing MaxText takes seconds, so one process answers
all of them. A job is one of

- `{"values": [arg, …]}`: OmegaConf alone;
- `{"trainer": argv}`, `{"conversion": argv}`: MaxText's configuration, as the module named in argv would load it;
  `slices` are keys that describe the hardware it would find;
- `{"mapping": argv}`: the conversion up to its first weight, so that every array of the model has a source;
- `{"arrays": [model, key=value, …]}`: names and shapes of the model that fine-tuning builds, without weights;
- `{"connects": {key: value}}`: whether it would connect the hosts of a TPU slice, by these keys;
- `{"rates": {"steps": n, "learning_rate_schedule_steps": m}}`: the learning rate of each step.
"""

from __future__ import annotations

import enum
import functools
import json
import logging
import os
import runpy
import sys
import unittest  # noqa: F401 - MaxText exits the process on a configuration error unless it sees this module
from pathlib import Path
from typing import IO, Any
from unittest.mock import patch

HERE = ("skip_jax_distributed_system=True", "log_config=False")
"""What a machine without a slice adds: no coordinator to wait for, no page of settings in the log."""


SFT = "maxtext.trainers.post_train.sft.train_sft"
MODEL = (
    *("run_name=x", "hardware=cpu", "attention=dot_product", "override_model_config=True"),
    "base_output_directory=out",
)
"""For a model that is only built."""


class Stop(Exception):
    """Raised where the conversion would begin to read weights."""


def main(questions: IO[str], answers: IO[str]) -> None:
    for line in questions:
        print(json.dumps(answer(json.loads(line))), file=answers, flush=True)


def answer(job: dict[str, Any]) -> Any:
    if "values" in job:
        return [value_of(argument) for argument in job["values"]]
    import_quickly()
    slices = [f"{key}={value}" for key, value in job.get("slices", {}).items()]
    heard = ActionListener()
    logging.getLogger().addHandler(heard)
    try:
        outcome = outcome_of(job, slices)
    except (Exception, SystemExit) as problem:  # noqa: BLE001 - whatever MaxText says is the answer
        outcome = {"error": f"{type(problem).__name__}: {str(problem)[:1_000_000]}"}
    finally:
        logging.getLogger().removeHandler(heard)
    return {**outcome, "ignored": heard.ignored}


@functools.cache
def import_quickly() -> None:
    sys.path.append(str(Path(__file__).parent))  # -I leaves it out
    from maxtext_quick import quicken

    quicken()


def outcome_of(job: dict[str, Any], slices: list[str]) -> dict[str, Any]:
    match job:
        case {"connects": keys}:
            return {"connects": connects(keys)}
        case {"rates": keys}:
            return {"rates": rates(keys)}
        case {"arrays": asked}:
            return {"arrays": arrays(*asked)}
        case {"mapping": argv}:
            return mapping(argv)
        case {"conversion": argv}:
            return conversion(argv)
        case {"trainer": argv}:
            return trainer(argv, *slices)
        case _:
            raise ValueError(f"no such job: {job}")


class ActionListener(logging.Handler):
    """MaxText warns where it ignores a key."""

    def __init__(self) -> None:
        super().__init__()
        self.ignored: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if "ignoring" in record.getMessage().lower():
            self.ignored.append(record.getMessage())


def value_of(argument: str) -> Any:
    """The value as MaxText's command line reads it, or why it does not."""
    from omegaconf import OmegaConf

    try:
        container = OmegaConf.to_container(OmegaConf.from_cli([argument]), resolve=True)
    except Exception as problem:  # noqa: BLE001
        return {"error": f"{type(problem).__name__}: {str(problem)[:300]}"}
    return {"value": container["key"]}


def connects(keys: dict[str, Any]) -> bool:
    """Return whether MaxText calls jax.distributed.initialize."""
    from maxtext.utils import max_utils

    defaults = {
        "hardware": "tpu",
        "enable_checkpointing": True,
        "compile_topology": "",
        "compile_topology_num_slices": -1,
        **dict.fromkeys(("skip_jax_distributed_system", "enable_single_controller", "inference_benchmark_test"), False),
        **dict.fromkeys(("enable_multi_tier_checkpointing", "enable_emergency_checkpoint"), False),
        "jax_distributed_initialization_timeout": 1,
    }
    with patch("jax.distributed.initialize") as initialize:
        max_utils.maybe_initialize_jax_distributed_system({**defaults, **keys})
    return bool(initialize.called)


def rates(keys: dict[str, Any]) -> list[float]:
    from types import SimpleNamespace

    from maxtext.configs import types
    from maxtext.utils import maxtext_utils

    defaults = {"learning_rate": 1.0, "learning_rate_final_fraction": 0.1, "warmup_steps_fraction": 0.0}
    cosine = types.LearningRateScheduleType.COSINE
    config = SimpleNamespace(**{**defaults, "lr_schedule_type": cosine, **keys})
    schedule = maxtext_utils.create_learning_rate_schedule(config)
    return [float(schedule(step)) for step in range(config.steps)]


def trainer(argv: list[str], *slices: str) -> dict[str, Any]:
    from maxtext.configs import pyconfig

    module, *arguments = argv[argv.index("-m") + 1 :]
    config = pyconfig.initialize_pydantic([script_of(module), *arguments, *slices, *HERE])
    return {"values": settings(config, arguments), "type": type(config).__name__}


def conversion(argv: list[str]) -> dict[str, Any]:
    """The module's own `__main__`, up to its configuration: its flags are taken out of argv, the rest must be keys."""
    from maxtext.configs import pyconfig

    _python, _m, module, *arguments = argv
    call: dict[str, Any] = {}

    def initialize(left: list[str]) -> None:
        call.update(left=left[1:], **trainer(["python3", "-m", module, *left[1:]]))
        raise Stop

    real, sys.argv = pyconfig.initialize, [script_of(module), *arguments]
    pyconfig.initialize = initialize
    try:
        runpy.run_path(script_of(module), run_name="__main__")
    except Stop:
        return call
    finally:
        pyconfig.initialize = real
    raise AssertionError("the conversion did not ask for its configuration")


def mapping(argv: list[str]) -> dict[str, Any]:
    """Arrays that the conversion would write; the weights' own files are not here."""
    import huggingface_hub
    import jax
    from maxtext.checkpoint_conversion.utils import utils

    jax.devices()  # before the conversion asks for sixteen of them
    validate = utils.validate_and_filter_param_map_keys
    facts_of_mapping: dict[str, Any] = {}

    def validated(sources: Any, arrays: Any) -> None:
        validate(sources, arrays)
        facts_of_mapping.update(arrays=len(arrays))
        raise Stop

    _python, _m, module, *arguments = argv
    sys.argv = [script_of(module), *arguments]
    with (
        patch.object(huggingface_hub, "list_repo_files", return_value=["model.safetensors"]),
        patch.object(utils, "load_hf_dict_from_safetensors", return_value={}),
        patch.object(utils, "validate_and_filter_param_map_keys", validated),
    ):
        try:
            runpy.run_path(script_of(module), run_name="__main__")
        except Stop:
            return facts_of_mapping
    raise AssertionError("the conversion did not compare the arrays")


def arrays(name: str, *keys: str) -> dict[str, list[int]]:
    """Dotted name -> shape of what from_pretrained reads from a checkpoint."""
    import jax
    from flax import nnx
    from maxtext.configs import pyconfig
    from maxtext.utils import maxtext_utils, model_creation_utils

    config = pyconfig.initialize([script_of(SFT), f"model_name={name}", *MODEL, *HERE, *keys])
    mesh = jax.sharding.Mesh(maxtext_utils.create_device_mesh(config), config.mesh_axes)
    _, built = model_creation_utils.create_nnx_abstract_model(config, mesh)
    others = (nnx.RngState, nnx.Cache, nnx.Intermediate, nnx.BatchStat)
    state = nnx.to_flat_state(nnx.state(built).filter(lambda _path, variable: not isinstance(variable, others)))
    return {".".join(map(str, path)): list(variable.get_value().shape) for path, variable in state}


def script_of(module: str) -> str:
    """Return argv[0] of `python3 -m module`; MaxText chooses the configuration file by it."""
    from maxtext.utils.globals import MAXTEXT_PKG_DIR

    path = Path(MAXTEXT_PKG_DIR, *module.split(".")[1:]).with_suffix(".py")
    if not path.is_file():
        raise FileNotFoundError(f"MaxText has no module {module}")
    return str(path)


def settings(config: Any, arguments: list[str]) -> dict[str, Any]:
    """The configuration's value of each `key=` among the arguments."""
    return {key: setting(config, key) for key, is_key, _ in (a.partition("=") for a in arguments) if is_key}


def setting(config: Any, key: str) -> Any:
    value = config
    for part in key.split("."):
        value = value[part] if isinstance(value, dict) else getattr(value, part)
    return plain(value)


def plain(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return os.fspath(value) if isinstance(value, os.PathLike) else value


if __name__ == "__main__":
    with os.fdopen(os.dup(1), "w") as own:
        os.dup2(2, 1)  # MaxText prints; only answers go out
        main(sys.stdin, own)
