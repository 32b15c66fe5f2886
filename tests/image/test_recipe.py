"""Options and files give two build steps, with tags that depend on their content."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.image.materials import DIGEST, OPTIONS, file, material, recipe
from tests.replacing import replace
from xsft.image.model import Base, BuildSecret, ContextFile
from xsft.image.recipe import base_of, content_tag, differs, local_name, repository_of

NAMES = st.text("ab/.é\udcff", min_size=1, max_size=4)
FILES = st.lists(st.tuples(NAMES, st.binary(max_size=4), st.booleans()), max_size=5, unique_by=lambda row: row[0])
ARGS = st.dictionaries(st.sampled_from(["A", "B"]), st.text(max_size=3))


def test_recipe_has_two_builds_with_their_arguments() -> None:
    made = recipe()
    assert made.repository == "127.0.0.1:5000/team/post-training"
    assert made.deps.args == {
        "BASE_DIGEST": DIGEST,
        "BASE_IMAGE": f"python:3.12-slim@{DIGEST}",
        "LOCK_SHA256": material().deps.files[1].sha256,
        "MAXTEXT_VERSION": "0.2.5",
    }
    assert made.code.args == {
        "DEPS_IMAGE": f"localhost/xsft/post-training:{made.deps.tag}",
        "MAXTEXT_SOURCE": "pypi",
    }


def test_recipe_steps_take_the_files_of_their_part() -> None:
    made, parts = recipe(), material()
    for step, part, name in ((made.deps, parts.deps, "deps"), (made.code, parts.code, "code")):
        assert (step.name, step.dockerfile, step.files) == (name, part.dockerfile, part.files)
        assert (step.platform, step.secrets) == ("linux/amd64", ())
    assert (made.image, made.maxtext, made.base) == ("post_training", "0.2.5", f"python:3.12-slim@{DIGEST}")


def test_dockerfile_gets_only_the_arguments_that_it_declares() -> None:
    deps = replace(material().deps, args=dict.fromkeys(("VLLM_REQUIREMENT", "APT_PACKAGES", "BASE_DIGEST")))
    code = replace(material().code, args=dict.fromkeys(("REVISION", "APT_PACKAGES", "EVALUATE_SHA256")))
    program = file("xsft/evaluate.zip", b"zip")
    options = replace(OPTIONS, vllm="vllm==0.11.0", args={"APT_PACKAGES": "git", "OTHER": "x"})
    made = recipe(options, deps=deps, code=replace(code, files=(program,)), base=None, revision="1" * 40)
    assert made.deps.args == {"VLLM_REQUIREMENT": "vllm==0.11.0", "APT_PACKAGES": "git"}
    assert made.code.args == {"REVISION": "1" * 40, "APT_PACKAGES": "git", "EVALUATE_SHA256": program.sha256}
    assert made.base == ""


def test_packages_label_lists_locked_packages_that_no_argument_replaces() -> None:
    packages = {"jax": "0.11.0", "maxtext": "0.2.5", "google-tunix": "0.1.6", "numpy": "2.0"}
    names = ("MAXTEXT_REQUIREMENT", "TUNIX_REQUIREMENT")
    deps = replace(material().deps, args=dict.fromkeys(names))
    label = "dev.xsft.packages"
    assert recipe(packages=packages).deps.labels[label] == "google-tunix==0.1.6 jax==0.11.0 maxtext==0.2.5"
    for name, left in zip(names, ("google-tunix==0.1.6 jax==0.11.0", "jax==0.11.0 maxtext==0.2.5"), strict=True):
        made = recipe(replace(OPTIONS, args={name: "x @ https://example.com/x.whl"}), deps=deps, packages=packages)
        assert made.deps.labels[label] == left
    unlocked = recipe(deps=replace(material().deps, files=(file("Dockerfile"),)))
    assert {label, "dev.xsft.lock.sha256"} & unlocked.deps.labels.keys() == set()
    assert "LOCK_SHA256" not in unlocked.deps.args


@pytest.mark.parametrize(
    "base",
    [
        Base(ref="python:3.12", digest=DIGEST),
        Base(ref="mine:1", image_id="sha256:1"),
        Base(ref="mine:1"),
    ],
    ids=["digest", "image ID", "name only"],
)
def test_base_is_read_back_from_the_lock(base: Base) -> None:
    assert base_of(base.known) == base
    assert base_of("") is None


def test_only_the_dependencies_are_built_with_a_network() -> None:
    assert (recipe().deps.network, recipe().code.network) == ("default", "none")


def test_a_tag_is_the_same_in_every_release() -> None:
    """Another one would let everyone build and push what their registry has, and call their locks stale."""
    assert recipe().deps.tag == "deps-3f795c03198340f6a458"
    assert recipe().code.tag == "code-d4c422767fcff8bbc966"


def test_commit_and_labels_do_not_change_the_tag() -> None:
    labelled = recipe(revision="1" * 40, dirty=True, maxtext_label="tree abc-dirty")
    assert labelled.code.args["DIRTY"] == "true"
    assert (labelled.deps.tag, labelled.code.tag) == (recipe().deps.tag, recipe().code.tag)


def test_code_changes_one_tag_and_dependencies_change_both() -> None:
    plain = recipe()
    code = material().code
    edited = recipe(code=replace(code, files=(*code.files[:-1], file("code/hooks.py", b"print(2)"))))
    assert edited.deps.tag == plain.deps.tag
    assert edited.code.tag != plain.code.tag
    rebased = recipe(base=Base(ref="python:3.12-slim", digest="sha256:" + "cd" * 32))
    assert rebased.deps.tag != plain.deps.tag
    assert rebased.code.tag != plain.code.tag


def test_base_without_digest_is_identified_by_its_image_id() -> None:
    one, other = (recipe(base=Base(ref="base:1", image_id=f"sha256:{n}")) for n in "12")
    assert one.deps.args["BASE_IMAGE"] == "base:1"
    assert "BASE_DIGEST" not in one.deps.args
    assert one.base == "base:1#sha256:1"
    assert one.deps.tag != other.deps.tag


def test_pip_configuration_is_a_build_secret_and_does_not_change_the_tag() -> None:
    made = recipe(replace(OPTIONS, pip_config="/home/me/pip.conf"))
    assert made.deps.secrets == (BuildSecret(id="pip_conf", file="/home/me/pip.conf"),)
    assert made.deps.tag == recipe().deps.tag
    assert made.code.secrets == ()


def test_recipe_without_registry_has_a_local_name() -> None:
    made = recipe(replace(OPTIONS, registry=None))
    assert repository_of(replace(OPTIONS, registry=None)) is None
    assert made.repository == local_name("post_training") == "localhost/xsft/post-training"


def test_image_labels_state_its_kind_and_tag() -> None:
    made = recipe()
    lock = material().deps.files[1].sha256
    both = {"dev.xsft.image": "post_training", "dev.xsft.maxtext.version": "0.2.5", "dev.xsft.lock.sha256": lock}
    assert made.deps.labels == {**both, "dev.xsft.kind": "deps", "dev.xsft.tag": made.deps.tag}
    assert made.code.labels == {**both, "dev.xsft.kind": "code", "dev.xsft.tag": made.code.tag}


def test_differing_labels_are_named_and_other_labels_ignored() -> None:
    step = recipe().code
    assert differs(step, {**step.labels, "maintainer": "somebody"}) == ""
    assert differs(step, {}) == "it has no label dev.xsft.image"
    assert differs(step, recipe().deps.labels) == "its label dev.xsft.kind is 'deps', not 'code'"
    assert len(differs(step, {**step.labels, "dev.xsft.tag": "x" * 9999})) < 200


def made(rows: list[tuple[str, bytes, bool]]) -> tuple[ContextFile, ...]:
    return tuple(file(path, content, executable=executable) for path, content, executable in rows)


def deps(files: tuple[ContextFile, ...], args: dict[str, str], **told: object) -> str:
    return content_tag("deps", files, args=args, **told)


@given(FILES, ARGS, st.randoms())
def test_content_tag_ignores_order_and_source_paths(rows, args, chance) -> None:
    files = list(made(rows))
    shuffled = [replace(f, source="/elsewhere") for f in files]
    chance.shuffle(shuffled)
    assert deps(tuple(files), args) == deps(tuple(shuffled), dict(reversed(args.items())))
    assert re.fullmatch(r"deps-[0-9a-f]{20}", deps(tuple(files), args))


@given(FILES, FILES)
def test_content_tag_changes_with_any_difference_of_files(one, other) -> None:
    assume(sorted(one) != sorted(other))
    assert deps(made(one), {}) != deps(made(other), {})


@given(ARGS, ARGS)
def test_content_tag_changes_with_any_difference_of_arguments(one, other) -> None:
    assume(one != other)
    assert deps((), one) != deps((), other)


def test_content_tag_changes_with_kind_mode_target_base_and_labels() -> None:
    link = ContextFile(path="a", kind="link", target="b")
    tags = {
        deps((), {}),
        deps((), {}, base="b"),
        deps((), {}, base="c"),
        deps((), {}, labels={"a": "b"}),
        deps((link,), {}),
        deps((replace(link, target="c"),), {}),
        deps((ContextFile(path="a", kind="folder"),), {}),
        deps((file("a", b"x"),), {}),
        deps((file("a", b"x", executable=True),), {}),
        content_tag("code", (), args={}),
    }
    assert len(tags) == 10


def test_recipe_tag_changes_with_dockerfile_base_labels_and_arguments() -> None:
    plain, parts = recipe(), material()
    tags = {
        plain.deps.tag,
        recipe(deps=replace(parts.deps, dockerfile="other")).deps.tag,
        recipe(deps=replace(parts.deps, args={})).deps.tag,
        recipe(base=Base(ref="python:3.12-slim", image_id="sha256:1")).deps.tag,
        recipe(packages={"jax": "0.11.0"}).deps.tag,
    }
    assert len(tags) == 5
    assert recipe(code=replace(parts.code, dockerfile="other")).code.tag != plain.code.tag
