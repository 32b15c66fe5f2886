"""What goes in comes out: a tiny model of each family that MaxText converts and exports, by every reader.

| family | transformers 4.57 | transformers 5 | mlx-lm |
|---|---|---|---|
| llama3.1, qwen2.5, qwen3, gemma2 | reads the source's configuration, RoPE and tokens | the same | logits agree |
| gemma3, gpt-oss | the same | the same | cannot load it (`UNLOADED` has its words) |
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from uv import find_uv_bin

from tests.maxtext import answer, environment
from tests.weightsrounds import FAMILIES, KINDS, Family, question
from xsft.catalog.data import located
from xsft.catalog.releases import DEFAULT
from xsft.catalog.weights import UNLOADED, model_type, weights_failure
from xsft.environments.ask import Interpreter
from xsft.environments.ask import ask as ask_program
from xsft.environments.installed import BuiltEnvironment
from xsft.environments.uv import uv_environment
from xsft.machine.paths import own_cache
from xsft.weights.export_record import LOGITS_BOUNDS
from xsft.workers.model_files import with_both_spellings

pytestmark = [pytest.mark.contract, pytest.mark.maxtext]
ROUND, READS = (Path(__file__).with_name(f"{name}.py") for name in ("weights_round", "reads"))
NAMES = [family.model for family in FAMILIES]
CHANGED = {"_name_or_path", "bos_token_id", "eos_token_id", "pad_token_id", "dtype", "torch_dtype", "rope_parameters"}
"""The tokenizer, the place and the export's type; transformers 4 keeps rope_parameters without reading them."""


@pytest.fixture(scope="module")
def rounds(maxtext_python: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folder of each family: `source`, `exported`, `five` and MaxText's logits."""
    folder = tmp_path_factory.mktemp("rounds")
    jobs = json.dumps([question(family, folder / family.model) for family in FAMILIES])
    for part in ("there and back", "load"):  # the converter simulates 16 devices, and a forward pass takes one
        argv = (maxtext_python, ROUND, part)
        env = environment(str(folder)) | {"HF_HUB_OFFLINE": "1"}
        done = subprocess.run(argv, env=env, input=jobs, capture_output=True, text=True, check=True)
        answers = {
            answer["model"]: (answer["stage"], answer["why"]) for answer in json.loads(done.stdout.splitlines()[-1])
        }
        assert answers == dict.fromkeys(NAMES, ("done", "")), done.stderr[-3000:]
    found = {family.model: folder / family.folder for family in FAMILIES}
    for place in found.values():
        complete(place)
    return found


def ask(families: Sequence[Family], folder: Path, python: Path, *, part: str = "") -> list[tuple[str, str]]:
    """The stage that each family came to, and why not further."""
    jobs = [question(family, folder / family.folder) for family in families]
    env = environment(str(folder)) | {"HF_HUB_OFFLINE": "1"}
    argv = (python, ROUND, part)
    done = subprocess.run(argv, env=env, input=json.dumps(jobs), capture_output=True, text=True, check=True)
    return [(answer["stage"], answer["why"]) for answer in json.loads(done.stdout.splitlines()[-1])]


def complete(folder: Path) -> None:
    """Give the source its tokenizer, and write `five`: its configuration as transformers 5 would have saved it."""
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(Path(located("xsft://tiny/tokenizer")) / name, folder / "source" / name)
    shutil.copytree(folder / "source", folder / "five")
    config = with_both_spellings(json.loads((folder / "source/config.json").read_text()))
    for section in (config, config.get("text_config", {})):
        for name in ("rope_theta", "rope_scaling", "rope_local_base_freq"):
            section.pop(name, None)
    (folder / "five/config.json").write_text(json.dumps(with_both_spellings(config)))


@pytest.fixture(scope="session")
def transformers_4() -> Path:
    """The interpreter of an environment with transformers 4.57, made once per machine. vLLM is built on that."""
    lock = Path(__file__).with_name("transformers4.txt")
    folder = own_cache() / "tests" / f"transformers4-{hashlib.sha256(lock.read_bytes()).hexdigest()[:12]}"
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        env = dict(uv_environment(os.environ))
        subprocess.run((find_uv_bin(), "venv", "--clear", "--python", sys.executable, folder), env=env, check=True)
        install = (find_uv_bin(), "pip", "sync", "--python", python, "--require-hashes", lock)
        subprocess.run(install, env=env, check=True)
        (folder / "complete").touch()
    return python


@pytest.fixture(scope="module", params=["transformers 4.57", "transformers 5"])
def read(
    request: pytest.FixtureRequest, rounds: Mapping[str, Path], maxtext_python: Path, transformers_4: Path
) -> dict[str, Any]:
    """What one version of transformers reads of every folder."""
    python = maxtext_python if request.param.endswith("5") else transformers_4
    folders = [str(folder / name) for folder in rounds.values() for name in ("source", "exported", "five")]
    env = environment(str(rounds[NAMES[0]])) | {"HF_HUB_OFFLINE": "1"}
    done = subprocess.run((python, READS, *folders), env=env, capture_output=True, text=True, check=True)
    reports: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return reports


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("copy", ["exported", "five"])
def test_every_reader_reads_the_sources_configuration_and_tokens(
    name: str, copy: str, read: Mapping[str, Any], rounds: Mapping[str, Path]
) -> None:
    right, copied = (read[str(rounds[name] / which)] for which in ("source", copy))
    assert "error" not in right, right
    assert "error" not in copied, copied
    differing = {key for key in right["config"] if right["config"][key] != copied["config"].get(key)}
    assert differing <= CHANGED, {key: (right["config"][key], copied["config"].get(key)) for key in differing}
    fives = [report["config"].get("rope_parameters") for report in (right, copied)]
    assert fives[0] in (None, fives[1])
    assert copied["tokens"] == right["tokens"]


@pytest.mark.parametrize("name", NAMES)
def test_the_exported_tensors_are_the_sources(name: str, rounds: Mapping[str, Path], maxtext_python: Path) -> None:
    """Gemma's norms are stored as MaxText has them, one less: rounding may leave the last bit of bfloat16."""
    same = subprocess.run((maxtext_python, "-I", "-c", SAME, rounds[name]), capture_output=True, text=True, check=False)
    assert same.returncode == 0, same.stderr[-2000:]


SAME = """
import sys
from pathlib import Path
import ml_dtypes, numpy
from safetensors.numpy import load_file
folder = Path(sys.argv[1])
source = load_file(folder / "source/model.safetensors")
held = {}
for file in (folder / "exported").glob("*.safetensors"):
    held |= load_file(file)
assert held.keys() == source.keys(), held.keys() ^ source.keys()
for name, right in source.items():
    slack = 2.0**-8 if "norm" in name else 0
    numpy.testing.assert_allclose(held[name].astype("f4"), right.astype("f4"), rtol=0, atol=slack, err_msg=name)
"""


def test_logits_of_maxtext_and_of_the_engine_agree_or_the_engine_says_why_it_cannot_load(
    rounds: Mapping[str, Path], inference_engine: BuiltEnvironment, tmp_path: Path
) -> None:
    results = {}
    for name, folder in rounds.items():
        notes = {"folders": [str(folder / "exported")], "file": str(folder / "logits.npz")}
        notes |= {"bound": LOGITS_BOUNDS["bfloat16"]}
        env = environment(str(tmp_path)) | {"HF_HUB_OFFLINE": "1"}
        interpreter = Interpreter(python=inference_engine.python, env=env)
        (results[name],) = ask_program(interpreter, "xsft.workers.compare_logits", notes)["folders"]
    unloaded = {model_type(name) for name, verdict in results.items() if "unloaded" in verdict}
    assert unloaded == set(UNLOADED), results
    for name, verdict in results.items():
        kind = model_type(name) or ""
        if kind in UNLOADED:
            assert UNLOADED[kind].rpartition("`")[0].rpartition("`")[2] in verdict["unloaded"]
        else:
            assert (verdict["differing"], verdict["same_argmax"]) == (0, verdict["positions"]), (name, verdict)


@pytest.mark.trainer
def test_models_that_fail_are_those_of_the_catalogue(maxtext_python: Path, tmp_path: Path) -> None:
    """Slow: `make maxtext-release` runs it. A release that mends one is found here, too."""
    for kind, (stage, why) in zip(KINDS, ask(KINDS, tmp_path, maxtext_python), strict=True):
        failure_of_model = weights_failure(kind.model, stage="convert", version=DEFAULT, scan_layers=kind.scan_layers)
        assert (stage == "done") == (failure_of_model is None), (kind.model, kind.scan_layers, stage, why)


def test_models_that_the_tables_cannot_describe_are_those_of_the_catalogue(maxtext_python: Path) -> None:
    failures_by_model = answer(maxtext_python, Path(__file__).with_name("maxtext_tables.py"))
    assert {name: failure.partition(":")[0] for name, failure in failures_by_model.items()} == {
        "qwen3-next-80b-a3b": "export"
    }
    failing = weights_failure("qwen3-next-80b-a3b", stage="export", version=DEFAULT, scan_layers=True)
    assert failing is not None
