"""Decisions before rows are read: columns, splits, shards, the folder, and the section to paste."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.replacing import replace
from tests.stories import intent_of, spec_of, varied
from xsft.base.errors import SpecError, UsageError
from xsft.data.preparation import (
    SHARDS_PER_HOST,
    Preparation,
    PreparedDataset,
    PrepareOptions,
    RowFault,
    Shard,
    SplitCount,
    address,
    column_names,
    data_section,
    preparation,
    preparation_problems,
    shard_count,
    shard_problems,
)
from xsft.spec.model import WorkloadSpec
from xsft.spec.resolve import Run

TINY = spec_of("tiny_local")
NONE = PrepareOptions()
SHARDS = (
    *(Shard(split="train", name=f"train-{n}", rows=9, bytes=1, sha256="") for n in range(10)),
    Shard(split="eval", name="eval-0", rows=1, bytes=1, sha256=""),
)
PREPARED = PreparedDataset(
    address="chat-0",
    attempt="a1",
    format="parquet",
    columns=("messages",),
    rows={"train": 90},
    refused=0,
    shards=SHARDS,
)


def run_of(**data: Any) -> Run:
    return intent_of(varied(TINY, {f"data.{name}": value for name, value in data.items()})).run


def wanted(options: PrepareOptions = NONE, **data: Any) -> Preparation:
    return preparation(run_of(**data), options)


@given(rows=st.integers(1, 10**7), size=st.integers(0, 10**13), hosts=st.integers(1, 512), asked=st.integers(1, 5000))
def test_every_host_gets_equally_many_shards_and_no_shard_is_empty(
    rows: int, size: int, hosts: int, asked: int
) -> None:
    shards = shard_count(rows=rows, size=size, hosts=hosts, requested=asked)
    assert 1 <= shards <= rows
    assert shards % hosts == 0 or rows < hosts
    assert shards >= min(max(SHARDS_PER_HOST * hosts, asked), rows - rows % hosts)


def test_large_rows_take_more_shards() -> None:
    assert shard_count(rows=10**6, size=10**9, hosts=1, requested=None) == 8
    assert shard_count(rows=10**6, size=10**11, hosts=3, requested=None) == 375


@pytest.mark.parametrize(
    ("columns", "renames", "expected"),
    [
        (["messages"], {}, {"messages": "messages"}),
        (["messages"], {"conversations": "messages"}, {"conversations": "messages"}),
        (["conversations"], {"conversations": "messages"}, {"conversations": "messages"}),
        (["q", "answer"], {"q": "question"}, {"q": "question", "answer": "answer"}),
        (
            ["question", "answer"],
            {"instruction": "question", "input": "question", "output": "answer"},
            {"instruction": "question", "input": "question", "output": "answer"},
        ),
    ],
)
def test_columns_may_have_their_name_before_or_after_renaming(
    columns: list[str], renames: dict[str, str], expected: dict[str, str]
) -> None:
    assert column_names(columns, renames) == expected


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (PrepareOptions(columns=("text",)), r"supports \[messages\] or .* given: \[text\]"),
        (
            PrepareOptions(columns=("a", "b"), renames={"a": "messages", "b": "messages"}),
            "only texts can be joined",
        ),
    ],
)
def test_columns_that_maxtext_does_not_take_are_refused(options: PrepareOptions, words: str) -> None:
    with pytest.raises(SpecError, match=words) as refused:
        wanted(options)
    assert [problem.id for problem in refused.value.problems] == ["columns"]


def test_a_share_and_a_split_for_evaluation_exclude_each_other() -> None:
    with pytest.raises(UsageError, match="--eval-share"):
        wanted(PrepareOptions(eval_share=0.1), hf_eval_split="test")


def test_splits_come_from_the_workload_or_from_a_share() -> None:
    (train,) = wanted().sources
    assert (train.split, train.splits) == ("train", ("train",))
    (shared,) = wanted(PrepareOptions(eval_share=0.1)).sources
    assert shared.splits == ("train", "eval")
    train, evaluated = wanted(hf_path="org/chat", hf_train_files="t", train_split="a", hf_eval_split="b").sources
    assert (train.split, evaluated.split, evaluated.splits, evaluated.files) == ("a", "b", ("eval",), None)
    _, files = wanted(hf_eval_files="eval.jsonl").sources
    assert (files.split, files.files) == ("train", "eval.jsonl")


def test_hosts_are_those_of_all_slices() -> None:
    flagship = intent_of(spec_of("deepseek_ultrachat"))
    assert flagship.run.slice
    assert preparation(flagship.run, PrepareOptions()).hosts == flagship.run.slice.hosts * flagship.run.num_slices > 8
    assert wanted().hosts == 1


BASE = wanted()
JOINED = wanted(PrepareOptions(columns=("question", "answer"), renames={"a": "question", "b": "question"}))
CHANGES: dict[str, Preparation] = {
    "columns": wanted(PrepareOptions(columns=("question", "answer"))),
    "share": wanted(PrepareOptions(eval_share=0.5)),
    "shards": wanted(PrepareOptions(shards=9)),
    "sharegpt": wanted(PrepareOptions(sharegpt=True)),
    "bad rows": wanted(PrepareOptions(skip_bad=True)),
    "hosts": replace(BASE, hosts=2),
    "split": wanted(train_split="other"),
    "loader": wanted(hf_path="csv"),
    "rule": wanted(formatting_func="a.b"),
    "joined columns": JOINED,
}


@pytest.mark.parametrize("change", CHANGES)
def test_other_inputs_have_another_folder(change: str) -> None:
    assert address(CHANGES[change], ("c",)).rpartition("-")[2] != address(BASE, ("c",)).rpartition("-")[2]


def test_joined_columns_in_another_order_have_another_folder() -> None:
    other = wanted(PrepareOptions(columns=("question", "answer"), renames={"b": "question", "a": "question"}))
    assert address(other, ("c",)) != address(JOINED, ("c",))


def test_folder_depends_on_the_content_of_files_not_their_paths() -> None:
    assert address(BASE, ("c",)).startswith("chat-")
    assert address(BASE, ("c",)) != address(BASE, ("d",))
    assert address(wanted(hf_train_files="/elsewhere/chat.jsonl"), ("c",)) == address(BASE, ("c",))
    hub = wanted(hf_path="org/chat", hf_train_files="a")
    assert address(hub, ("c",)) != address(wanted(hf_path="org/chat", hf_train_files="b"), ("c",))


@pytest.mark.parametrize(
    ("path", "files", "name"),
    [
        ("HuggingFaceH4/ultrachat_200k", None, "ultrachat-200k"),
        ("json", "rows-*.jsonl.gz", "rows"),
        ("/data/My set/", None, "my-set"),
        ("json", "*.jsonl", "data"),
    ],
)
def test_the_folder_name_starts_with_the_source_name(path: str, files: str | None, name: str) -> None:
    assert wanted(hf_path=path, hf_train_files=files).name == name


def counted(rows: int = 0, *faults: str, refused: int = 0) -> SplitCount:
    shown = tuple(RowFault(row=row, fault=fault) for row, fault in enumerate(faults))
    return SplitCount(rows=rows, bytes=1, refused=refused or len(faults), faults=shown, schema="")


def test_refused_rows_are_counted_shown_and_may_be_left_out() -> None:
    counts = {"train": counted(5, "holds messages with from and value", refused=9)}
    (problem,) = preparation_problems(counts, BASE)
    assert problem.id == "data-rows-refused"
    assert "9 rows" in problem.message
    assert "row 0 holds messages with from and value; and 8 more" in problem.message
    assert "--skip-bad" in problem.fix
    assert "--from-sharegpt" in problem.fix
    assert preparation_problems(counts, wanted(PrepareOptions(skip_bad=True))) == ()


def test_split_without_rows_is_an_error() -> None:
    for wants, split in ((BASE, counted()), (wanted(PrepareOptions(skip_bad=True)), counted(0, "x"))):
        (problem,) = preparation_problems({"train": split}, wants)
        assert problem.id == "data-empty"
    (share,) = preparation_problems({"train": counted(9), "eval": counted()}, wanted(PrepareOptions(eval_share=0.01)))
    assert "--eval-share 0.01" in share.message


def test_data_section_reads_the_prepared_files_and_keeps_other_keys() -> None:
    run = run_of(hf_name="main", hf_data_dir="d", packing=False, chat_template="t.jinja", num_epoch=3)
    section = data_section(run, PREPARED, to="gs://b/data/chat-0")
    assert section == {
        "hf_path": "parquet",
        "hf_train_files": "gs://b/data/chat-0/a1/train-*-of-00010.parquet",
        "columns": ["messages"],
        "rows": 90,
        "packing": False,
        "chat_template": "t.jinja",
        "num_epoch": 3,
    }
    both = replace(PREPARED, rows={"train": 9, "eval": 1}, eval_columns=("question", "answer"))
    more = data_section(run, both, to="/data")
    assert more["hf_eval_files"] == "/data/a1/eval-*-of-00001.parquet"
    assert more["eval_columns"] == ["question", "answer"]
    document = TINY.model_dump(exclude_unset=True) | {"data": more}
    assert WorkloadSpec.model_validate(document).data.rows == 9


def test_array_record_is_read_by_grain_and_holds_only_texts() -> None:
    texts = wanted(PrepareOptions(format="arrayrecord"), columns=["prompt", "completion"])
    assert texts.rule == "texts"
    assert wanted(columns=["prompt", "completion"]).rule == "lists"
    assert wanted(columns=["prompt", "completion"], pipeline="grain").rule == "texts"
    section = data_section(run_of(), replace(PREPARED, format="arrayrecord"), to="/data")
    assert (section["pipeline"], section["hf_path"]) == ("grain", "arrayrecord")
    with pytest.raises(SpecError, match="array record contains only texts"):
        wanted(PrepareOptions(format="arrayrecord"))


def test_array_record_is_refused_as_already_prepared() -> None:
    with pytest.raises(SpecError, match="already prepared"):
        wanted(hf_path="arrayrecord", hf_train_files="/data/*.arrayrecord", pipeline="grain")


def test_fewer_shards_than_hosts_need_give_a_warning() -> None:
    hosts = replace(wanted(), hosts=2)
    few = replace(PREPARED, rows={"train": 90, "eval": 1})
    train, evaluated = shard_problems(few, hosts)
    assert (train.id, train.severity) == ("data-few-shards", "warning")
    assert "train: 90 rows make 10 shards; 2 hosts need 16 or more. A run that resumes" in train.message
    assert "eval: 1 rows make 1 shards; 2 hosts need 2 or more. Every host then reads all files" in evaluated.message
    assert not list(shard_problems(few, wanted()))
