"""The hub's answers about a repository of weights, against a stand-in."""

from __future__ import annotations

import json
import secrets
from typing import Any

import pytest

from tests.machine.test_http_session import Server, serving
from xsft.base.errors import Unreachable
from xsft.planning.hub import bytes_of, read_repository
from xsft.spec.conversion_inputs import ConversionSource
from xsft.spec.facts import SourceFacts

COMMIT = "c" * 40
REPO = "owner/name"
API = f"/api/models/{REPO}/revision"
FILES = f"/{REPO}/resolve/{COMMIT}"
INDEX = "model.safetensors.index.json"


def _info(*names: str, **more: Any) -> dict[str, Any]:
    return {"sha": COMMIT, "siblings": [{"rfilename": name} for name in names], **more}


def _answers(server: Server, answers: dict[str, Any]) -> None:
    server.answers = {path: (200, {}, json.dumps(body).encode()) for path, body in answers.items()}


def _read(server: Server, *, revision: str | None = None, token: str | None = None) -> SourceFacts:
    env = {"HF_ENDPOINT": f"http://{server.address}"}
    return read_repository(ConversionSource(repo=REPO, revision=revision), env=env, token=token)


def _whole(server: Server, **config: Any) -> None:
    index = {"metadata": {"total_size": 123}, "weight_map": {"model.norm.weight": "a.safetensors"}}
    info = _info("config.json", INDEX, safetensors={"parameters": {"BF16": 1}})
    config_document = {"vocab_size": 512, **config}
    _answers(server, {f"{API}/main": info, f"{FILES}/config.json": config_document, f"{FILES}/{INDEX}": index})


def test_read_repository_returns_commit_size_and_vocabulary() -> None:
    with serving() as server:
        _whole(server)
        source_facts = _read(server)
        assert source_facts == SourceFacts(commit=COMMIT, weights_bytes=123, vocabulary=512, fields={"vocab_size": 512})
        assert server.logins == {""}


def test_every_request_carries_the_token() -> None:
    token = f"hf_{secrets.token_hex(17)}"
    with serving() as server:
        _whole(server)
        _read(server, token=token)
        assert server.logins == {f"Bearer {token}"}


def test_a_slash_in_a_revision_is_escaped() -> None:
    with serving() as server:
        _answers(server, {f"{API}/refs%2Fpr%2F1": _info("README.md")})
        assert _read(server, revision="refs/pr/1").commit == COMMIT


@pytest.mark.parametrize(
    ("config", "index", "dtypes"),
    [
        ({"quantization_config": {"quant_method": "fp8"}}, {}, {}),
        ({}, {"model.layers.3.mlp.experts.0.up_proj.weight_scale_inv": "a.safetensors"}, {}),
        ({}, {}, {"F8_E4M3": 7, "BF16": 1}),
    ],
)
def test_quantised_weights_are_reported_before_the_download(
    config: dict[str, Any], index: dict[str, str], dtypes: dict[str, int]
) -> None:
    with serving() as server:
        _answers(
            server,
            {
                f"{API}/main": _info("config.json", INDEX, safetensors={"parameters": dtypes}),
                f"{FILES}/config.json": config,
                f"{FILES}/{INDEX}": {"weight_map": index},
            },
        )
        assert _read(server).quantized


@pytest.mark.parametrize(
    ("status", "code", "token", "id"),
    [
        (404, "RevisionNotFound", None, "hf-revision-unknown"),
        (401, "GatedRepo", None, "hf-gated"),
        (403, "GatedRepo", "token", "hf-gated"),
        (403, "", "token", "hf-gated"),
        (401, "RepoNotFound", None, "hf-repo-unknown"),
        (404, "RepoNotFound", None, "hf-repo-unknown"),
        (401, "", None, "hf-repo-unknown"),
    ],
)
def test_an_error_code_of_the_hub_becomes_a_problem_with_a_fix(
    status: int, code: str, token: str | None, id: str
) -> None:
    """source: huggingface_hub@2.4.0 utils/_http.py hf_raise_for_status."""
    with serving() as server:
        server.answers = {f"{API}/main": (status, {"X-Error-Code": code}, b"{}")}
        (problem,) = _read(server, token=token).problems
        assert problem.id == id
        assert problem.fix
        assert "hf auth login" in problem.fix or token or id == "hf-revision-unknown"


def test_a_gate_on_the_files_alone_is_reported() -> None:
    """The hub lists the files of a gated repository, but does not serve them."""
    with serving() as server:
        _whole(server)
        server.answers[f"{FILES}/config.json"] = (401, {"X-Error-Code": "GatedRepo"}, b"")
        assert [problem.id for problem in _read(server).problems] == ["hf-gated"]


@pytest.mark.parametrize(
    "names", [(), ("config.json",), ("config.json", "pytorch_model.bin"), ("adapter_config.json",)]
)
def test_a_repository_without_safetensors_is_invalid(names: tuple[str, ...]) -> None:
    with serving() as server:
        _answers(server, {f"{API}/main": _info(*names)})
        assert [problem.id for problem in _read(server).problems] == ["hf-repo-invalid"]


@pytest.mark.parametrize(
    ("status", "body"), [(500, b"{}"), (503, b""), (429, b""), (200, b"<html>"), (200, b"[]"), (200, b"{}")]
)
def test_an_unusable_response_is_unreachable(status: int, body: bytes) -> None:
    with serving() as server:
        server.answers = {f"{API}/main": (status, {}, body)}
        with pytest.raises(Unreachable):
            _read(server)


def test_a_hub_that_does_not_answer_is_unreachable() -> None:
    with serving() as server:
        pass
    with pytest.raises(Unreachable, match="ConnectionError"):
        _read(server)


def test_hf_hub_offline_sends_no_request() -> None:
    with serving() as server:
        env = {"HF_ENDPOINT": f"http://{server.address}", "HF_HUB_OFFLINE": "1"}
        with pytest.raises(Unreachable, match="HF_HUB_OFFLINE"):
            read_repository(ConversionSource(repo=REPO), env=env, token=None)
        assert server.asked == []


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"BF16": 3, "F32": 2}, 14),
        ({"F8_E4M3": 5, "BOOL": 1, "I64": 1}, 14),
        ({"F4": 4}, 2),
        ({"BF16": 3, "NEW": 1}, None),
        ({"BF16": "3"}, None),
        ({}, None),
    ],
)
def test_bytes_of_sizes_a_repository_from_its_parameter_counts(counts: dict[str, Any], expected: int | None) -> None:
    assert bytes_of(counts) == expected
