"""Options and files give an image's recipe, with tags that depend on their content."""

from __future__ import annotations

import re

from hypothesis import assume, given
from hypothesis import strategies as st

from tests.image.materials import CODE, CONTEXT, DECLARED, DIGEST, OPTIONS, REGISTRY, file, recipe
from tests.replacing import replace
from xsft.image.context import ContextFile
from xsft.image.recipe import content_tag, registry_of_repository

NAMES = st.text("ab/.é\udcff", min_size=1, max_size=4)
FILES = st.lists(st.tuples(NAMES, st.binary(max_size=4), st.booleans()), max_size=5, unique_by=lambda row: row[0])
ARGS = st.dictionaries(st.sampled_from(["A", "B"]), st.text(max_size=3))


def test_recipe_has_the_arguments_and_labels_of_the_dependencies() -> None:
    start_recipe = recipe()
    lock = CONTEXT[1].sha256
    assert start_recipe.repository == "127.0.0.1:5000/team/post-training"
    assert registry_of_repository(start_recipe.repository, start_recipe.image) == REGISTRY
    assert start_recipe.deps.args == {
        "BASE_DIGEST": DIGEST,
        "BASE_IMAGE": f"python:3.12-slim@{DIGEST}",
        "LOCK_SHA256": lock,
        "MAXTEXT_VERSION": "0.2.5",
    }
    assert start_recipe.deps.labels == {
        "dev.xsft.image": "post_training",
        "dev.xsft.kind": "deps",
        "dev.xsft.lock.sha256": lock,
        "dev.xsft.maxtext.version": "0.2.5",
        "dev.xsft.tag": start_recipe.deps.tag,
    }
    assert (start_recipe.deps.files, start_recipe.code.files, start_recipe.code.user) == (CONTEXT, CODE, "0:0")


def test_dockerfile_gets_only_the_arguments_that_it_declares() -> None:
    options = replace(OPTIONS, vllm="vllm==0.11.0", args={"APT_PACKAGES": "git", "RUN_AS": "1:2"})
    declared = dict.fromkeys(("VLLM_REQUIREMENT", "APT_PACKAGES", "BASE_DIGEST"))
    start_recipe = recipe(options, arguments=declared, base="")
    assert start_recipe.deps.args == {"VLLM_REQUIREMENT": "vllm==0.11.0", "APT_PACKAGES": "git"}
    assert start_recipe.code.user == "1:2"
    assert (
        start_recipe.code.tag
        != recipe(replace(options, args={"APT_PACKAGES": "git"}), arguments=declared, base="").code.tag
    )


def test_packages_label_lists_locked_packages_that_no_argument_replaces() -> None:
    packages = {"jax": "0.11.0", "maxtext": "0.2.5", "google-tunix": "0.1.6", "numpy": "2.0"}
    names = ("MAXTEXT_REQUIREMENT", "TUNIX_REQUIREMENT")
    label = "dev.xsft.packages"
    assert recipe(packages=packages).deps.labels[label] == "google-tunix==0.1.6 jax==0.11.0 maxtext==0.2.5"
    for name, remaining in zip(names, ("google-tunix==0.1.6 jax==0.11.0", "jax==0.11.0 maxtext==0.2.5"), strict=True):
        options = replace(OPTIONS, args={name: "x @ https://example.com/x.whl"})
        assert recipe(options, arguments=dict.fromkeys(names), packages=packages).deps.labels[label] == remaining
    unlocked = recipe(context=(file("Dockerfile"),))
    assert {label, "dev.xsft.lock.sha256"} & unlocked.deps.labels.keys() == set()
    assert "LOCK_SHA256" not in unlocked.deps.args


def test_a_tag_is_the_same_in_every_release() -> None:
    """Another one would let everyone build and push what their registry has, and call their locks stale."""
    assert recipe().deps.tag == "deps-3f795c03198340f6a458"
    assert recipe().code.tag == "code-b2c1bcb2a6413f9b7d7a"


def test_code_changes_one_tag_and_dependencies_change_both() -> None:
    plain = recipe()
    edited = recipe(code=(file("code/hooks.py", b"print(2)"), CODE[1]))
    assert edited.deps.tag == plain.deps.tag
    assert edited.code.tag != plain.code.tag
    rebased = recipe(base=f"python:3.12-slim@sha256:{'cd' * 32}")
    assert rebased.deps.tag != plain.deps.tag
    assert rebased.code.tag != plain.code.tag


def test_base_without_digest_is_identified_by_its_image_id() -> None:
    first, other = (recipe(base=f"base:1#sha256:{n}") for n in "12")
    assert first.deps.args["BASE_IMAGE"] == "base:1"
    assert "BASE_DIGEST" not in first.deps.args
    assert first.deps.tag != other.deps.tag


def test_recipe_without_registry_has_local_names_only() -> None:
    start_recipe = recipe(registry=None)
    assert start_recipe.repository is None
    assert start_recipe.local("code-1") == "localhost/xsft/post-training:code-1"


def made(rows: list[tuple[str, bytes, bool]]) -> tuple[ContextFile, ...]:
    return tuple(file(path, content, executable=executable) for path, content, executable in rows)


def deps(files: tuple[ContextFile, ...], args: dict[str, str], **inputs: object) -> str:
    return content_tag("deps", files, args=args, **inputs)


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


def test_content_tag_changes_with_kind_mode_target_base_and_labels() -> None:
    link = ContextFile(path="a", kind="link", target="b")
    tags = {
        deps((), {}),
        deps((), {"A": "1"}),
        deps((), {"A": "2"}),
        deps((), {}, base="b"),
        deps((), {}, labels={"a": "b"}),
        deps((link,), {}),
        deps((replace(link, target="c"),), {}),
        deps((file("a", b"x"),), {}),
        deps((file("a", b"x", executable=True),), {}),
        content_tag("code", (), args={}),
        recipe().deps.tag,
        recipe(packages={"jax": "0.11.0"}).deps.tag,
        recipe(arguments={**DECLARED, "MAXTEXT_VERSION": None, "BASE_IMAGE": None}, base="").deps.tag,
    }
    assert len(tags) == 13
