"""The plan of an image from options and files, or all problems of one kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.gitrepo import git
from tests.image.materials import DIGEST
from tests.replacing import replace
from xsft.base.errors import SpecError, UsageError
from xsft.effects.images.material import MaterialReaders, find_images, plan_image, within_project
from xsft.image.model import Base, BuildOptions
from xsft.machine.process import own_environment

OPTIONS = BuildOptions(image="mine", registry="127.0.0.1:5000/team", maxtext="0.2.5", code=("extra",))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    (made / "images" / "mine").mkdir(parents=True)
    (made / "images" / "mine" / "Dockerfile").write_text("ARG BASE_IMAGE=base:1\nFROM ${BASE_IMAGE}\n")
    (made / "images" / "mine" / "code.Dockerfile").write_text("ARG DEPS_IMAGE\nARG REVISION\nARG DIRTY\n")
    (made / "extra").mkdir()
    (made / "extra" / "hooks.py").write_text("1")
    return made


def gathering(project: Path, **changes: Any) -> MaterialReaders:
    settings: dict[str, Any] = {"base": lambda ref: Base(ref=str(ref), digest=DIGEST), **changes}
    return MaterialReaders(images=project / "images", env=own_environment(), cache=project / "cache", **settings)


def test_plan_image_returns_the_recipe_and_the_options_for_the_lock(project: Path) -> None:
    git(project, "init", "-q")
    git(project, "add", ".")
    git(project, "commit", "-q", "-m", "first")
    planned = plan_image(replace(OPTIONS, pip_config="/p"), gathering(project))
    assert planned.recipe.repository == "127.0.0.1:5000/team/mine"
    assert planned.recipe.base == f"base:1@{DIGEST}"
    assert planned.recipe.code.args["REVISION"] == git(project, "rev-parse", "HEAD")
    assert planned.recipe.code.args["DIRTY"] == "false"
    assert planned.kept == replace(OPTIONS, registry=None)


def test_a_source_outside_the_project_is_not_kept_in_the_lock(project: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x.py").write_text("1")
    assert within_project(str(outside), project=project, cwd=project) == str(outside)
    assert within_project("../extra", project=project, cwd=project / "images") == "extra"
    planned = plan_image(replace(OPTIONS, code=(str(outside),)), gathering(project))
    assert planned.kept is None
    assert "code/x.py" in {f.path for f in planned.recipe.code.files}


def test_problems_of_the_options_are_reported_before_files_are_read(project: Path) -> None:
    wrong = replace(OPTIONS, maxtext="9", registry="a b", code=("nowhere",))
    with pytest.raises(SpecError) as told:
        plan_image(wrong, gathering(project))
    assert [p.id for p in told.value.problems] == ["image-maxtext", "image-reference"]


def test_problems_of_the_files_are_reported_before_the_base_is_requested(project: Path) -> None:
    (project / "extra" / ".env").write_text("x")
    (project / "extra" / "broken").symlink_to("nowhere")

    def nobody(_ref: str | None) -> Base:
        raise AssertionError("the base was asked for")

    with pytest.raises(SpecError) as told:
        plan_image(OPTIONS, gathering(project, base=nobody))
    assert sorted(p.id for p in told.value.problems) == ["image-context-link", "image-context-secret"]


def test_an_option_that_no_dockerfile_takes_is_reported(project: Path) -> None:
    with pytest.raises(SpecError) as told:
        plan_image(replace(OPTIONS, vllm="vllm==1"), gathering(project))
    assert "VLLM_REQUIREMENT" in told.value.problems[0].message


def test_find_images_lists_the_known_images_for_an_unknown_name(project: Path) -> None:
    assert find_images(project / "extra", "mine") == project / "images"
    with pytest.raises(UsageError, match="Known: mine"):
        find_images(project, "other")


def test_a_folder_without_a_dockerfile_is_reported(project: Path) -> None:
    (project / "images" / "empty").mkdir()
    for name in ("empty", "images/empty", "images/empty/"):
        with pytest.raises(UsageError, match=r"images/empty has no Dockerfile\.$") as told:
            find_images(project / "extra", name)
        assert told.value.problem_id == "image-dockerfile"


def test_find_images_suggests_the_name_if_a_path_is_given(project: Path) -> None:
    for name in ("images/mine", "./images/mine/", str(project / "images" / "mine")):
        with pytest.raises(UsageError) as told:
            find_images(project, name)
        assert (told.value.problem_id, told.value.fix) == (
            "image-name",
            "Give only the folder's name: --image mine.",
        )
