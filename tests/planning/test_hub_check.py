"""The hub's answers about a data set, against a stand-in on loopback.

source: huggingface.co/docs/dataset-viewer/info; datasets@5.2.0 utils/_dataset_viewer.py; huggingface_hub@2.4.0
hf_api.py [dataset_info, auth_check], utils/_http.py [hf_raise_for_status].
"""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import xsft
from tests.checks.factory import run_of, spec
from tests.machine.test_http_session import Server, serving
from xsft.base.errors import Unreachable
from xsft.base.problems import Problem
from xsft.checks.facts import Facts
from xsft.checks.model import moved_commits
from xsft.data.facts import HubDataFacts
from xsft.planning import api
from xsft.planning.hub import check_commit, check_data, check_weights, read_data, tokenizer_of_pods
from xsft.planning.hub_reader import HubReader
from xsft.records.record import Attempt, Record
from xsft.spec.conversion_inputs import ConversionSource
from xsft.spec.digest import spec_digest
from xsft.spec.facts import SourceFacts
from xsft.spec.resolve import resolve

WORKLOADS = Path(__file__).parents[2] / "workloads"
PATH = "owner/rows"
INFO = f"/api/datasets/{PATH}"
TABLE = {
    "dataset_info": {
        "en": {"features": {"messages": {}, "id": {}}, "splits": {"train": {}, "test": {}}},
        "de": {"features": {"text": {}}, "splits": {"train": {}}},
    },
    "pending": [],
    "failed": [],
    "partial": False,
}
FOUND = HubDataFacts(
    splits={"en": ("train", "test"), "de": ("train",)}, columns={"en": ("messages", "id"), "de": ("text",)}
)


def answers(server: Server, bodies: dict[str, Any]) -> None:
    server.answers = {path: (200, {}, json.dumps(body).encode()) for path, body in bodies.items()}


def read(server: Server, *, token: str | None = None) -> HubDataFacts:
    address = f"http://{server.address}"
    return read_data(PATH, env={"HF_ENDPOINT": address}, token=token, viewer=address)


def test_check_data_returns_configurations_splits_and_columns() -> None:
    token = f"hf_{secrets.token_hex(17)}"
    with serving() as server:
        answers(server, {INFO: {"gated": False}, "/info": TABLE})
        assert read(server, token=token) == FOUND
        assert server.logins == {f"Bearer {token}"}


def test_the_default_configuration_comes_from_the_card() -> None:
    with serving() as server:
        configs = [{"config_name": "en"}, {"config_name": "de", "default": True}]
        answers(server, {INFO: {"gated": False, "cardData": {"configs": configs}}, "/info": TABLE})
        assert read(server) == replace(FOUND, default="de")


def test_a_loading_script_of_a_data_set_is_named() -> None:
    with serving() as server:
        files = [{"rfilename": "README.md"}, {"rfilename": f"{PATH.rpartition('/')[2]}.py"}]
        answers(server, {INFO: {"gated": False, "siblings": files}, "/info": TABLE})
        assert read(server).script == f"{PATH.rpartition('/')[2]}.py"


@pytest.mark.parametrize("table", [{**TABLE, "partial": True}, {**TABLE, "failed": ["de"]}, {"error": "x"}, []])
def test_a_partial_table_is_ignored(table: Any) -> None:
    with serving() as server:
        answers(server, {INFO: {"gated": False}, "/info": table})
        assert read(server) == HubDataFacts()


@pytest.mark.parametrize(
    ("status", "code", "access"), [(401, "RepoNotFound", "unknown"), (404, "", "unknown"), (403, "GatedRepo", "gated")]
)
def test_a_refused_data_set_has_unknown_or_gated_access(status: int, code: str, access: str) -> None:
    with serving() as server:
        server.answers = {INFO: (status, {"X-Error-Code": code}, b"{}")}
        assert read(server).access == access


def test_a_gated_data_set_is_accessible_once_its_terms_are_accepted() -> None:
    with serving() as server:
        answers(server, {INFO: {"gated": "manual"}, "/info": TABLE})
        server.answers[f"{INFO}/auth-check"] = (403, {"X-Error-Code": "GatedRepo"}, b"{}")
        assert read(server).access == "gated"
        server.answers[f"{INFO}/auth-check"] = (200, {}, b"OK")
        assert read(server) == FOUND


def test_an_unanswered_request_is_reported_without_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as server:
        server.answers = {INFO: (503, {}, b"")}
        with pytest.raises(Unreachable):
            read(server)
        monkeypatch.setenv("HF_ENDPOINT", f"http://{server.address}")
        assert "503" in check_data(PATH).unanswered
    assert "ConnectionError" in check_data(PATH).unanswered
    assert "ConnectionError" in check_weights(ConversionSource(repo=PATH)).unanswered
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert "HF_HUB_OFFLINE" in check_data(PATH).unanswered


def test_check_weights_reports_quantised_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as server:
        files = ["config.json", "model.safetensors"]
        answers(
            server,
            {
                "/api/models/Qwen/Qwen3-0.6B/revision/main": {
                    "sha": "c" * 40,
                    "siblings": [{"rfilename": name} for name in files],
                },
                f"/Qwen/Qwen3-0.6B/resolve/{'c' * 40}/config.json": {"quantization_config": {"quant_method": "fp8"}},
            },
        )
        monkeypatch.setenv("HF_ENDPOINT", f"http://{server.address}")
        reported = api.check(xsft.load(WORKLOADS / "qwen3_gsm8k.yaml"))
        assert "weights-quantized" in [problem.id for problem in reported]


def problems(hub_data_facts: HubDataFacts, *settings: str, workload: str = "deepseek_lora") -> list[Problem]:
    paths: list[str] = []

    def answer(path: str) -> HubDataFacts:
        paths.append(path)
        return hub_data_facts

    loaded = xsft.load(WORKLOADS / f"{workload}.yaml", settings=(f"data.hf_path={PATH}", *settings))
    (intent,) = api.intend((loaded,), hub=HubReader(answer, lambda _source: SourceFacts()))
    assert paths == [PATH]
    return [p for p in intent.problems if p.where.startswith("data.") and p.id.startswith(("hub", "data", "col"))]


GOOD = ("data.hf_name=en", "data.train_split=train", "data.columns=[messages]")


@pytest.mark.parametrize(
    ("hub_data_facts", "settings", "ids"),
    [
        (FOUND, GOOD, []),
        (FOUND, GOOD[1:], ["dataset-configuration"]),
        (replace(FOUND, default="en"), GOOD[1:], []),
        (FOUND, (*GOOD[:1], "data.train_split=train_sft", GOOD[2]), ["dataset-split"]),
        (FOUND, ("data.hf_name=de", *GOOD[1:]), ["columns-dataset"]),
        (HubDataFacts(), GOOD, ["hub-data-unknown"]),
        (HubDataFacts(unanswered="no network"), GOOD, ["hub-data-unknown"]),
        (HubDataFacts(access="unknown"), GOOD, ["hub-data-access"]),
    ],
    ids=[
        "good",
        "no configuration named",
        "default configuration",
        "unknown split",
        "other columns",
        "nothing known",
        "no network",
        "access unknown",
    ],
)
def test_each_mismatch_with_the_data_section_has_its_problem_id(
    hub_data_facts: HubDataFacts, settings: tuple[str, ...], ids: list[str]
) -> None:
    assert [problem.id for problem in problems(hub_data_facts, *settings)] == ids


def test_the_checks_never_use_the_token_of_the_pods() -> None:
    gated = HubDataFacts(access="gated")
    settings = (("secrets.hf_token=null",), ("secrets.hf_token.secret=s", "secrets.hf_token.key=k"))
    (without,), (with_token,) = (problems(gated, *GOOD, *more) for more in settings)
    assert (without.severity, with_token.severity) == ("error", "warning")
    assert "the account of secrets.hf_token" in with_token.fix


def test_data_sets_of_the_catalogue_need_no_request() -> None:
    loaded = xsft.load(WORKLOADS / "deepseek_lora.yaml")
    paths: list[str] = []
    api.intend((loaded,), hub=HubReader(paths.append, lambda _source: None))
    assert paths == []


@pytest.mark.parametrize(("status", "code"), [(404, ""), (401, ""), (403, "GatedRepo")])
def test_a_tokenizer_that_pods_without_a_token_cannot_read_is_an_error(
    monkeypatch: pytest.MonkeyPatch, status: int, code: str
) -> None:
    run = resolve(spec(model={"tokenizer": "owner/private"}), Facts())[0]
    with serving() as server:
        monkeypatch.setenv("HF_ENDPOINT", f"http://{server.address}")
        monkeypatch.setenv("HF_TOKEN_PATH", __file__)  # the submitter's own login is not the pods'
        server.answers = {"/api/models/owner/private/revision/main": (status, {"X-Error-Code": code}, b"{}")}
        (problem,) = tokenizer_of_pods(run)
        assert server.logins == {""}
        assert (problem.id, problem.severity, problem.where) == ("tokenizer-unreadable", "error", "model.tokenizer")
        assert "secrets.hf_token" in problem.fix
        with_token = spec(model={"tokenizer": "owner/private"}, secrets={"hf_token": {"secret": "hub"}})
        assert tokenizer_of_pods(resolve(with_token, Facts())[0]) == ()
    assert tokenizer_of_pods(run) == ()  # nothing answers there any more


def test_a_repository_without_a_revision_is_read_at_the_commit_that_the_hub_had_at_planning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loaded = xsft.load(WORKLOADS / "qwen3_gsm8k.yaml")
    (offline,) = api.intend((replace(loaded, offline=True),))
    name, rows = loaded.spec.model.tokenizer, loaded.spec.data.hf_path
    tokenizer, data = "a" * 40, "b" * 40
    with serving() as server:
        monkeypatch.setenv("HF_ENDPOINT", f"http://{server.address}")
        shas = {f"models/{name}": tokenizer, f"datasets/{rows}": data}
        answers(server, {f"/api/{path}/revision/main": {"sha": sha} for path, sha in shas.items()})
        (intent,) = api.intend((loaded,))
        named = xsft.load(WORKLOADS / "qwen3_gsm8k.yaml", settings=(f"model.tokenizer_revision={'c' * 40}",))
        (pinned,) = api.intend((named,))
        answers(server, {f"/api/{path}/revision/main": {"sha": "newest"} for path in shas})
        (odd,) = api.intend((loaded,))
    assert intent.run.hub_commits == {"tokenizer": tokenizer, "data": data}
    assert intent.trainer_argv[1] == "-c"
    assert tokenizer in intent.trainer_argv
    assert spec_digest(intent.run) == spec_digest(offline.run)
    assert (pinned.run.hub_commits, pinned.run.tokenizer_revision) == ({"data": data}, "c" * 40)
    assert (odd.run.hub_commits, odd.trainer_argv) == ({}, offline.trainer_argv)


@pytest.mark.parametrize(("headers", "body"), [({"Content-Encoding": "gzip"}, b"{}"), ({}, b"[" * 200_000)])
def test_a_broken_answer_is_none(monkeypatch: pytest.MonkeyPatch, headers: dict[str, str], body: bytes) -> None:
    with serving() as server:
        monkeypatch.setenv("HF_ENDPOINT", f"http://{server.address}")
        server.answers = dict.fromkeys((INFO, f"{INFO}/revision/main"), (200, headers, body))
        assert check_commit(f"datasets/{PATH}", "main") is None
        assert "ValueError" in check_data(PATH).unanswered


def test_a_start_that_would_read_another_commit_says_so() -> None:
    now = replace(run_of(spec()), hub_commits={"tokenizer": "a" * 40, "data": "b" * 40})

    def earlier(**commits: str) -> Record:
        return Record(run_name="run", attempts=(Attempt(number=1, resolved={"hub_commits": commits}),))

    assert list(moved_commits(now, ())) == []
    assert list(moved_commits(now, (earlier(**now.hub_commits), Record(run_name="run")))) == []
    tokenizer, data = moved_commits(now, (earlier(tokenizer="c" * 40, data="d" * 40),))
    assert (tokenizer.id, tokenizer.where) == ("hf-revision-moved", "model.tokenizer")
    assert tokenizer.fix == f"A new run can keep the earlier one: model.tokenizer_revision: {'c' * 40}."
    assert data.message == f"The data is read at commit {'b' * 40} of the hub; an earlier attempt read {'d' * 40}."
