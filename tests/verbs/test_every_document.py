"""The output of --json is as xsft/verbs/documents.py describes: no field missing or unknown, each of its type."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins

from tests.documents import read_document
from tests.verbs.test_cli import GOOD
from xsft.environments.installed import BuiltEnvironment
from xsft.verbs.cli import main

XSFT = Path(__file__).parents[2] / "xsft"

Said = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def printed_by(capfd: pytest.CaptureFixture[str]) -> Said:
    """Runs a verb with --json; exit status and the one document on stdout."""

    def run(*arguments: str) -> tuple[int, dict[str, Any]]:
        capfd.readouterr()
        status = main((*arguments, "--json"))
        return status, json.loads(capfd.readouterr().out)

    return run


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    return written(tmp_path / "cluster.yaml", GOOD)


@pytest.fixture
def local(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> str:
    path = tmp_path / "local.yaml"
    assert main(("init", str(path), "--local")) == 0
    return str(path)


def written(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def test_a_local_plan_matches_its_schema(printed_by: Said, local: str) -> None:
    status, document = printed_by("plan", local)
    read_document("plan", document)
    (plan,) = document["plans"]
    assert status == 0
    assert (plan["target"], plan["xpk_argv"], plan["manifest"], plan["jobset"]) == ("local", None, None, None)
    assert plan["trainer_argv"][:2] == ["python3", "-m"]


@pytest.mark.contract
def test_a_cluster_plan_matches_its_schema(printed_by: Said, cluster: str, xpk_environment: BuiltEnvironment) -> None:
    _, document = printed_by("plan", cluster)
    read_document("plan", document)
    (plan,) = document["plans"]
    assert plan["manifest"]["kind"] == "JobSet"
    assert {row["outcome"] for row in plan["audit"]} == {"landed", "patched"}


def test_a_plan_is_in_the_document_beside_a_file_that_cannot_be_read(printed_by: Said, local: str) -> None:
    status, document = printed_by("plan", local, "nosuch.yaml")
    read_document("plan", document)
    assert (status, document["exit_status"], len(document["plans"])) == (2, 2, 1)
    assert [p["file"] for p in document["problems"]] == ["nosuch.yaml"]


def test_the_document_of_check_matches_its_schema(printed_by: Said, cluster: str, tmp_path: Path) -> None:
    bad = written(tmp_path / "bad.yaml", GOOD.replace("steps", "stpes"))
    status, document = printed_by("check", cluster, bad)
    read_document("check", document)
    assert (status, document["ok"], document["exit_status"]) == (2, False, 2)
    assert ("unknown-key", bad) in {(p["id"], p["file"]) for p in document["problems"]}


def test_the_document_of_diff_matches_its_schema(printed_by: Said, local: str) -> None:
    status, document = printed_by("diff", local, local, "--set", "train.steps=7")
    read_document("diff", document)
    assert (status, document["same"]) == (0, False)
    assert [d["key"] for d in document["differences"]["keys"]] == ["train.steps"]


def test_the_document_of_setup_matches_its_schema(printed_by: Said, xpk_environment: BuiltEnvironment) -> None:
    status, document = printed_by("setup", "xpk")
    read_document("setup", document)
    assert status == 0


def test_the_document_of_a_local_submit_matches_its_schema(local: str, tmp_path: Path) -> None:
    from xsft.launch.local_run import LocalResult
    from xsft.planning import api
    from xsft.verbs.submit import local_document

    (plan,) = api.plan((api.load(local),))
    result = LocalResult(
        action="created",
        outcome="completed",
        reason=None,
        exit_status=0,
        steps_asked=2,
        steps=2,
        losses={1: 6.7, 2: 5.3},
        resumed_from=None,
        resumed_order=None,
        checkpoints=(tmp_path / "2",),
        folder=tmp_path,
        record=tmp_path / "record.json",
        log=None,
        private_pids=True,
    )
    read_document("submit", to_builtins(local_document(plan, result, picture=None)))


@pytest.mark.parametrize(
    "arguments",
    [("submit", "nosuch.yaml"), ("diff", "nosuch.yaml", "nosuch.yaml"), ("setup", "nosuch")],
    ids=lambda a: a[0],
)
def test_an_error_is_printed_under_the_schema_name_of_its_verb(printed_by: Said, arguments: tuple[str, ...]) -> None:
    status, document = printed_by(*arguments)
    read_document("error", document)
    assert (status, document["exit_status"], document["schema"]) == (2, 2, f"xsft.{arguments[0]}/1")


def test_only_one_module_prints_documents() -> None:
    files = (XSFT / "verbs").glob("*.py")
    assert [file.name for file in files if "to_builtins(document)" in file.read_text("utf-8")] == ["document.py"]
