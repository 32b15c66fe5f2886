"""Checks of data sets, columns, files, rows and pipelines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.checks.factory import DROP, FLAGSHIP, ids, problems, run_of, spec
from xsft.checks.data import check_data as check
from xsft.checks.data import rows_per_step
from xsft.trainer.maxtext import trainer_keys

GSM8K = {"hf_path": "openai/gsm8k", "hf_name": "main", "train_split": "train", "columns": ["question", "answer"]}
OWN = {"hf_path": "my-org/my-chats", "train_split": "train"}


def test_data_that_lasts_has_no_problem():
    assert ids(check, spec(data=GSM8K, train={"steps": 300})) == set()


def test_columns_that_sft_does_not_accept_are_refused():
    (problem,) = problems(check, spec(data={**OWN, "columns": ["answer"]}))
    assert (problem.id, problem.where) == ("columns", "data.columns")
    assert "[prompt, completion]" in problem.message


def test_columns_of_sft_are_accepted_in_any_order():
    assert ids(check, spec(data={**OWN, "columns": ["completion", "prompt"]})) == set()


def test_formatting_function_does_not_allow_other_columns():
    """tests/contract/test_templates.py: MaxText looks at them first."""
    assert ids(check, spec(data={**OWN, "columns": ["text"], "formatting_func": "my.module"})) == {"columns"}


def test_columns_and_configurations_of_a_known_data_set_are_checked():
    assert "columns-dataset" in ids(check, spec(data={**GSM8K, "columns": ["messages"]}))
    assert ids(check, spec(data={**GSM8K, "hf_name": DROP})) == {"dataset-configuration"}


def test_columns_and_configurations_that_the_catalogue_does_not_list_may_be_accepted():
    """As those that the hub does not list: the data set may have changed since."""
    unknown = problems(check, spec(data={**GSM8K, "hf_name": "new", "columns": ["messages"]}))
    assert {p.id: p.can_be_accepted for p in unknown} == {"columns-dataset": True, "dataset-configuration": True}


def test_file_formats_need_files():
    files = {"hf_path": "parquet", "hf_train_files": "gs://my-bucket/ultrachat/*.parquet"}
    assert ids(check, spec(data={"hf_path": "json"})) == {"data-files-missing"}
    assert ids(check, spec(data=files)) == set()
    assert ids(check, spec(data={**OWN, "hf_train_files": "data/x.parquet"})) >= {"data-files-on-hub"}
    assert ids(check, spec(data={**files, "hf_path": "jsonl"})) == {"data-files-on-hub"}
    assert "data-files-on-hub" not in ids(check, spec(data={**files, "hf_path": "webdataset"}))


def test_one_step_beyond_the_data_is_an_error():
    eight = {"data": {**OWN, "rows": 80, "packing": False}}
    assert ids(check, spec(**eight, train={"steps": 10})) == set()
    (problem,) = problems(check, spec(**eight, train={"steps": 11}))
    assert (problem.id, problem.severity) == ("steps-beyond-data", "error")
    assert "num_epoch to 2" in problem.fix
    twice = {"data": {**OWN, "rows": 80, "packing": False, "num_epoch": 2}}
    assert ids(check, spec(**twice, train={"steps": 11})) == set()


def test_packing_only_shortens():
    packed = {"data": {**OWN, "rows": 80}}
    assert ids(check, spec(**packed, train={"steps": 11})) == {"steps-beyond-data"}
    (problem,) = problems(check, spec(**packed, train={"steps": 10}))
    assert (problem.id, problem.severity) == ("packing-shortens", "warning")  # which check and submit show
    assert ids(check, spec(**packed, train={"steps": 5})) == set()


def test_ultrachat_once_is_too_short_for_the_flagship():
    once = spec(FLAGSHIP, data={"num_epoch": DROP})
    (problem,) = problems(check, once)
    assert (problem.id, problem.severity) == ("steps-beyond-data", "warning"), "the catalogue's count, not the user's"
    assert "405 steps" in problem.message


def test_padding_batches_allow_any_number_of_steps():
    endless = {"maxtext": {"generate_padding_batch_train": True}}
    assert ids(check, spec(data={**OWN, "rows": 1}, overrides=endless)) == set()


@given(
    per_device=st.sampled_from([0.25, 0.5, 1.0, 2.0, 3.0]), accumulated=st.integers(1, 8), num_slices=st.integers(1, 4)
)
def test_rows_per_step_never_exceed_what_whole_sequences_need(per_device: float, accumulated: int, num_slices: int):
    run = run_of(
        spec(
            tpu={"num_slices": num_slices},
            train={"per_device_batch_size": per_device, "gradient_accumulation_steps": accumulated},
        )
    )
    loaded = rows_per_step(run, trainer_keys(run))
    assert loaded >= 8 * num_slices * per_device * accumulated
    assert loaded % accumulated == 0


def test_streaming_from_the_hub_by_many_hosts_is_a_warning():
    (problem,) = [p for p in problems(check, spec(FLAGSHIP, mode="mcjax")) if p.severity != "note"]
    assert (problem.id, problem.severity) == ("hub-streaming", "warning")
    assert "128 hosts" in problem.message
    staged = {"hf_path": "parquet", "hf_train_files": "gs://my-bucket/u/*.parquet"}
    assert "hub-streaming" not in ids(check, spec(FLAGSHIP, mode="mcjax", data=staged))
    sixteen = {"tpu": {"type": "v6e-64"}, "train": {"steps": 100}}
    assert "hub-streaming" not in ids(check, spec(**sixteen))


def test_local_paths_in_a_cluster_run_are_reported():
    (relative,) = problems(check, spec(model={"tokenizer": "tokenizers/own.json"}))
    (absolute,) = problems(check, spec(model={"tokenizer": "/deps/own"}))
    assert (relative.id, relative.severity) == ("local-path", "error")
    assert (absolute.id, absolute.severity) == ("local-path", "warning")
    assert ids(check, spec(model={"tokenizer": "gs://my-bucket/own"})) == set()
    assert ids(check, spec(target="local", model={"tokenizer": "tokenizers/own.json"})) == set()
    assert ids(check, spec(model={"checkpoint": "./out/0/items"})) == {"local-path"}


GRAIN = {
    "pipeline": "grain",
    "hf_path": "arrayrecord",
    "hf_train_files": "gs://my-bucket/data/train-*-of-02048.arrayrecord",
    "train_split": DROP,
    "columns": ["question", "answer"],
}


@pytest.mark.parametrize("columns", [["question", "answer"], ["prompt", "completion"]])
def test_grain_reads_array_records_of_texts(columns: list[str]):
    assert ids(check, spec(data={**GRAIN, "columns": columns})) == set()
    assert ids(check, spec(data={**GRAIN, "hf_path": "parquet", "columns": ["messages"]})) == set()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"pipeline": DROP}, {"grain-format"}),
        ({"pipeline": "hf"}, {"grain-format"}),
        ({"hf_path": "json"}, {"grain-format"}),
        ({"hf_path": "my-org/my-chats", "hf_train_files": DROP}, {"grain-format"}),
        ({"hf_name": "main"}, {"grain-format"}),
        ({"hf_train_files": DROP}, {"data-files-missing"}),
        ({"columns": ["messages"]}, {"grain-columns"}),
    ],
)
def test_data_that_grain_does_not_read_is_refused(data: dict[str, object], expected: set[str]):
    wrong = spec(data={**GRAIN, **data})
    assert ids(check, wrong) - {"hub-streaming"} == expected
    assert all(problem.fix for problem in problems(check, wrong))


def test_grain_is_refused_before_maxtext_0_2_2():
    assert ids(check, spec(data=GRAIN, image={"maxtext": "0.2.1"})) == {"grain-release"}
