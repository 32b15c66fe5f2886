"""The image lock: pushed digests for each repository, and unknown keys that are kept."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.image.materials import DIGEST, OPTIONS
from tests.replacing import replace
from xsft.image.lock import (
    SCHEMA,
    LockedImage,
    last_options,
    read_base,
    read_lock,
    same_image,
    update_lock,
    with_base,
)
from xsft.image.options import BuildOptions
from xsft.image.recipe import Base

LOCKED = LockedImage(
    image="post_training",
    repository="127.0.0.1:5000/team/post-training",
    digest=DIGEST,
    maxtext="0.2.5",
    deps="deps-1",
    deps_digest="sha256:" + "cd" * 32,
    code="code-1",
    pushed_at="2026-11-21T10:00:00+00:00",
    commit="1" * 40,
    dirty=False,
    base=f"python:3.12-slim@{DIGEST}",
    options=BuildOptions(image="post_training", maxtext="0.2.5", code=("extra",), args={"APT_PACKAGES": "git"}),
)
TEXT = st.text(max_size=5)


@given(TEXT, TEXT, st.none() | st.booleans(), st.none() | st.tuples(TEXT))
def test_written_lock_is_read_back(deps: str, commit: str, dirty: bool | None, code: tuple[str] | None) -> None:
    options = replace(LOCKED.options, code=code) if code and LOCKED.options else None
    locked = replace(LOCKED, deps=deps, commit=commit or None, dirty=dirty, options=options)
    assert read_lock(update_lock(None, locked)) == {locked.repository: locked}


TEXT_OF_LOCKED = """\
{
 "base": "python:3.12-slim@sha256:<ab>",
 "image": "post_training",
 "images": {
  "127.0.0.1:5000/team/post-training": {
   "base": "python:3.12-slim@sha256:<ab>",
   "code": "code-1",
   "commit": "1111111111111111111111111111111111111111",
   "deps": "deps-1",
   "deps_digest": "sha256:<cd>",
   "digest": "sha256:<ab>",
   "dirty": false,
   "maxtext": "0.2.5",
   "options": {
    "args": {
     "APT_PACKAGES": "git"
    },
    "code": [
     "extra"
    ],
    "maxtext": "0.2.5",
    "maxtext_source": "pypi",
    "tunix_source": "pypi"
   },
   "pushed_at": "2026-11-21T10:00:00+00:00"
  }
 },
 "schema": "xsft.image-lock/1"
}
"""
"""Users commit it: a change of its form would be a change in their repositories."""


def test_lock_has_its_documented_text() -> None:
    text = TEXT_OF_LOCKED.replace("<ab>", "ab" * 32).replace("<cd>", "cd" * 32)
    base = Base(ref="python:3.12-slim", digest=DIGEST)
    assert update_lock(with_base(None, image="post_training", base=base), LOCKED) == text
    assert with_base(update_lock(None, LOCKED), image="post_training", base=base) == text
    assert (read_base(text), read_lock(text)) == (base, {LOCKED.repository: LOCKED})
    alone = json.loads(with_base(None, image="post_training", base=base))
    assert alone == {"base": base.pinned, "image": "post_training", "images": {}, "schema": SCHEMA}


def test_a_base_without_a_digest_is_not_pinned() -> None:
    text = with_base(None, image="post_training", base=Base(ref="mine:1"))
    assert (read_base(text), read_lock(text)) == (None, {})
    assert read_lock(json.dumps({"schema": SCHEMA, "images": ["a"]})) == {}


def test_each_repository_has_a_row_and_the_text_is_canonical() -> None:
    other = replace(LOCKED, repository="us-docker.pkg.dev/p/xsft/post-training")
    one = update_lock(update_lock(None, LOCKED), other)
    assert one == update_lock(update_lock(None, other), LOCKED)
    assert read_lock(one) == {found.repository: found for found in (LOCKED, other)}
    assert update_lock(one, LOCKED) == one
    assert one.endswith("}\n")


def test_unknown_keys_of_a_later_xsft_are_kept_and_ignored() -> None:
    document = json.loads(update_lock(None, LOCKED))
    document["signed"] = "yes"
    document["images"]["elsewhere/x"] = {"digest": "none yet"}
    row = document["images"][LOCKED.repository]
    row["options"]["sparse"] = True
    text = json.dumps(document)
    assert read_lock(text) == {LOCKED.repository: replace(LOCKED, options=None)}
    written = json.loads(update_lock(text, replace(LOCKED, repository="third/x")))
    assert written["signed"] == "yes"
    assert written["images"]["elsewhere/x"] == {"digest": "none yet"}
    assert written["images"][LOCKED.repository] == row


@pytest.mark.parametrize("key", ["digest", "maxtext", "deps", "pushed_at"])
def test_row_without_a_required_key_is_ignored(key: str) -> None:
    document = json.loads(update_lock(None, LOCKED))
    del document["images"][LOCKED.repository][key]
    assert read_lock(json.dumps(document)) == {}


@pytest.mark.parametrize(("key", "value"), [("digest", "latest"), ("base", 7), ("dirty", "yes"), ("commit", 7)])
def test_row_with_a_value_of_a_wrong_type_is_ignored(key: str, value: object) -> None:
    document = json.loads(update_lock(None, LOCKED))
    document["images"][LOCKED.repository][key] = value
    assert read_lock(json.dumps(document)) == {}


@pytest.mark.parametrize("options", [7, {"code": "extra"}, {"args": ["A"]}, {"vllm": 1}])
def test_options_with_a_value_of_a_wrong_type_are_unknown(options: object) -> None:
    document = json.loads(update_lock(None, LOCKED))
    document["images"][LOCKED.repository]["options"] = options
    assert read_lock(json.dumps(document)) == {LOCKED.repository: replace(LOCKED, options=None)}


@pytest.mark.parametrize("digest", [None, "", "latest", "sha256:12", 7, "sha256:" + "cd" * 32 + " x"])
def test_invalid_digest_of_the_dependencies_is_ignored(digest: object) -> None:
    """Locks of an earlier xsft have none either."""
    document = json.loads(update_lock(None, LOCKED))
    document["images"][LOCKED.repository]["deps_digest"] = digest
    assert read_lock(json.dumps(document)) == {LOCKED.repository: replace(LOCKED, deps_digest=None)}


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"schema": "xsft.record/1"}', "[" * 100_000])
def test_text_that_is_no_lock_raises_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"it |invalid JSON"):
        read_lock(text)


@pytest.mark.parametrize("repository", ["a.dev/x;id", "a.dev/x $(id)", "a.dev/x:v1", "x", "A.dev/x", "a.dev/../x"])
def test_row_with_an_invalid_repository_is_ignored(repository: str) -> None:
    text = update_lock(update_lock(None, LOCKED), replace(LOCKED, repository=repository))
    assert read_lock(text) == {LOCKED.repository: LOCKED}


def test_updated_refuses_a_later_lock_version_and_an_invalid_digest() -> None:
    later = json.dumps({**json.loads(update_lock(None, LOCKED)), "schema": "xsft.image-lock/2"})
    assert read_lock(later)
    with pytest.raises(ValueError, match="its version is"):
        update_lock(later, LOCKED)
    with pytest.raises(ValueError, match="not a digest"):
        update_lock(None, replace(LOCKED, digest="sha256:12"))
    assert SCHEMA in update_lock(None, LOCKED)


def test_same_image_ignores_time_and_commit() -> None:
    assert same_image(LOCKED, replace(LOCKED, pushed_at="later", commit=None, dirty=True))
    assert not same_image(LOCKED, replace(LOCKED, digest="sha256:" + "0" * 64))
    assert not same_image(LOCKED, replace(LOCKED, deps_digest=None))


def test_lock_options_hold_no_registry_and_no_local_file() -> None:
    options = replace(OPTIONS, pip_config="/home/me/pip.conf")
    text = update_lock(None, replace(LOCKED, options=options))
    assert "/home/me" not in text
    assert "registry" not in text


def test_options_are_those_of_the_repository_else_of_the_last_push() -> None:
    other = replace(LOCKED, repository="a.dev/p/r", pushed_at="2027-01-01T00:00:00+00:00", options=None)
    images = {locked.repository: locked for locked in (LOCKED, other)}
    assert last_options(images, LOCKED.repository) == LOCKED
    assert last_options(images, "b.dev/p/r") == last_options(images, None) == other
    assert last_options({}, "b.dev/p/r") is None
