"""Builds are not repeated, and only what the registry has is recorded."""

from __future__ import annotations

import json
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.dockers import FakeDocker, FakeRegistry
from tests.image.materials import OPTIONS, file, material, recipe
from tests.replacing import replace
from xsft.base.errors import EnvironmentMissing, Refused, RepositoryMissing, Unknown, Unreachable, XsftError
from xsft.effects.images.build import ImageBuilder, PushDone
from xsft.effects.images.lock import lock_file, locked_images
from xsft.image.model import Recipe
from xsft.image.recipe import local_name

LOCAL = local_name("post_training")
KEPT = replace(OPTIONS, registry=None)
OTHER = "sha256:" + "ee" * 32


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XSFT_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def images(tmp_path: Path) -> Path:
    (tmp_path / "images").mkdir()
    return tmp_path / "images"


def maker(images: Path, engine: FakeDocker, **settings: Any) -> ImageBuilder:
    times = iter(f"2026-11-21T10:00:0{n}+00:00" for n in range(9))
    settings = {"docker": lambda: engine, "now": lambda: next(times), **settings}
    return ImageBuilder(images=images, registry=engine.registry, **settings)


def pushed(by: ImageBuilder, made: Recipe) -> PushDone:
    return by.push(made, options=KEPT, commit="1" * 40, dirty=False)


def edited() -> Recipe:
    code = material().code
    return recipe(code=replace(code, files=(*code.files[:-1], file("code/hooks.py", b"print(2)"))))


def test_the_first_push_builds_and_pushes_both_images_and_writes_the_lock(images: Path) -> None:
    docker = FakeDocker(FakeRegistry())
    done = pushed(maker(images, docker), recipe())
    assert docker.did == ["build deps", "build code", "push deps", "push code"]
    assert done.pushed
    locked = locked_images(images, "post_training")["127.0.0.1:5000/team/post-training"]
    assert locked == done.locked
    assert docker.registry.images[locked.ref] == locked.digest
    assert (locked.code, locked.deps, locked.options) == (recipe().code.tag, recipe().deps.tag, KEPT)


def test_a_second_push_queries_only_the_registry_and_keeps_the_lock(images: Path) -> None:
    docker = FakeDocker(FakeRegistry())
    first = pushed(maker(images, docker), recipe())
    text = lock_file(images, "post_training").read_bytes()
    docker.registry.asked.clear()

    def no_engine() -> FakeDocker:
        raise EnvironmentMissing("no engine", id="docker-not-running")

    second = pushed(maker(images, docker, docker=no_engine), recipe())
    assert not second.pushed
    assert second.locked.digest == first.locked.digest
    assert lock_file(images, "post_training").read_bytes() == text
    code, deps = first.locked.digest, first.locked.deps_digest
    assert docker.registry.asked == [
        f"{first.locked.repository}{name}" for name in (f":{recipe().code.tag}", f"@{deps}", f"@{code}")
    ]


def test_an_edit_builds_and_pushes_only_the_code_image(images: Path) -> None:
    docker = FakeDocker(FakeRegistry())
    first = pushed(maker(images, docker), recipe())
    docker.did.clear()
    second = pushed(maker(images, docker), edited())
    assert docker.did == ["build code", "push code"]
    assert second.locked.digest != first.locked.digest
    assert locked_images(images, "post_training")[second.locked.repository].digest == second.locked.digest


def test_another_machine_pulls_the_dependencies_instead_of_building(images: Path) -> None:
    registry = FakeRegistry()
    pushed(maker(images, FakeDocker(registry)), recipe())
    fresh = FakeDocker(registry)
    done = pushed(maker(images, fresh), edited())
    assert fresh.did == ["pull", "build code", "push code"]
    assert fresh.pulled == [f"{done.locked.repository}@{done.locked.deps_digest}"]


def foreign(**labels: str) -> dict[str, str]:
    """Return the labels of an image of ours, changed by `labels`."""
    return {**recipe().code.labels, **labels}


@pytest.mark.parametrize(
    ("labels", "why"),
    [
        ({}, "it has no label dev.xsft.image"),
        (foreign(**{"dev.xsft.kind": "deps"}), "its label dev.xsft.kind is 'deps', not 'code'"),
        (foreign(**{"dev.xsft.maxtext.version": "0.2.1"}), "dev.xsft.maxtext.version is '0.2.1', not '0.2.5'"),
        (foreign(**{"dev.xsft.lock.sha256": "0" * 64}), "its label dev.xsft.lock.sha256 is"),
        (foreign(**{"dev.xsft.tag": "code-" + "0" * 20}), "its label dev.xsft.tag is"),
        (foreign(**{"dev.xsft.image": "other"}), "its label dev.xsft.image is 'other'"),
    ],
)
def test_a_foreign_image_under_the_code_tag_is_neither_used_nor_overwritten(
    images: Path, labels: dict[str, str], why: str
) -> None:
    registry = FakeRegistry()
    registry.take(recipe().repository, recipe().code.tag, OTHER, labels)
    docker = FakeDocker(registry)
    with pytest.raises(Refused, match=why) as refused:
        pushed(maker(images, docker), recipe())
    assert (refused.value.problem_id, refused.value.exit_status) == ("image-foreign", 4)
    assert docker.did == []
    assert not lock_file(images, "post_training").exists()
    said: list[str] = []
    steps = maker(images, docker, progress=said.append).build(recipe(), remote=True)
    assert [step.outcome for step in steps] == ["built", "built"]
    assert any(why in line for line in said)


def test_a_foreign_image_under_the_deps_tag_is_not_built_on(images: Path) -> None:
    registry = FakeRegistry()
    registry.take(recipe().repository, recipe().deps.tag, OTHER, {})
    docker = FakeDocker(registry)
    with pytest.raises(Refused) as refused:
        pushed(maker(images, docker), recipe())
    assert (refused.value.problem_id, docker.did) == ("image-foreign", [])
    maker(images, docker).build(recipe(), remote=True)
    assert docker.did == ["build deps", "build code"]


def test_locked_dependencies_are_pulled_by_digest_even_if_their_tag_moved(images: Path) -> None:
    registry = FakeRegistry()
    first = pushed(maker(images, FakeDocker(registry)), recipe()).locked
    registry.take(first.repository, first.deps, OTHER, {})
    fresh = FakeDocker(registry)
    second = pushed(maker(images, fresh), edited()).locked
    assert fresh.pulled == [f"{first.repository}@{first.deps_digest}"]
    assert second.deps_digest == first.deps_digest


def test_dependencies_missing_from_the_registry_are_rebuilt_and_pushed(images: Path) -> None:
    registry = FakeRegistry()
    first = pushed(maker(images, FakeDocker(registry)), recipe()).locked
    for name in (f":{first.deps}", f"@{first.deps_digest}"):
        del registry.images[f"{first.repository}{name}"]
    fresh = FakeDocker(registry, builds_differ_by=" later")
    second = pushed(maker(images, fresh), edited()).locked
    assert fresh.did == ["build deps", "build code", "push deps", "push code"]
    assert second.deps_digest not in (None, first.deps_digest)
    assert registry.images[f"{second.repository}@{second.deps_digest}"] == second.deps_digest


def test_a_foreign_local_image_under_a_tag_of_xsft_is_rebuilt(images: Path) -> None:
    docker = FakeDocker(FakeRegistry())
    docker.held = {f"{LOCAL}:{recipe().deps.tag}": "python", f"{LOCAL}:{recipe().code.tag}": "python"}
    said: list[str] = []
    pushed(maker(images, docker, progress=said.append), recipe())
    assert docker.did == ["build deps", "build code", "push deps", "push code"]
    assert sum("is another image: it has no label" in line for line in said) == 2


def test_build_skips_images_that_the_engine_or_the_registry_has(images: Path) -> None:
    registry = FakeRegistry()
    docker = FakeDocker(registry)
    steps = maker(images, docker).build(recipe(), remote=True)
    assert [step.outcome for step in steps] == ["built", "built"]
    assert [step.outcome for step in maker(images, docker).build(recipe(), remote=True)] == ["not-needed", "held"]
    registry.take(recipe().repository, recipe().code.tag, OTHER, recipe().code.labels)
    steps = maker(images, FakeDocker(registry)).build(recipe(), remote=True)
    assert [step.outcome for step in steps] == ["not-needed", "in-registry"]
    assert lock_file(images, "post_training").exists() is False


def test_an_unreachable_registry_stops_a_push_but_not_a_build(images: Path) -> None:
    docker = FakeDocker(FakeRegistry(down=True))
    said: list[str] = []
    steps = maker(images, docker, progress=said.append).build(recipe(), remote=True)
    assert [step.outcome for step in steps] == ["built", "built"]
    assert any("does not answer" in line for line in said)
    with pytest.raises(Unreachable):
        pushed(maker(images, docker), recipe())
    assert not lock_file(images, "post_training").exists()


def test_unreachable_registry_and_engine_are_both_reported_engine_first(images: Path) -> None:
    def no_engine() -> FakeDocker:
        raise EnvironmentMissing("no engine", id="docker-not-running")

    offline = maker(images, FakeDocker(FakeRegistry(down=True)), docker=no_engine)
    with pytest.raises(EnvironmentMissing) as missing:
        pushed(offline, recipe())
    assert [problem.id for problem in missing.value.problems] == ["docker-not-running", "registry-unreachable"]
    assert not lock_file(images, "post_training").exists()


def test_build_without_a_registry_sends_no_request(images: Path) -> None:
    docker = FakeDocker(FakeRegistry())
    maker(images, docker).build(recipe(replace(OPTIONS, registry=None)), remote=False)
    assert docker.registry.asked == []


@pytest.mark.parametrize("claimed", [OTHER, None])
def test_a_digest_that_the_registry_does_not_confirm_is_not_recorded(images: Path, claimed: str | None) -> None:
    registry = FakeRegistry()

    def lies(ref: str, digest: str) -> str:
        if claimed is None:
            registry.images.clear()
        return claimed or digest

    docker = FakeDocker(registry, after_push=lies)
    with pytest.raises(Unknown, match="nothing was recorded"):
        pushed(maker(images, docker), recipe())
    assert not lock_file(images, "post_training").exists()


def test_a_tag_whose_digest_the_registry_denies_is_not_recorded(images: Path) -> None:
    docker = FakeDocker(FakeRegistry())
    docker.registry.images[f"{recipe().repository}:{recipe().code.tag}"] = OTHER
    docker.registry.labels[OTHER] = recipe().code.labels
    with pytest.raises(Unknown, match="does not have it"):
        pushed(maker(images, docker), recipe())
    assert not lock_file(images, "post_training").exists()


@pytest.mark.parametrize("at", ["deps", "code"])
def test_ctrl_c_during_a_push_keeps_the_lock(images: Path, at: str) -> None:
    registry = FakeRegistry()
    before = pushed(maker(images, FakeDocker(registry)), recipe()).locked
    changed = replace(edited(), deps=replace(recipe().deps, tag="deps-" + "1" * 20))
    changed = replace(changed, code=replace(changed.code, args={"DEPS_IMAGE": f"{LOCAL}:{changed.deps.tag}"}))

    def interrupt(ref: str) -> None:
        if f":{at}-" in ref:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pushed(maker(images, FakeDocker(registry, before_push=interrupt)), changed)
    assert locked_images(images, "post_training") == {before.repository: before}
    assert [path.name for path in images.iterdir()] == ["post_training.lock.json"]


@pytest.mark.parametrize(
    "why",
    [
        Unreachable("no", id="registry-forbidden"),
        Unreachable("no", id="registry-login-missing"),
        RepositoryMissing("no"),
    ],
    ids=lambda why: str(why.problem_id),
)
def test_a_push_that_the_registry_would_refuse_stops_before_the_build(images: Path, why: XsftError) -> None:
    docker = FakeDocker(FakeRegistry())
    docker.registry.refuses = why
    with pytest.raises(XsftError) as refused:
        pushed(maker(images, docker), recipe())
    assert (refused.value, docker.did) == (why, [])


def test_create_allows_the_build_when_the_repository_is_missing(images: Path) -> None:
    docker = FakeDocker(FakeRegistry())
    docker.registry.refuses = RepositoryMissing("no")
    pushed(maker(images, docker, creates=True, ready=lambda: docker.did.append("created")), recipe())
    assert docker.did == ["build deps", "build code", "created", "push deps", "push code"]


def test_the_repository_is_checked_after_the_build_and_before_the_push(images: Path) -> None:
    docker = FakeDocker(FakeRegistry())
    pushed(maker(images, docker, ready=lambda: docker.did.append("ready")), recipe())
    assert docker.did == ["build deps", "build code", "ready", "push deps", "push code"]


def test_concurrent_pushes_from_several_machines_leave_a_correct_lock(images: Path) -> None:
    registry = FakeRegistry()

    def one(number: int) -> PushDone:
        docker = FakeDocker(registry, builds_differ_by=f" at {number}")
        made = recipe(replace(OPTIONS, registry=f"127.0.0.1:5000/team-{number % 2}"))
        return pushed(maker(images, docker), made)

    with ThreadPool(6) as pool:
        done = pool.map(one, range(12))
    held = locked_images(images, "post_training")
    assert set(held) == {f"127.0.0.1:5000/team-{n}/post-training" for n in (0, 1)}
    assert {locked.digest for locked in held.values()} <= {one.locked.digest for one in done}
    assert all(registry.images[locked.ref] == locked.digest for locked in held.values())
    json.loads(lock_file(images, "post_training").read_text())
