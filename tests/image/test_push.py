"""An image is made once, pushed once, and locked by a digest that the registry has."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.engine.steps import context
from tests.fakes.dockers import FakeEngine, FakeRepository, hashed, image_of, names_in
from tests.gitrepo import git, made_in
from tests.image.materials import BASE, CONTEXT, recipe
from tests.replacing import replace
from xsft.base.errors import EnvironmentMissing, Forbidden, Refused, RepositoryMissing, SpecError, Unknown, Unreachable
from xsft.image.engine import EngineImage
from xsft.image.lock_file import read_lock_file
from xsft.image.push import ImageDone, ImageMaker, build_image, push_image
from xsft.image.recipe import Recipe

NAME = "127.0.0.1:5000/team/post-training"
RECORD = {
    "lock_sha256": CONTEXT[1].sha256,
    "site": "site",
    "cache_tag": "cpython-312",
    "packages": {"maxtext": {"a.py": "0" * 64}},
}


class Lab:
    """An engine, a registry, and a project on a disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.images = folder / "images"
        self.images.mkdir()
        self.registry = FakeRepository()
        self.engine = FakeEngine(registry=self.registry, record=RECORD)
        self.said: list[str] = []
        self.created: list[str] = []
        self.maker = ImageMaker(
            images=self.images,
            env={"PATH": "/usr/bin:/bin"},
            say=self.said.append,
            connect=self.engine.connect,  # type: ignore[arg-type]
            build=self.engine.build,
            repository=self.registry,  # type: ignore[arg-type]
            create=lambda registry, **_: self.created.append(registry),
            now=lambda: "2026-11-21T10:00:00+00:00",
        )

    def recipe(self, text: str = "print(1)", **files: str) -> Recipe:
        code = context(self.folder / "code", {"code/hooks.py": text, "xsft/evaluate.zip": "zip", **files})
        return recipe(code=code)

    def push(self, what: Recipe | None = None, **changes: Any) -> ImageDone:
        maker = replace(self.maker, **changes)
        return push_image(what or self.recipe(), maker)

    def locked(self) -> str | None:
        entry = read_lock_file(self.images, "post_training").images.get(NAME)
        return entry.digest if entry else None


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.setenv("XSFT_CACHE_DIR", str(tmp_path / "cache"))
    return Lab(tmp_path)


def test_a_push_builds_the_dependencies_adds_the_code_and_locks_the_digest(lab: Lab) -> None:
    made_in(lab.folder)
    done = lab.push()
    assert (done.deps.outcome, done.code.outcome) == ("built", "built")
    assert lab.engine.did == [f"pull {BASE}", "build deps", "push deps"], "no engine builds the code"
    start_recipe = lab.recipe()
    image = lab.registry.images[start_recipe.code.tag]
    assert done.locked
    assert lab.locked() == done.locked.digest == image.digest
    assert done.locked.deps_digest == lab.registry.images[start_recipe.deps.tag].digest
    assert done.locked.evaluate == start_recipe.code.files[1].sha256
    assert (done.locked.commit, done.locked.dirty) == (git(lab.folder, "rev-parse", "HEAD"), False)
    layers = json.loads(image.manifest)["layers"]
    assert [list(names_in(lab.registry.blobs[layer["digest"]])) for layer in layers[1:]] == [
        ["usr/share/xsft/programs/evaluate.zip"],
        ["app/code/hooks.py"],
    ]


def test_a_second_push_sends_nothing_asks_once_and_needs_no_engine(lab: Lab) -> None:
    first = lab.push()
    lab.engine.missing = True
    lab.registry.asked.clear()
    second = lab.push()
    assert (second.sent_bytes, second.code.outcome, lab.locked()) == (0, "in-registry", first.locked.digest)  # type: ignore[union-attr]
    assert len(lab.registry.asked) == 1


def test_a_changed_line_sends_one_layer_and_needs_no_engine(lab: Lab) -> None:
    lab.push()
    lab.engine.missing = True
    before = set(lab.registry.blobs)
    done = lab.push(lab.recipe("print(2)"))
    assert (done.deps.outcome, done.code.outcome) == ("in-registry", "built")
    new = sorted(
        list(names_in(lab.registry.blobs[blob])) for blob in set(lab.registry.blobs) - before if is_layer(lab, blob)
    )
    assert new == [["app/code/hooks.py"]]
    assert 0 < done.sent_bytes < 3000


def is_layer(lab: Lab, digest: str) -> bool:
    return lab.registry.blobs[digest][:2] == b"\x1f\x8b"


@pytest.mark.parametrize("record", [None, {**RECORD, "lock_sha256": "0" * 64}, {"no": "record"}])
def test_dependencies_that_only_have_our_labels_are_refused(lab: Lab, record: Any) -> None:
    start_recipe = lab.recipe()
    lab.registry.add(start_recipe.deps.tag, image_of(record, labels=start_recipe.deps.labels))
    with pytest.raises(Refused) as refused:
        lab.push()
    assert refused.value.problem_id == "image-foreign"
    assert lab.locked() is None
    assert lab.engine.did == []


def test_dependencies_of_another_machine_are_believed_by_their_content(lab: Lab) -> None:
    start_recipe = lab.recipe()
    digest = lab.registry.add(start_recipe.deps.tag, image_of(RECORD))
    done = lab.push()
    assert (done.deps.outcome, done.locked.deps_digest, lab.engine.did) == ("in-registry", digest, [])  # type: ignore[union-attr]


def test_code_that_only_has_our_labels_is_neither_recorded_nor_overwritten(lab: Lab) -> None:
    start_recipe = lab.recipe()
    digest = lab.registry.add(start_recipe.code.tag, image_of(RECORD, labels={"dev.xsft.kind": "code"}))
    with pytest.raises(Refused, match="its last layers are not this code"):
        lab.push()
    assert lab.registry.images[start_recipe.code.tag].digest == digest
    assert lab.locked() is None


def test_the_same_code_on_another_build_of_the_dependencies_is_laid_anew(lab: Lab) -> None:
    """Two machines built the dependencies at the same moment."""
    lab.push()
    start_recipe = lab.recipe()
    (lab.images / "post_training.lock.json").unlink()
    lab.registry.add(start_recipe.deps.tag, image_of({**RECORD, "cache_tag": "other"}))
    done = lab.push()
    assert done.code.outcome == "built"
    assert lab.registry.images[start_recipe.code.tag].digest == lab.locked()


def test_the_lock_names_the_dependencies_even_if_their_tag_moved(lab: Lab) -> None:
    first = lab.push()
    lab.registry.add(lab.recipe().deps.tag, image_of(None))
    second = lab.push(lab.recipe("print(2)"))
    assert second.locked.deps_digest == first.locked.deps_digest  # type: ignore[union-attr]


def test_a_push_that_the_registry_does_not_confirm_is_not_recorded(lab: Lab) -> None:
    lab.registry.forgets = True
    with pytest.raises(Unknown) as unknown:
        lab.push()
    assert unknown.value.problem_id == "push-unconfirmed"
    assert lab.locked() is None


@pytest.mark.parametrize(
    ("refusal", "creates", "created"),
    [
        (Unreachable("no", id="registry-login-missing"), True, False),
        (RepositoryMissing("no"), False, False),
        (RepositoryMissing("no"), True, True),
        (Forbidden("no, or it does not exist"), True, True),
    ],
)
def test_rights_and_repository_are_checked_before_anything_is_built(
    lab: Lab, refusal: Exception, creates: bool, created: bool
) -> None:
    lab.registry.refuses = refusal  # type: ignore[assignment]
    if not created:
        with pytest.raises(type(refusal)):
            lab.push(creates=creates)
        assert (lab.engine.did, lab.created) == ([], [])
        return
    lab.push(creates=creates)
    assert lab.created == ["127.0.0.1:5000/team"]


def test_free_space_is_checked_before_the_dependencies_are_built(lab: Lab) -> None:
    lab.engine.free = 1 << 30
    with pytest.raises(SpecError) as refused:
        lab.push()
    assert [problem.id for problem in refused.value.problems] == ["disk-full"]
    assert lab.engine.did == []
    assert lab.push(accept=("disk-full",)).deps.outcome == "built"


def test_a_registry_that_does_not_answer_is_told(lab: Lab) -> None:
    lab.registry.down = True
    with pytest.raises(Unreachable):
        lab.push()
    assert build_image(lab.recipe(), lab.maker).deps.outcome == "built", "and a build goes on"
    assert any("continuing without it" in line for line in lab.said)


def test_a_push_without_an_engine_and_without_dependencies_says_so(lab: Lab) -> None:
    lab.engine.missing = True
    with pytest.raises(EnvironmentMissing) as missing:
        lab.push()
    assert missing.value.problem_id == "docker-not-running"


def test_a_secret_in_a_fork_is_refused_before_anything_is_sent(lab: Lab) -> None:
    key = "-----BEGIN PRIVATE" + " KEY-----\n" + "A" * 64
    with pytest.raises(SpecError) as refused:
        lab.push(lab.recipe(**{"maxtext/new.py": key}))
    assert [problem.id for problem in refused.value.problems] == ["image-context-secret"]
    assert lab.recipe().code.tag not in lab.registry.images


def test_a_fork_needs_the_record_of_what_it_replaces(lab: Lab) -> None:
    lab.engine.record = {"lock_sha256": CONTEXT[1].sha256}
    with pytest.raises(EnvironmentMissing, match="maxtext"):
        lab.push(lab.recipe(**{"maxtext/new.py": "1"}))


def removing(lines: list[str]) -> Callable[..., None]:
    def build(build: Any, **_: Any) -> None:
        lines[:] = build.files[0].content.decode().splitlines()

    return build


def test_a_build_lays_the_code_over_the_dependencies_in_the_engine(lab: Lab) -> None:
    start_recipe = lab.recipe(**{"maxtext/new.py": "1"})
    done = build_image(start_recipe, lab.maker)
    assert (done.deps.outcome, done.code.outcome) == ("built", "built")
    name = start_recipe.local(start_recipe.code.tag)
    assert lab.engine.contents[name] == [
        "Dockerfile",
        "layer/usr/share/xsft/programs/evaluate.zip",
        "layer/app/code/hooks.py",
        "layer/site/maxtext/new.py",
    ]
    assert build_image(start_recipe, lab.maker).code.outcome == "held"
    lab.engine.images[name] = EngineImage(id=hashed("x"), digests=(), labels={"dev.xsft.tag": "another"})
    lines: list[str] = []
    build_image(start_recipe, replace(lab.maker, build=removing(lines)))
    assert 'RUN ["rm", "-f", "/site/maxtext/a.py", "/site/maxtext/__pycache__/a.cpython-312.pyc"]' in lines
    assert lines[0] == f"FROM {start_recipe.local(start_recipe.deps.tag)}"


def test_a_build_pulls_the_dependencies_that_the_registry_has(lab: Lab) -> None:
    start_recipe = lab.recipe()
    digest = lab.registry.add(start_recipe.deps.tag, image_of(RECORD))
    done = build_image(start_recipe, lab.maker)
    assert (done.deps.outcome, lab.engine.did) == ("pulled", [f"pull {NAME}@{digest}", "build code"])
