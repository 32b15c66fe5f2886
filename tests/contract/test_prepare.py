"""`xsft data prepare` in MaxText's environment: the same text is trained before and after, and half is never whole."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.documents import read_document
from tests.fakes.gcs import Bucket, Failure, serving
from tests.fakes.hubfiles import COMMIT, HubFiles, serving_files
from tests.pipeline import Pipeline
from tests.stories import intent_of
from xsft.base.errors import EnvironmentMissing
from xsft.data.preparation import PrepareOptions, preparation
from xsft.environments.installed import BuiltEnvironment
from xsft.launch.local_machine import Machine
from xsft.launch.prepare_data import Workshop, prepare
from xsft.spec.model import WorkloadSpec
from xsft.verbs.cli import main

pytestmark = [pytest.mark.contract, pytest.mark.maxtext, pytest.mark.usefixtures("warm_maxtext")]

TINY = Path(__file__).parents[2] / "workloads" / "tiny_local.yaml"
Row = Mapping[str, Any]


def chat(question: str, answer: str | None = "an answer") -> Row:
    return {"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]}


def from_values(question: str) -> Row:
    return {"id": 1, "conversations": [{"from": "human", "value": question}, {"from": "gpt", "value": "an answer"}]}


def write(file: Path, rows: Sequence[Row]) -> Path:
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return file


@pytest.fixture
def workload(tmp_path: Path) -> Callable[..., Path]:
    """The tiny workload, reading this data."""

    def written(**data: Any) -> Path:
        tiny = yaml.safe_load(TINY.read_text())
        tiny["data"] = {"hf_path": "json", "columns": ["messages"], **data}
        tiny["output"] = str(tmp_path / "out")
        (tmp_path / "w.yaml").write_text(yaml.safe_dump(tiny))
        return tmp_path / "w.yaml"

    return written


@pytest.fixture
def prepared(capfd: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """The document that the verb prints."""

    def asked(file: Path, *options: str, status: int = 0) -> Any:
        capfd.readouterr()
        assert main(("data", "prepare", str(file), "--json", *options)) == status
        document = json.loads(capfd.readouterr().out)
        if status:
            return document["problems"]
        read_document("data-prepare", document)
        return document

    return asked


def manifests(folder: Path) -> list[Path]:
    return sorted(folder.rglob("prepared.json"))


def test_the_same_text_is_trained_before_and_after(
    tmp_path: Path,
    workload: Callable[..., Path],
    prepared: Callable[..., Any],
    maxtext_pipeline: Pipeline,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The printed section is pasted, checked, and read by MaxText's pipeline."""
    rows = [chat(f"question {n}", f"answer {n}") for n in range(80)]
    file = workload(hf_train_files=str(write(tmp_path / "rows.jsonl", rows)), packing=False)
    before = yaml.safe_load(file.read_text())
    assert main(("data", "prepare", str(file))) == 0
    section = yaml.safe_load(capfd.readouterr().out)
    after = {**before, **section}
    file.write_text(yaml.safe_dump(after))
    assert main(("check", str(file))) == 0
    assert after["data"]["rows"] == 80
    texts = [
        [
            (row.text, row.trained)
            for row in maxtext_pipeline.rows(intent_of(WorkloadSpec.model_validate(one)).trainer_argv, batches=50)
        ]
        for one in (before, after)
    ]
    assert texts[0] == texts[1]
    assert len(texts[0]) == 80
    assert main(("data", "inspect", str(file), "--json")) == 0
    inspected = json.loads(capfd.readouterr().out.splitlines()[-1])
    assert (inspected["rows"], inspected["everything"], inspected["no_target"]) == (80, True, 0)


def test_prepare_writes_each_content_once_with_a_manifest(
    tmp_path: Path, workload: Callable[..., Path], prepared: Callable[..., Any]
) -> None:
    rows = [from_values(f"question {n}") for n in range(200)]
    data = {"hf_train_files": str(write(tmp_path / "rows.jsonl", rows))}
    options = ("--rename", "conversations=messages", "--from-sharegpt", "--eval-share", "0.2", "--shards", "11")
    first = prepared(workload(**data), *options)
    assert not first["found"]
    assert sum(first["rows"].values()) == 200
    assert 20 <= first["rows"]["eval"] <= 60
    assert [shard["split"] for shard in first["shards"]].count("train") == 11
    assert {shard["rows"] for shard in first["shards"] if shard["split"] == "train"} <= {13, 14, 15, 16}
    second = prepared(workload(**data), *options)
    assert second == {**first, "found": True}
    other = prepared(workload(**data), *options[:3], "--to", str(tmp_path / "other"))
    assert other["to"] == str(tmp_path / "other")
    Path(first["to"], first["attempt"], first["shards"][3]["name"]).unlink()
    (torn,) = prepared(workload(**data), *options, status=4)
    assert torn["id"] == "prepared-torn"
    (taken,) = prepared(workload(**data), *options, "--to", str(tmp_path / "other"), status=4)
    assert "holds another data set" in taken["message"]


BAD: Mapping[str, tuple[Sequence[Row] | bytes, Sequence[str], str, str]] = {
    "no rows": ([], (), "data-empty", "no rows found"),
    "unusable row": (
        [chat("q"), chat("q", None)],
        (),
        "data-rows-refused",
        "row 1 has a message of the role assistant that is null",
    ),
    "another column": ([{"text": "a"}], (), "data-columns", "no column messages; its columns are text"),
    "two types": (
        [chat("q"), {"messages": 3}],
        (),
        "data-rows-refused",
        "row 1 holds in messages a value that is not a list",
    ),
    "torn": (b'{"messages": [}\n', (), "data-unreadable", "JSON parse error"),
    "not parquet": (b"PAR1 and nothing", ("--set", "data.hf_path=parquet"), "data-unreadable", "magic bytes"),
    "file in place of folder": ([chat("q")], ("--to", "/dev/null/x"), "output-not-writable", "it is not a folder"),
    "missing split": ([chat("q")], ("--set", "data.train_split=test"), "data-unreadable", "Bad split: test"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_error_and_leaves_no_manifest(
    case: str, tmp_path: Path, workload: Callable[..., Path], prepared: Callable[..., Any]
) -> None:
    content, options, problem_id, words = BAD[case]
    file = tmp_path / "rows.jsonl"
    file.write_bytes(content) if isinstance(content, bytes) else write(file, content)
    (problem,) = prepared(workload(hf_train_files=str(file)), *options, status=2)
    assert problem["id"] == problem_id
    assert words in problem["message"]
    assert problem["fix"]
    assert manifests(tmp_path) == []


def test_bad_rows_are_left_out_when_asked(
    tmp_path: Path, workload: Callable[..., Path], prepared: Callable[..., Any]
) -> None:
    file = write(tmp_path / "rows.jsonl", [chat("q"), chat("q", None), chat("q", "")])
    found = prepared(workload(hf_train_files=str(file)), "--skip-bad")
    assert (found["rows"], found["refused"], len(found["shards"])) == ({"train": 1}, 2, 1)


def test_alpaca_is_prepared_by_the_line_that_its_problem_names(
    tmp_path: Path, workload: Callable[..., Path], prepared: Callable[..., Any], maxtext_pipeline: Pipeline
) -> None:
    """Its input is a line of its own below the instruction; a row without input has none."""
    rows = [{"instruction": "Add.", "input": text, "output": "3"} for text in ("1 2", "", None, "3")]
    file = workload(hf_train_files=str(write(tmp_path / "rows.jsonl", rows)))
    (problem,) = prepared(file, status=2)
    line = problem["fix"].split("`")[1].removeprefix("xsft data prepare FILE ")
    assert "instruction, input, output, those of Alpaca" in problem["message"]
    found = prepared(file, *line.split())
    assert found["columns"] == ["question", "answer"]
    section = {**yaml.safe_load(file.read_text()), "data": {**found["data"], "packing": False}}
    argv = intent_of(WorkloadSpec.model_validate(section)).trainer_argv
    texts = [row.text.partition("<|assistant|>")[0] for row in maxtext_pipeline.rows(argv, batches=2)]
    assert [text.count("Add.\n1 2") for text in texts] == [1, 0, 0, 0]


def test_a_folder_in_the_hubs_layout_is_read_by_its_splits(
    tmp_path: Path, workload: Callable[..., Path], prepared: Callable[..., Any]
) -> None:
    (tmp_path / "repo" / "data").mkdir(parents=True)
    write(tmp_path / "repo" / "data" / "train.jsonl", [chat(str(n)) for n in range(9)])
    write(tmp_path / "repo" / "data" / "test.jsonl", [chat("t")] * 2)
    found = prepared(workload(hf_path=str(tmp_path / "repo"), hf_eval_split="test"))
    assert found["rows"] == {"train": 9, "eval": 2}
    assert found["data"]["hf_eval_files"].endswith("/eval-*-of-00002.parquet")


def test_prepare_uploads_each_shard_once_and_the_manifest_last(
    tmp_path: Path, workload: Callable[..., Path], prepared: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A first try that the bucket refuses leaves nothing that looks whole."""
    rows = [chat(f"question {n}") for n in range(16)]
    file = workload(hf_train_files=str(write(tmp_path / "rows.jsonl", rows)))
    with serving(Bucket({})) as bucket:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", bucket.url)
        bucket.failures.append(Failure(match="POST /upload", status=403))
        (problem,) = prepared(file, "--to", "gs://my-bucket/data/chat", status=5)
        assert "permission denied" in problem["message"]
        assert not any(name.endswith("prepared.json") for name in bucket.objects)
        found = prepared(file, "--to", "gs://my-bucket/data/chat")
        again = prepared(file, "--to", "gs://my-bucket/data/chat")
    assert (found["found"], again["found"]) == (False, True)
    assert list(bucket.objects)[-1] == "data/chat/prepared.json"
    for shard in found["shards"]:
        content = bucket.objects[f"data/chat/{found['attempt']}/{shard['name']}"]
        assert (len(content), hashlib.sha256(content).hexdigest()) == (shard["bytes"], shard["sha256"])
    assert found["data"]["hf_train_files"] == f"gs://my-bucket/data/chat/{found['attempt']}/train-*-of-00008.parquet"


def test_a_small_disk_is_refused_before_a_row_is_written(tmp_path: Path, maxtext_python: Path) -> None:
    tiny = yaml.safe_load(TINY.read_text())
    run = intent_of(WorkloadSpec.model_validate(tiny)).run
    machine = Machine(python=maxtext_python, env=dict(os.environ), cache=tmp_path / "cache")
    workshop = Workshop(machine=machine, free=lambda _folder: 1000)
    with pytest.raises(EnvironmentMissing, match="free") as refused:
        prepare(preparation(run, PrepareOptions()), output=str(tmp_path / "out"), to=None, workshop=workshop)
    assert refused.value.problem_id == "disk-full"
    assert list(tmp_path.rglob("*.parquet")) == []


def started(file: Path, **env: str) -> subprocess.Popen[str]:
    argv = (sys.executable, "-m", "xsft", "data", "prepare", str(file), "--json")
    return subprocess.Popen(argv, env=os.environ | env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def test_a_killed_prepare_completes_on_the_next_call_and_deletes_nothing(
    tmp_path: Path,
    workload: Callable[..., Path],
    prepared: Callable[..., Any],
    maxtext_environment: BuiltEnvironment,
) -> None:
    """The first is started in the usual environment of MaxText, whose interpreter imports it."""
    rows = write(tmp_path / "rows.jsonl", [chat(f"question {n} " * 20) for n in range(25_000)])
    file = workload(hf_train_files=str(rows))
    first = started(file, XSFT_CACHE_DIR=str(maxtext_environment.folder.parents[1]))
    while not (half := sorted(tmp_path.rglob("train-00001-*.parquet"))):
        assert first.poll() is None, "it ended before it was killed"
        time.sleep(0.02)
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert first.stdout
    first.stdout.close()
    assert manifests(tmp_path) == []
    found = prepared(file)
    assert not found["found"]
    assert found["rows"] == {"train": 25_000}
    assert Path(found["to"], found["attempt"]) != half[0].parent
    assert half[0].exists()


def test_two_simultaneous_prepares_write_the_data_once(tmp_path: Path, workload: Callable[..., Path]) -> None:
    rows = write(tmp_path / "rows.jsonl", [chat(f"question {n}") for n in range(500)])
    file = workload(hf_train_files=str(rows))
    both = [started(file) for _ in range(2)]
    documents = [json.loads(printed.communicate()[0]) for printed in both]
    assert sorted(printed.pop("found") for printed in documents) == [False, True]
    assert documents[0] == documents[1]
    assert len(list(Path(documents[0]["to"]).iterdir())) == 2, "one attempt, and prepared.json"


def test_a_data_set_of_the_hub_is_read_at_one_commit(
    workload: Callable[..., Path], prepared: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the real datasets; the connection breaks in the middle of the file. A gate and an unknown name are refused."""
    rows = write(tmp_path / "rows.jsonl", [chat(f"question {n}") for n in range(500)]).read_bytes()
    file = workload(hf_path="me/tiny")
    with serving_files(HubFiles({"train.jsonl": rows}, cut_after={"train.jsonl": 20_000})) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        made = prepared(file)
        assert (made["rows"], made["found"]) == ({"train": 500}, False)
        assert hub.cut_after == {}, "the first connection was cut"
        assert {path.split("/")[5] for path in hub.asked if "/resolve/" in path and "train" in path} == {COMMIT}
        assert prepared(file)["found"]
        hub.token = "none"
        (gated,) = prepared(file, status=2)
        (unknown,) = prepared(workload(hf_path="me/none"), status=2)
    assert (gated["id"], unknown["id"]) == ("hub-data-access", "hub-data-access")
    assert "terms at https://huggingface.co/datasets/me/tiny, and log in" in gated["fix"]
    assert "Check the spelling" in unknown["fix"]


def test_a_hub_that_does_not_answer_is_unreachable(
    workload: Callable[..., Path], prepared: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    (problem,) = prepared(workload(hf_path="org/chat"), status=5)
    assert problem["id"] == "unreachable"
