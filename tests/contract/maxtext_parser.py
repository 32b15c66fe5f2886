"""Runs in MaxText's environment: what MaxText itself makes of command lines. Arguments: `jobs.json results.json`.

A job is `{"values": [arg, …]}` (OmegaConf alone), `{"trainer": argv}`, `{"conversion": argv}` (MaxText's configuration,
as the module named in argv would load it; `slices` are keys that describe the hardware it would find) or
`{"mapping": argv}` (the conversion up to its first weight: every array of the model has a source).
Importing MaxText takes seconds, so all jobs share one process.
"""

from __future__ import annotations

import enum
import json
import logging
import os
import runpy
import sys
import unittest  # noqa: F401 - MaxText exits the process on a configuration error unless it sees this module
from pathlib import Path
from typing import Any

HERE = ("skip_jax_distributed_system=True", "log_config=False")
"""What a machine without a slice adds: no coordinator to wait for, no page of settings in the log."""


class Stop(Exception):
    """Raised where the conversion would begin to read weights."""


def main(jobs: Path, results: Path) -> None:
    answers = [answer(job) for job in json.loads(jobs.read_text(encoding="utf-8"))]
    results.write_text(json.dumps(answers), encoding="utf-8")


def answer(job: dict[str, Any]) -> Any:
    if "values" in job:
        return [value_of(argument) for argument in job["values"]]
    slices = [f"{key}={value}" for key, value in job.get("slices", {}).items()]
    heard = Listener()
    logging.getLogger().addHandler(heard)
    try:
        if "mapping" in job:
            outcome = mapping(job["mapping"])
        else:
            outcome = conversion(job["conversion"]) if "conversion" in job else trainer(job["trainer"], *slices)
    except (Exception, SystemExit) as problem:  # noqa: BLE001 - whatever MaxText says is the answer
        outcome = {"error": f"{type(problem).__name__}: {str(problem)[:1000]}"}
    finally:
        logging.getLogger().removeHandler(heard)
    return {**outcome, "ignored": heard.ignored}


class Listener(logging.Handler):
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


def trainer(argv: list[str], *slices: str) -> dict[str, Any]:
    from maxtext.configs import pyconfig

    module, *arguments = argv[argv.index("-m") + 1 :]
    config = pyconfig.initialize_pydantic([script_of(module), *arguments, *slices, *HERE])
    return {"values": settings(config, arguments), "type": type(config).__name__}


def conversion(argv: list[str]) -> dict[str, Any]:
    """The module's own `__main__`, up to its configuration: its flags are taken out of argv, the rest must be keys."""
    from maxtext.configs import pyconfig

    _python, _m, module, *arguments = argv
    seen: dict[str, Any] = {}

    def initialize(left: list[str]) -> None:
        seen.update(left=left[1:], **trainer(["python3", "-m", module, *left[1:]]))
        raise Stop

    real, sys.argv = pyconfig.initialize, [script_of(module), *arguments]
    pyconfig.initialize = initialize
    try:
        runpy.run_path(script_of(module), run_name="__main__")
    except Stop:
        return seen
    finally:
        pyconfig.initialize = real
    raise AssertionError("the conversion did not ask for its configuration")


def mapping(argv: list[str]) -> dict[str, Any]:
    """Arrays that the conversion would write; the weights' own files are not here."""
    import huggingface_hub
    from maxtext.checkpoint_conversion.utils import utils

    validate = utils.validate_and_filter_param_map_keys
    seen: dict[str, Any] = {}

    def validated(sources: Any, arrays: Any) -> None:
        validate(sources, arrays)
        seen.update(arrays=len(arrays))
        raise Stop

    huggingface_hub.list_repo_files = lambda *_, **__: ["model.safetensors"]
    utils.load_hf_dict_from_safetensors = lambda *_, **__: {}
    utils.validate_and_filter_param_map_keys = validated
    _python, _m, module, *arguments = argv
    sys.argv = [script_of(module), *arguments]
    try:
        runpy.run_path(script_of(module), run_name="__main__")
    except Stop:
        return seen
    raise AssertionError("the conversion did not compare the arrays")


def script_of(module: str) -> str:
    """What `python3 -m module` has as argv[0]; MaxText chooses the configuration file by it."""
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
    main(Path(sys.argv[1]), Path(sys.argv[2]))
