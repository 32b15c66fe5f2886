"""`xsft serve` with the real engine, asked by OpenAI's own client."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import openai
import pytest

from tests.exports import recorded, trainer_argv
from tests.hfmodels import write_model, write_safetensors
from tests.stages.test_export import FAKE, Lab
from xsft.environments.installed import BuiltEnvironment

pytestmark = pytest.mark.contract

SERVED = {"rms_norm_eps": 1e-6, "rope_theta": 1e6, "max_position_embeddings": 2048}
"""What an engine needs of config.json and MaxText does not."""
MESSAGES: Any = [{"role": "user", "content": "What is 2 + 3?"}]

NO_END = {"0": -100}
"""The tokenizer's <|end|>, which random weights may choose at once."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("served") / "model", config=SERVED)


def start(model: Path | str, *options: str, **env: str) -> subprocess.Popen[str]:
    argv = (sys.executable, "-m", "xsft", "serve", str(model), *options)
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **env})


@pytest.fixture(scope="module")
def server(folder: Path, inference_engine: BuiltEnvironment) -> Iterator[dict[str, str]]:
    """The document of a server that answers; at the end Ctrl-C stops it, and nothing of it stays."""
    with start(folder, "--json") as process:
        assert process.stdout is not None
        document = json.loads(process.stdout.readline())
        try:
            yield document
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=300) == 130
    with pytest.raises(openai.APIConnectionError):
        client(document).chat.completions.create(model=document["model"], messages=MESSAGES)


def client(document: dict[str, str]) -> openai.OpenAI:
    return openai.OpenAI(base_url=document["url"], api_key="none", max_retries=0)


def test_the_official_client_gets_the_same_answer_whole_and_in_parts(server: dict[str, str]) -> None:
    request: Any = {"model": server["model"], "messages": MESSAGES, "max_tokens": 8, "logit_bias": NO_END}
    completion = client(server).chat.completions.create(**request)
    parts = client(server).chat.completions.create(**request, stream=True)
    text = "".join(part.choices[0].delta.content or "" for part in parts if part.choices)
    assert completion.usage is not None
    assert completion.usage.completion_tokens == 8
    assert text == completion.choices[0].message.content != ""


def test_a_request_for_another_model_downloads_nothing(server: dict[str, str]) -> None:
    with pytest.raises(openai.APIStatusError):
        client(server).chat.completions.create(model="Qwen/Qwen3-0.6B", messages=MESSAGES)
    again = client(server).chat.completions.create(model=server["model"], messages=MESSAGES, max_tokens=1)
    assert again.usage is not None


def test_the_list_of_models_names_none_of_the_users_cache(server: dict[str, str]) -> None:
    assert [model.id for model in client(server).models.list()] in ([], [server["folder"]])


def test_a_terminated_xsft_leaves_no_server(folder: Path, inference_engine: BuiltEnvironment) -> None:
    with start(folder, "--json") as process:
        assert process.stdout is not None
        document = json.loads(process.stdout.readline())
        process.terminate()
        assert process.wait(timeout=300) == 130
    with pytest.raises(openai.APIConnectionError):
        client(document).models.list()


def test_weights_that_the_engine_cannot_load_end_with_its_last_lines(
    tmp_path: Path, inference_engine: BuiltEnvironment
) -> None:
    broken = write_model(tmp_path / "broken", config=SERVED)
    write_safetensors(broken / "model.safetensors", {"model.norm.weight": np.zeros(64, np.float32)})
    with start(broken) as process:
        out, err = process.communicate(timeout=300)
    assert (process.returncode, out) == (6, "")
    assert "engine-failed" in err


@pytest.fixture
def trained(tmp_path: Path) -> Lab:
    """A training whose weights are exported by a stand-in for MaxText."""
    lab = Lab(folder=tmp_path)
    model = write_model(tmp_path / "model", config=SERVED)
    (tmp_path / "python").write_text(f"#!{sys.executable}\n{FAKE}")
    (tmp_path / "python").chmod(0o755)
    recorded(lab.store, tmp_path, "tiny", trainer_argv(tmp_path, "tiny", model=str(model), base="/base/0/items"))
    lab.save()
    lab.does()
    return lab


def test_a_run_is_served_from_its_export(trained: Lab, inference_engine: BuiltEnvironment) -> None:
    exported = trained.export()
    with start("tiny", "--json", XSFT_STATE_DIR=trained.env["XSFT_STATE_DIR"]) as process:
        assert process.stdout is not None
        document = json.loads(process.stdout.readline())
        parts = client(document).chat.completions.create(
            model=document["model"], messages=MESSAGES, max_tokens=4, logit_bias=NO_END, stream=True
        )
        text = "".join(part.choices[0].delta.content or "" for part in parts if part.choices)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=300) == 130
    assert text
    assert document["folder"] == exported.plan.folder


def test_serve_refuses_a_name_that_no_training_has(trained: Lab, inference_engine: BuiltEnvironment) -> None:
    with start("nobody", XSFT_STATE_DIR=trained.env["XSFT_STATE_DIR"]) as process:
        _, err = process.communicate(timeout=300)
    assert process.returncode == 2
    assert "Run nobody was not submitted from this machine." in err


def test_a_port_in_use_is_refused_before_anything_is_exported(trained: Lab) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = str(listening.getsockname()[1])
        with start("tiny", "--port", port, XSFT_STATE_DIR=trained.env["XSFT_STATE_DIR"]) as process:
            _, err = process.communicate(timeout=300)
    assert process.returncode == 4
    assert "port-in-use" in err
    assert trained.steps() == []
