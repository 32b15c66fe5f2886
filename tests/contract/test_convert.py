"""From Hugging Face weights to a checkpoint on this machine: the real converter, and kill -9 between."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fakes.hubfiles import COMMIT, HubFiles, files_in, serving_files
from tests.hfmodels import SIZES, write_model
from tests.until import until
from xsft.machine.paths import own_cache
from xsft.machine.pid_namespace import Containment

WORKLOAD = {
    "name": "tiny",
    "target": "local",
    "model": {"name": "qwen3-0.6b", "tokenizer": "./model", "hf": {"repo": "./model"}},
    "data": {"hf_path": "json", "hf_train_files": "xsft://tiny/chat.jsonl", "columns": ["messages"]},
    "train": {"steps": 2, "per_device_batch_size": 1, "max_target_length": 64},
    "output": "./out",
    "overrides": {"maxtext": dict(SIZES)},
}

SAME = """
import sys
import numpy, tensorstore
from safetensors.numpy import load_file
wanted = load_file(sys.argv[2])
def stored(name):
    spec = {"driver": "zarr", "kvstore": {"driver": "file", "path": f"{sys.argv[1]}/params.params.{name}/"}}
    return numpy.asarray(tensorstore.open(spec).result().read().result())
gate = stored("decoder.layers.mlp.wi_0.kernel")
assert (stored("token_embedder.embedding") == wanted["model.embed_tokens.weight"]).all()
for layer in range(28):
    assert (gate[:, layer] == wanted[f"model.layers.{layer}.mlp.gate_proj.weight"].T).all(), layer
"""
"""Each weight stands where MaxText reads it: the embedding, and the layers along param_scan_axis."""

FP8 = """
import sys
import ml_dtypes, numpy
from safetensors.numpy import save_file
weight = numpy.ones((128, 64), numpy.float32).astype(ml_dtypes.float8_e4m3fn)
scale = numpy.full((1, 1), 0.5, numpy.float32)
name = "model.layers.0.mlp.up_proj.weight"
save_file({name: weight, **({f"{name}_scale_inv": scale} if sys.argv[2:] else {})}, sys.argv[1])
"""


class Lab:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        write_model(folder / "model")
        (folder / "w.yaml").write_text(yaml.safe_dump(WORKLOAD))
        self.env = {**os.environ, "XSFT_STATE_DIR": str(folder / "state"), "HF_HUB_OFFLINE": "1"}

    def with_hub(self, url: str) -> None:
        """Take the weights from a hub, into a cache without downloads."""
        (self.folder / "cache").mkdir()
        for kept in own_cache().iterdir():
            if kept.name != "huggingface":
                (self.folder / "cache" / kept.name).symlink_to(kept)
        self.env |= {"HF_ENDPOINT": url, "XSFT_CACHE_DIR": str(self.folder / "cache"), "HF_HUB_OFFLINE": "0"}
        model = {**WORKLOAD["model"], "hf": {"repo": "me/tiny"}}
        (self.folder / "w.yaml").write_text(yaml.safe_dump({**WORKLOAD, "model": model}))

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        argv = (sys.executable, "-m", "xsft", *arguments)
        pipe = subprocess.PIPE
        return subprocess.Popen(argv, cwd=self.folder, env=self.env, stdout=pipe, stderr=pipe, text=True)

    def said(self, *arguments: str) -> tuple[int, dict[str, Any]]:
        with self.start(*arguments, "--json") as process:
            out, err = process.communicate()
        assert out, err
        return process.returncode, json.loads(out)

    @property
    def written(self) -> list[Path]:
        """Return the files that MaxText wrote in any try."""
        return [path for path in self.folder.glob("out/converted/*/*") if path.name != "xsft"]


@pytest.fixture
def lab(tmp_path: Path, maxtext_python: Path, private_pids: Containment) -> Lab:
    return Lab(tmp_path)


@pytest.mark.trainer
def test_a_killed_conversion_resumes_and_is_found_by_the_next_call(lab: Lab, maxtext_python: Path) -> None:
    """From a hub, whose connection breaks in the middle. tests/contract/test_whole_pipeline.py trains from it."""
    weights = write_model(lab.folder / "model", unused=12_000_000) / "model.safetensors"
    with serving_files(HubFiles(files_in(weights.parent), cut_after={weights.name: CUT})) as hub:
        lab.with_hub(hub.url)
        conversion = converted_after_a_kill(lab)
        downloads = [request for request in hub.asked if request.startswith("GET") and "safetensors" in request]
        assert downloads == [f"GET /me/tiny/resolve/{COMMIT}/{weights.name}{more}" for more in ("", RESUMED)]
        subprocess.run((maxtext_python, "-I", "-c", SAME, conversion["checkpoint"], weights), check=True)
        status, found = lab.said("checkpoint", "convert", "w.yaml")
        assert (status, found["action"], found["checkpoint"]) == (0, "finished", conversion["checkpoint"])
        status, inspected = lab.said("checkpoint", "inspect", conversion["checkpoint"])
        assert (status, inspected["status"], inspected["modes"]) == (0, "complete", ["mcjax", "pathways"])
        assert inspected["written_by"]["source"] == f"me/tiny@{COMMIT}"

        status, planned = lab.said("plan", "w.yaml")
        assert status == 0
        assert f"load_parameters_path={conversion['checkpoint']}" in planned["plans"][0]["trainer_argv"]


CUT, RESUMED = 22_000_000, f" bytes={20 * 2**20}-"
"""huggingface_hub writes pieces of 10 MiB, and asks for the rest of the file after the last whole one."""


def converted_after_a_kill(lab: Lab) -> dict[str, Any]:
    with lab.start("checkpoint", "convert", "w.yaml") as killed:
        until(lambda: lab.written or killed.poll() is not None, within_s=600)
        assert killed.poll() is None, killed.communicate()
        killed.send_signal(signal.SIGKILL)
    (torn,) = lab.folder.glob("out/converted/*")
    paths = sorted(torn.rglob("*"))
    status, refused = lab.said("submit", "w.yaml")
    assert (status, [p["id"] for p in refused["problems"] if p["severity"] == "error"]) == (
        2,
        ["checkpoint-to-convert"],
    )

    status, conversion = lab.said("checkpoint", "convert", "w.yaml")
    assert (status, conversion["action"]) == (0, "attempt")
    assert (conversion["checkpoint"], conversion["not_whole"]) == (f"{torn}-2/0/items", [str(torn)])
    assert set(paths) <= set(torn.rglob("*"))
    return conversion


@pytest.mark.contract
@pytest.mark.parametrize("scales", [(), ("scales",)])
def test_block_quantised_weights_are_refused(lab: Lab, maxtext_python: Path, scales: tuple[str, ...]) -> None:
    file = lab.folder / "model" / "model.safetensors"
    subprocess.run((maxtext_python, "-I", "-c", FP8, file, *scales), check=True)
    status, document = lab.said("checkpoint", "convert", "w.yaml")
    assert status == 2
    assert "weights-quantized" in {problem["id"] for problem in document["problems"]}
    assert not (lab.folder / "out").exists()
