"""From the options of a call to a recipe: options of the last push, the base, and all problems of one kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.fakes.dockers import FakeEngine, FakeRepository, image_of
from tests.gitrepo import git
from tests.image.materials import DIGEST
from tests.image.test_lock import LOCKED
from tests.replacing import replace
from xsft.base.errors import EnvironmentMissing, Refused, SpecError, UsageError
from xsft.image.engine import EngineImage
from xsft.image.lock_file import keep_base, keep_lock, pinned_base
from xsft.image.options import BuildOptions, GivenOptions
from xsft.image.push import ImageMaker
from xsft.image.recipe import Base
from xsft.image.work import ImageRequest, PlannedImage, pin_base, plan_image, within_project

REGISTRY = "127.0.0.1:5000/team"
PINNED = Base(ref="base:1", digest=DIGEST)
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
        request = ImageRequest(image="mine", registry=REGISTRY, given=GivenOptions(**(given or {})))
        return plan_image(replace(request, **changes), self.maker)

    def pushed(self, **options: Any) -> None:
        made = None if options.pop("unknown", False) else BuildOptions(image="mine", **options)
        keep_lock(self.images, replace(LOCKED, image="mine", repository=f"{REGISTRY}/mine", options=made, base=""))


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
    made = Lab(tmp_path / "project")
    keep_base(made.images, "mine", PINNED)
    return made


def test_a_plan_has_the_recipe_the_commit_and_the_options_for_the_lock(lab: Lab) -> None:
    git(lab.project, "init", "-q")
    git(lab.project, "add", ".")
    git(lab.project, "commit", "-q", "-m", "first")
    planned = lab.plan(given={"code": ("extra",)}, pip_config="/p")
    assert planned.recipe.repository == f"{REGISTRY}/mine"
    assert planned.recipe.base == PINNED
    assert (planned.commit, planned.dirty) == (git(lab.project, "rev-parse", "HEAD"), False)
    assert planned.remembered == BuildOptions(image="mine", code=("extra",))


def test_a_plain_push_repeats_the_options_of_the_last_one(lab: Lab) -> None:
    lab.pushed(code=("extra",))
    again = lab.plan()
    assert again.options.code == ("extra",)
    assert lab.said == ["options: --code=extra"]
    assert lab.plan(registry="europe-docker.pkg.dev/my-project/r").options.code == ("extra",), (
        "to another registry, too"
    )


def test_a_changed_option_is_named_and_the_others_stay(lab: Lab) -> None:
    lab.pushed(code=("extra",), args={"RUN_AS": "1"})
    planned = lab.plan(given={"code": ("more",)})
    assert (planned.options.code, planned.options.args) == (("more",), {"RUN_AS": "1"})
    assert lab.said == ["options: --code=more --arg=RUN_AS=1; the last push had --code=extra --arg=RUN_AS=1"]
    assert lab.plan(forgets=True).options.code == ()
    assert lab.said[-1] == "options: none; the last push had --code=extra --arg=RUN_AS=1"


def test_options_that_the_lock_cannot_name_are_not_forgotten(lab: Lab, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    assert within_project(str(outside), project=lab.project, cwd=lab.project) == str(outside)
    assert within_project("../extra", project=lab.project, cwd=lab.images) == "extra"
    assert lab.plan(given={"code": (str(outside),)}).remembered is None
    lab.pushed(unknown=True)
    with pytest.raises(Refused) as refused:
        lab.plan()
    assert refused.value.problem_id == "image-options"
    assert lab.plan(forgets=True).options == BuildOptions(image="mine", registry=REGISTRY)
    assert lab.plan(given={"code": ("extra",)}).options.code == ("extra",)


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


def test_the_base_is_the_locks_its_own_digests_the_engines_or_the_registrys(lab: Lab) -> None:
    assert lab.plan().recipe.base == PINNED
    assert lab.plan(given={"base": f"base:1@{DIGEST}"}).recipe.base == PINNED
    lab.engine.missing = False
    lab.engine.images["base:1"] = EngineImage(id="sha256:id", digests=(f"base@{OTHER}",), labels={})
    assert lab.plan(updates_base=True).recipe.base == Base(ref="base:1", digest=OTHER)
    lab.engine.images["base:1"] = EngineImage(id="sha256:id", digests=(), labels={})
    assert lab.plan(updates_base=True).recipe.base == Base(ref="base:1", image_id="sha256:id")
    lab.engine.missing = True
    with pytest.raises(EnvironmentMissing) as missing:
        lab.plan(updates_base=True)
    assert [p.id for p in missing.value.problems] == ["docker-not-running", "image-absent"]
    assert lab.plan(updates_base=True, needs_base=False).recipe.base == Base(ref="base:1")
    in_registry = image_of(None)[0]
    lab.registry.images["1"] = in_registry
    assert lab.plan(updates_base=True).recipe.base == Base(ref="base:1", digest=in_registry.digest)


def test_another_base_than_the_pinned_one_needs_update_base_and_a_plain_push_keeps_it(lab: Lab) -> None:
    with pytest.raises(Refused) as refused:
        lab.plan(given={"base": "other:1"})
    assert refused.value.problem_id == "image-base-differs"
    lab.registry.images["1"] = image_of(None)[0]
    planned = lab.plan(given={"base": "other:1"}, updates_base=True)
    pin_base(planned.recipe, lab.maker)
    assert any("ARG BASE_IMAGE=other:1@sha256:" in line for line in lab.said)
    lab.pushed(base="other:1")
    assert lab.plan().recipe.base == pinned_base(lab.images, "mine") == planned.recipe.base


def test_a_pinned_base_stays_if_the_dockerfile_names_another_tag_and_a_digest_there_wins(lab: Lab) -> None:
    dockerfile = lab.images / "mine" / "Dockerfile"
    text = dockerfile.read_text()
    dockerfile.write_text(text.replace("base:1", "new:2"))
    assert lab.plan().recipe.base == PINNED
    assert "building on base:1@" in lab.said[-1]
    dockerfile.write_text(text.replace("base:1", f"new:2@{OTHER}"))
    assert lab.plan().recipe.base == Base(ref="new:2", digest=OTHER)


def test_a_base_that_only_an_engine_has_is_known_from_the_last_push_without_one(lab: Lab) -> None:
    (lab.images / "mine.lock.json").unlink()
    lab.pushed()
    known = Base(ref="base:1", image_id="sha256:1")
    keep_lock(lab.images, replace(LOCKED, image="mine", repository=f"{REGISTRY}/mine", base=known.known))
    assert lab.plan(forgets=True).recipe.base == known
