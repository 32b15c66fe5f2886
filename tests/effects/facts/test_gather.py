"""Only what a workload needs is gathered."""

from __future__ import annotations

from pathlib import Path

from tests.checks.factory import DROP, spec
from tests.effects.gitrepo import git, made_in
from xsft.effects.facts.gather import folder_of, gather, machine
from xsft.facts import CheckpointFacts, Facts

TODAY = "20261121"


class Looks:
    """Remembers which checkpoints were looked at."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    def __call__(self, path: str) -> CheckpointFacts:
        self.paths.append(path)
        return CheckpointFacts(path=path, status="missing")


def gathered(file: Path, looks: Looks | None = None, **changes: object) -> Facts:
    return gather(spec(**changes), file=file, today=TODAY, look=looks or Looks())


def test_the_date_is_passed_on(tmp_path: Path) -> None:
    facts = gathered(tmp_path / "w.yaml")
    assert facts.today == TODAY


def test_the_commit_where_the_name_asks_for_it(tmp_path: Path) -> None:
    repository = made_in(tmp_path)
    head = git(repository, "rev-parse", "HEAD")
    assert gathered(repository / "w.yaml", run_name_suffix="commit").commit == head
    assert gathered(repository / "w.yaml").commit is None


def test_the_checkpoint_is_looked_at(tmp_path: Path) -> None:
    looks = Looks()
    facts = gathered(tmp_path / "w.yaml", looks)
    assert looks.paths == ["gs://my-bucket/qwen3-0.6b/0/items"]
    assert facts.checkpoint is not None


def test_the_checkpoint_of_a_conversion_is_looked_at_too(tmp_path: Path) -> None:
    looks = Looks()
    gathered(tmp_path / "w.yaml", looks, model={"checkpoint": DROP, "hf": {"repo": "Qwen/Qwen3-0.6B"}})
    assert looks.paths == ["gs://my-bucket/runs/converted/qwen3-0.6b/0/items"]


def test_offline_looks_at_nothing(tmp_path: Path) -> None:
    looks = Looks()
    facts = gather(spec(), file=tmp_path / "w.yaml", today=TODAY, offline=True, look=looks)
    assert (facts.checkpoint, looks.paths) == (None, [])


def test_a_path_in_the_image_cannot_be_looked_at(tmp_path: Path) -> None:
    looks = Looks()
    assert gathered(tmp_path / "w.yaml", looks, model={"checkpoint": "/models/a/0/items"}).checkpoint is None
    assert looks.paths == []


def test_a_local_path_starts_where_xsft_is_run(tmp_path: Path) -> None:
    looks = Looks()
    gathered(tmp_path / "w.yaml", looks, target="local", model={"checkpoint": "ckpt/0/items"})
    gathered(tmp_path / "w.yaml", looks, target="local", model={"checkpoint": "/ckpt/0/items"})
    assert looks.paths == [str(Path.cwd() / "ckpt/0/items"), "/ckpt/0/items"]


def test_places_are_read_for_a_named_place_only(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "places.yaml").write_text("main: {context: kind}\n")
    named = gathered(tmp_path / "w.yaml", place="main")
    assert (named.places["main"].context, named.places_file) == ("kind", str(tmp_path / "places.yaml"))
    (tmp_path / "places.yaml").write_text("broken: [")
    assert gathered(tmp_path / "w.yaml").places == {}


def test_the_machine_for_local_runs_only(tmp_path: Path) -> None:
    assert gathered(tmp_path / "w.yaml").machine.memory_gib == 0
    here = gathered(tmp_path / "w.yaml", target="local").machine
    assert here.memory_gib == machine().memory_gib > 0


def test_standard_input_is_here() -> None:
    assert folder_of("-") == Path.cwd()
