from __future__ import annotations

import pytest

from tests.localruns import local_plan
from xsft.checks.data import check_packaged_data as check
from xsft.checks.facts import Facts
from xsft.spec.base import Value


def ids(keys: dict[str, Value], *, target: str = "local") -> list[tuple[str, str]]:
    run = local_plan("/o", target=target).run
    return [(p.id, p.where) for p in check(run, keys, Facts())]


def test_shipped_data_is_replaced_by_its_path() -> None:
    assert ids(dict(a.partition("=")[::2] for a in local_plan("/o").trainer_argv[3:])) == []


@pytest.mark.parametrize(
    ("key", "where"),
    [
        ("tokenizer_path", "model.tokenizer"),
        ("hf_train_files", "data.hf_train_files"),
        ("decoder_block", "overrides.maxtext.decoder_block"),
    ],
)
def test_unknown_shipped_file_is_an_error_at_its_key(key: str, where: str) -> None:
    assert ids({key: "xsft://tiny/nothing"}) == [("packaged-data-unknown", where)]


def test_shipped_data_on_a_cluster_is_refused() -> None:
    assert ids({"hf_train_files": "xsft://tiny/chat.jsonl"}, target="xpk") == [
        ("packaged-data-remote", "data.hf_train_files")
    ]


def test_other_values_are_not_checked() -> None:
    assert ids({"steps": 3, "hf_path": "json", "a": ["xsft"], "b": None}) == []
