"""`xsft serve` with the real engine, asked by OpenAI's own client."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.hfmodels import write_model
from xsft.effects.environments.installed import BuiltEnvironment

pytestmark = pytest.mark.contract

SERVED = {"rms_norm_eps": 1e-6, "rope_theta": 1e6, "max_position_embeddings": 2048}
"""What an engine needs of config.json and MaxText does not."""
MESSAGES: Any = [{"role": "user", "content": "What is 2 + 3?"}]

NO_END = {"0": -100}
"""The tokenizer's <|end|>, which random weights may choose at once."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("served") / "model", config=SERVED)


def start(folder: Path, *options: str) -> subprocess.Popen[str]:
    argv = (sys.executable, "-m", "xsft", "serve", str(folder), *options)
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


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
            assert process.wait(timeout=30) == 130
    with pytest.raises(openai.APIConnectionError):
        client(document).chat.completions.create(model=document["model"], messages=MESSAGES)


def client(document: dict[str, str]) -> openai.OpenAI:
    return openai.OpenAI(base_url=document["url"], api_key="none", max_retries=0)


def test_the_official_client_gets_the_same_answer_whole_and_in_parts(server: dict[str, str]) -> None:
    asked: Any = {"model": server["model"], "messages": MESSAGES, "max_tokens": 8, "logit_bias": NO_END}
    whole = client(server).chat.completions.create(**asked)
    parts = client(server).chat.completions.create(**asked, stream=True)
    text = "".join(part.choices[0].delta.content or "" for part in parts if part.choices)
    assert whole.usage is not None
    assert whole.usage.completion_tokens == 8
    assert text == whole.choices[0].message.content != ""


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
        assert process.wait(timeout=30) == 130
    with pytest.raises(openai.APIConnectionError):
        client(document).models.list()


def test_weights_that_the_engine_cannot_load_end_with_its_last_lines(
    tmp_path: Path, inference_engine: BuiltEnvironment
) -> None:
    broken = write_model(tmp_path / "broken", config=SERVED)
    (broken / "model.safetensors").write_bytes(b"not safetensors")
    with start(broken) as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (6, "")
    assert "engine-failed" in err
