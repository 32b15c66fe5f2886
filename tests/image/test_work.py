"""From the options of a call to a recipe: options of the last push, the base, and all problems of one kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.dockers import FakeEngine, FakeRepository, image_of
from tests.gitrepo import git
from tests.image.materials import DIGEST
from tests.image.test_lock import LOCKED
from tests.replacing import replace
from xsft.base.errors import EnvironmentMissing, Refused, SpecError, Unreachable, UsageError
from xsft.image.engine import EngineImage
from xsft.image.lock import SCHEMA
from xsft.image.lock_file import keep_lock
from xsft.image.options import BuildOptions
from xsft.image.push import ImageMaker
from xsft.image.work import ImageRequest, PlannedImage, SourceTree, plan_image, source_of, within_project
from xsft.machine.process import own_environment

REGISTRY = "127.0.0.1:5000/team"
PINNED = f"base:1@{DIGEST}"
OTHER = "sha256:" + "cd" * 32


class Lab:
    def __init__(self, project: Path) -> None:
        self.project = project
        self.images = project / "images"
        self.registry = FakeRepository()
        self.engine = FakeEngine(registry=self.registry, record={}, missing=True)
        self.said: list[str] = []
        self.maker = ImageMaker(
            images=self.images,
            env={"PATH": "/usr/bin:/bin"},
            say=self.said.append,
            connect=self.engine.connect,  # type: ignore[arg-type]
            repository=self.registry,  # type: ignore[arg-type]
        )

    def plan(self, *, given: dict[str, Any] | None = None, **changes: Any) -> PlannedImage:
        request = ImageRequest(image="mine", registry=REGISTRY, options=BuildOptions(**(given or {})))
        return plan_image(replace(request, **changes), self.maker)

    def pushed(self, **options: Any) -> None:
        build_options = None if options.pop("unknown", False) else BuildOptions(**options)
        keep_lock(
            self.images,
            replace(LOCKED, image="mine", repository=f"{REGISTRY}/mine", options=build_options, base=PINNED),
        )


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.setenv("XSFT_CACHE_DIR", str(tmp_path / "cache"))
    mine = tmp_path / "project" / "images" / "mine"
    mine.mkdir(parents=True)
    record = "COPY deps.json /usr/share/xsft/deps.json\n"
    (mine / "Dockerfile").write_text(f"ARG BASE_IMAGE=base:1\nFROM ${{BASE_IMAGE}}\n{record}")
    for folder in ("extra", "more"):
        (tmp_path / "project" / folder).mkdir()
        (tmp_path / "project" / folder / f"{folder}.py").write_text("1")
    new_lab = Lab(tmp_path / "project")
    pin = {"schema": SCHEMA, "base": PINNED, "images": {}}
    (new_lab.images / "mine.lock.json").write_text(json.dumps(pin))  # as an earlier xsft
    return new_lab


def test_a_plan_has_the_recipe_with_its_options(lab: Lab) -> None:
    recipe = lab.plan(given={"code": ("extra",)}).recipe
    assert (recipe.repository, recipe.base) == (f"{REGISTRY}/mine", PINNED)
    assert recipe.options == BuildOptions(code=("extra",))
    assert recipe.options.is_shareable


def test_a_plain_push_repeats_the_options_of_the_last_one(lab: Lab) -> None:
    lab.pushed(code=("extra",))
    again = lab.plan().recipe
    assert again.options.code == ("extra",)
    assert lab.said == ["options: --code=extra"]
    assert lab.plan(registry="europe-docker.pkg.dev/my-project/r").recipe.options.code == ("extra",), (
        "to another registry, too"
    )


def test_a_changed_option_is_named_and_the_others_stay(lab: Lab) -> None:
    lab.pushed(code=("extra",), args={"RUN_AS": "1"})
    planned = lab.plan(given={"code": ("more",)}).recipe
    assert (planned.options.code, planned.options.args) == (("more",), {"RUN_AS": "1"})
    assert lab.said == ["options: --code=more --arg=RUN_AS=1; the last push had --code=extra --arg=RUN_AS=1"]
    assert lab.plan(forgets=True).recipe.options.code == ()
    assert lab.said[-1] == "options: none; the last push had --code=extra --arg=RUN_AS=1"


def test_options_that_the_lock_cannot_name_are_not_forgotten(lab: Lab, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    assert within_project(str(outside), project=lab.project, cwd=lab.project) == str(outside)
    assert within_project("../extra", project=lab.project, cwd=lab.images) == "extra"
    assert not lab.plan(given={"code": (str(outside),)}).recipe.options.is_shareable
    lab.pushed(unknown=True)
    with pytest.raises(Refused) as refused:
        lab.plan()
    assert refused.value.problem_id == "image-options"
    assert lab.plan(forgets=True).recipe.options == BuildOptions()
    assert lab.plan(given={"code": ("extra",)}).recipe.options.code == ("extra",)


def test_problems_of_the_options_are_reported_before_files_are_read(lab: Lab) -> None:
    with pytest.raises(SpecError) as refused:
        lab.plan(given={"maxtext": "9", "code": ("nowhere",)}, registry="a b")
    assert [p.id for p in refused.value.problems] == ["image-maxtext", "image-reference"]


def test_names_of_artifact_registry_are_checked_before_files_are_read(lab: Lab) -> None:
    with pytest.raises(UsageError) as refused:
        lab.plan(given={"code": ("nowhere",)}, registry="us-docker.pkg.dev/My_Project/x".lower())
    assert refused.value.problem_id == "artifact-repository"


def test_problems_of_the_files_are_reported_before_the_base_is_looked_up(lab: Lab) -> None:
    (lab.project / "extra" / ".env").write_text("x")
    (lab.project / "extra" / "broken").symlink_to("nowhere")
    with pytest.raises(SpecError) as refused:
        lab.plan(given={"code": ("extra",), "base": "new:1"}, updates_base=True)
    assert sorted(p.id for p in refused.value.problems) == ["image-context-link", "image-context-secret"]
    assert lab.registry.asked == []


def test_an_option_that_the_dockerfile_does_not_take_is_reported(lab: Lab) -> None:
    with pytest.raises(SpecError, match="VLLM_REQUIREMENT"):
        lab.plan(given={"vllm": "vllm==1"})


def test_the_base_is_that_of_its_own_digest_of_the_lock_the_engine_or_the_registry(lab: Lab) -> None:
    assert lab.plan().recipe.base == PINNED
    assert lab.plan(given={"base": f"base:1@{OTHER}"}).recipe.base == f"base:1@{OTHER}"
    assert lab.said == [f"options: --base=base:1@{OTHER}"], "nothing is left to pin"
    lab.engine.missing = False
    lab.engine.images["base:1"] = EngineImage(id="sha256:id", digests=(f"base@{OTHER}", "base@x"), labels={})
    assert lab.plan(updates_base=True).recipe.base == f"base:1@{OTHER}"
    assert lab.said[-1].endswith(f"images/mine/Dockerfile: ARG BASE_IMAGE=base:1@{OTHER}")
    lab.engine.images["base:1"] = EngineImage(id="sha256:id", digests=(), labels={})
    assert lab.plan(updates_base=True).recipe.base == "base:1#sha256:id"
    lab.engine.missing = True
    with pytest.raises(EnvironmentMissing) as missing:
        lab.plan(updates_base=True)
    assert [p.id for p in missing.value.problems] == ["docker-not-running", "image-absent"]
    assert lab.plan(updates_base=True, needs_base=False).recipe.base == "base:1"
    in_registry = image_of(None)[0]
    lab.registry.images["1"] = in_registry
    assert lab.plan(updates_base=True).recipe.base == f"base:1@{in_registry.digest}"


def test_another_base_replaces_that_of_the_last_push_and_is_repeated(lab: Lab) -> None:
    lab.registry.images["1"] = image_of(None)[0]
    digest = lab.registry.images["1"].digest
    assert lab.plan(given={"base": "other:1"}).recipe.base == f"other:1@{digest}"
    lab.pushed(base="base:1")
    lab.registry.images.clear()
    assert lab.plan().recipe.base == PINNED, "by the digest of the last push, though the tag moved"
    dockerfile = lab.images / "mine" / "Dockerfile"
    dockerfile.write_text(dockerfile.read_text().replace("base:1", f"new:2@{OTHER}"))
    assert lab.plan(forgets=True).recipe.base == f"new:2@{OTHER}"


def test_a_base_that_only_an_engine_has_is_known_from_the_last_push_without_one(lab: Lab) -> None:
    (lab.images / "mine.lock.json").unlink()
    base_name = "base:1#sha256:1"
    keep_lock(lab.images, replace(LOCKED, image="mine", repository=f"{REGISTRY}/mine", base=base_name))
    assert lab.plan(forgets=True).recipe.base == base_name


@pytest.fixture
def fork(tmp_path: Path) -> Path:
    path = tmp_path / "fork"
    path.mkdir()
    (path / "a.py").write_text("1")
    for argv in (("init", "-q", "-b", "main"), ("add", "a.py"), ("commit", "-q", "-m", "first"), ("tag", "v1")):
        git(path, *argv)
    return path


def source(text: str, tmp_path: Path, lines: list[str] | None = None) -> SourceTree:
    progress = (lines if lines is not None else []).append
    return source_of(text, project=tmp_path, env=own_environment(), cache=tmp_path / "cache", progress=progress)


def test_a_folder_is_described_by_its_commit_and_changes(fork: Path, tmp_path: Path) -> None:
    head = git(fork, "rev-parse", "HEAD")
    assert source("fork", tmp_path) == SourceTree(folder=fork, label=f"tree {head}")
    (fork / "a.py").write_text("2")
    assert source(str(fork), tmp_path) == SourceTree(folder=fork, label=f"tree {head}-dirty")


@pytest.mark.parametrize("ref", ["main", "v1", "COMMIT"])
def test_a_git_source_is_fetched_and_a_full_commit_only_once(fork: Path, tmp_path: Path, ref: str) -> None:
    head = git(fork, "rev-parse", "HEAD")
    text = f"git+file://{fork}@{head if ref == 'COMMIT' else ref}"
    first = source(text, tmp_path)
    assert first.label == f"git {head}"
    assert (first.folder / "a.py").read_text() == "1"
    lines: list[str] = []
    assert source(text, tmp_path, lines) == first
    assert bool(lines) == (ref != "COMMIT")


def test_a_branch_that_moved_is_fetched_again(fork: Path, tmp_path: Path) -> None:
    text = f"git+file://{fork}@main"
    before = source(text, tmp_path)
    (fork / "a.py").write_text("2")
    git(fork, "commit", "-q", "-a", "-m", "second")
    after = source(text, tmp_path)
    assert ((before.folder / "a.py").read_text(), (after.folder / "a.py").read_text()) == ("1", "2")


def test_a_source_that_cannot_be_fetched_is_reported(fork: Path, tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match=r"nowhere of file://.* could not be fetched"):
        source(f"git+file://{fork}@nowhere", tmp_path)
    assert source(f"git+file://{fork}@main", tmp_path)
    with pytest.raises(Unreachable, match="could not be fetched"):
        source(f"git+file://{fork}@--upload-pack=x", tmp_path)
