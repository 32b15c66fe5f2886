"""Requests to the hub before MaxText reads from it, against a stand-in on loopback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import xsft
from tests.machine.test_http_session import serving
from xsft.base.errors import SpecError, Unreachable
from xsft.launch.training_data import refuse_unreachable
from xsft.machine.paths import repository_folder
from xsft.planning import gather
from xsft.planning.planner import make_intent
from xsft.spec.resolve import Run

TINY = Path(__file__).parents[2] / "workloads" / "tiny_local.yaml"
OF_HUB = ("data.hf_path=owner/rows", "data.hf_train_files=null")
TOKENIZER = ("model.tokenizer=owner/tokenizer",)


def run(*settings: str) -> Run:
    loaded = xsft.load(TINY, settings=settings)
    facts = gather.gather(loaded.spec, file=TINY, today="20260101", offline=True)
    return make_intent(loaded.spec, facts).run


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Any:
    with serving() as server:
        monkeypatch.setenv("HF_ENDPOINT", f"http://{server.address}")
        yield server


@pytest.mark.parametrize(("settings", "words"), [(OF_HUB, "data.hf_train_files"), (TOKENIZER, "model.tokenizer")])
def test_an_unreachable_hub_is_reported_at_once(settings: tuple[str, ...], words: str) -> None:
    with pytest.raises(Unreachable, match="did not answer") as caught:
        refuse_unreachable(run(*settings))
    assert words in caught.value.fix


def test_local_files_send_no_request_to_the_hub() -> None:
    refuse_unreachable(run())


@pytest.mark.parametrize(
    ("settings", "path", "id"),
    [
        (OF_HUB, "/api/datasets/owner/rows", "hub-data-access"),
        (TOKENIZER, "/api/models/owner/tokenizer/revision/main", "tokenizer-unreadable"),
    ],
)
def test_a_missing_or_gated_repository_is_refused(hub: Any, settings: tuple[str, ...], path: str, id: str) -> None:
    hub.answers = {path: (200, {}, b"{}")}
    refuse_unreachable(run(*settings))
    for answers, word in (
        ({path: (404, {"X-Error-Code": "RepoNotFound"}, b"")}, "does not exist"),
        (
            {
                path: (200, {}, b'{"gated": "auto"}'),
                f"{path.removesuffix('/revision/main')}/auth-check": (403, {}, b""),
            },
            "is gated",
        ),
    ):
        hub.answers = answers
        with pytest.raises(SpecError, match=word) as caught:
            refuse_unreachable(run(*settings))
        assert [problem.id for problem in caught.value.problems] == [id]


def test_a_tokenizer_in_the_cache_sends_no_request_to_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XSFT_CACHE_DIR", str(tmp_path))
    repository_folder("owner/tokenizer", tmp_path / "huggingface" / "hub").mkdir(parents=True)
    refuse_unreachable(run(*TOKENIZER))
