"""The facts that a workload needs, and no others, are gathered."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.checks.factory import DROP, spec
from tests.gitrepo import git, made_in
from xsft.base.errors import Unreachable
from xsft.checks.facts import Facts
from xsft.data.facts import DataFacts
from xsft.planning.gather import gather, memory_gib, workload_folder
from xsft.spec.facts import CheckpointFacts

TODAY = "20261121"


class Looks:
    """Remembers which checkpoints were looked at."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    def __call__(self, path: str) -> CheckpointFacts:
        self.paths.append(path)
        return CheckpointFacts(path=path, status="missing")


def gathered(file: Path, looks: Looks | None = None, **changes: object) -> Facts:
    return gather(spec(**changes), file=file, today=TODAY, look=looks or Looks(), names=lambda _folder: ())


def test_facts_contain_the_given_date(tmp_path: Path) -> None:
    facts = gathered(tmp_path / "w.yaml")
    assert facts.today == TODAY


def test_the_commit_is_read_only_if_the_run_name_contains_it(tmp_path: Path) -> None:
    repository = made_in(tmp_path)
    head = git(repository, "rev-parse", "HEAD")
    assert gathered(repository / "w.yaml", run_name_suffix="commit").commit == head
    assert gathered(repository / "w.yaml").commit is None


def test_the_checkpoint_is_inspected(tmp_path: Path) -> None:
    looks = Looks()
    facts = gathered(tmp_path / "w.yaml", looks)
    assert looks.paths == ["gs://my-bucket/qwen3-0.6b/0/items"]
    assert facts.checkpoint is not None


@pytest.mark.parametrize(
    ("target", "path", "looked"),
    [
        ("xpk", "gs://my-bucket/lora", "gs://my-bucket/lora"),
        ("xpk", "/in/the/image", None),
        ("local", "/runs/lora", "/runs/lora"),
    ],
)
def test_the_adapters_to_resume_from_are_inspected(tmp_path: Path, target: str, path: str, looked: str | None) -> None:
    looks = Looks()
    lora = {"rank": 4, "alpha": 8, "restore_path": path}
    facts = gathered(tmp_path / "w.yaml", looks, target=target, lora=lora)
    assert (facts.adapters.path if facts.adapters else None) == looked
    assert not looked or looked in looks.paths


def test_the_checkpoint_of_a_conversion_is_searched(tmp_path: Path) -> None:
    """tests/planning/test_tries.py tests what is found."""
    looks = Looks()
    facts = gathered(tmp_path / "w.yaml", looks, model={"checkpoint": DROP, "hf": {"repo": "Qwen/Qwen3-0.6B"}})
    assert facts.checkpoint is not None
    assert facts.checkpoint.path == "gs://my-bucket/runs/converted/qwen3-0.6b-0954c894002f/0/items"
    assert looks.paths == []


def test_offline_sends_no_request(tmp_path: Path) -> None:
    looks = Looks()
    facts = gather(spec(), file=tmp_path / "w.yaml", today=TODAY, offline=True, look=looks)
    assert (facts.checkpoint, looks.paths) == (None, [])


def test_a_path_in_the_image_is_not_inspected(tmp_path: Path) -> None:
    looks = Looks()
    assert gathered(tmp_path / "w.yaml", looks, model={"checkpoint": "/models/a/0/items"}).checkpoint is None
    assert looks.paths == []


def test_a_local_path_is_relative_to_the_folder_of_the_workload(tmp_path: Path) -> None:
    looks = Looks()
    gathered(tmp_path / "w.yaml", looks, target="local", model={"checkpoint": "ckpt/0/items"})
    gathered(tmp_path / "w.yaml", looks, target="local", model={"checkpoint": "/ckpt/0/items"})
    assert looks.paths == [str(tmp_path / "ckpt/0/items"), "/ckpt/0/items"]


def test_places_are_read_only_for_a_named_place(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "places.yaml").write_text("main: {context: kind}\n")
    named = gathered(tmp_path / "w.yaml", place="main")
    assert (named.places["main"].context, named.places_file) == ("kind", str(tmp_path / "places.yaml"))
    (tmp_path / "places.yaml").write_text("broken: [")
    assert gathered(tmp_path / "w.yaml").places == {}


def test_the_machine_is_described_only_for_local_runs(tmp_path: Path) -> None:
    assert gathered(tmp_path / "w.yaml").memory_gib == 0
    assert gathered(tmp_path / "w.yaml", target="local").memory_gib == memory_gib() > 0


@pytest.mark.parametrize(("data_dir", "is_read"), [(None, True), ("rows", False)])
def test_files_below_a_data_dir_are_not_read_elsewhere(tmp_path: Path, data_dir: str | None, is_read: bool) -> None:
    (tmp_path / "rows.jsonl").write_text('{"messages": [{"role": "user", "content": "a"}]}\n')
    data = {"hf_path": "json", "hf_train_files": str(tmp_path / "rows.jsonl"), "hf_data_dir": data_dir or DROP}
    facts = gathered(tmp_path / "w.yaml", target="local", data=data)
    assert (facts.data is not None) == is_read


def test_a_workload_from_standard_input_has_the_current_folder() -> None:
    assert workload_folder("-") == Path.cwd()


def test_independent_requests_are_sent_at_the_same_time(tmp_path: Path) -> None:
    """Each request waits until the others have started, so no time is measured."""
    under_way = threading.Barrier(4)

    def look(path: str) -> CheckpointFacts:
        under_way.wait(60)
        return CheckpointFacts(path=path, status="missing")

    def rows(_pattern: str | None, /, *, of: str, where: str) -> DataFacts:
        under_way.wait(60)
        return DataFacts(content=f"{of} {where}")

    data = {"hf_path": "json", "hf_train_files": "gs://my-bucket/*.jsonl", "hf_eval_files": "gs://my-bucket/e/*.jsonl"}
    changes = {
        "data": data,
        "eval": {"interval": 100, "steps": 1},
        "lora": {"rank": 4, "alpha": 8, "restore_path": "gs://my-bucket/lora"},
    }
    facts = gather(
        spec(**changes), file=tmp_path / "w.yaml", today=TODAY, look=look, rows=rows, names=lambda _folder: ()
    )
    assert facts.data is not None
    assert facts.eval_data is not None
    assert facts.checkpoint is not None
    assert facts.adapters is not None


def test_an_unreachable_output_leaves_the_names_of_stages_unread(tmp_path: Path) -> None:
    def unreachable(folder: str) -> tuple[str, ...]:
        raise Unreachable(folder, fix="")

    stages = {"stages": {"export": {"to": "gs://my-bucket/out"}}}
    looks = Looks()
    facts = gather(spec(**stages), file=tmp_path / "w.yaml", today=TODAY, look=looks, names=unreachable)
    assert facts.taken_unread.startswith("gs://my-bucket/runs/qwen-chat-")
