"""The image lock: pushed digests for each repository, and unknown keys that are kept."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.image.materials import DIGEST
from tests.replacing import replace
from xsft.image.lock import SCHEMA, Lock, LockedImage, read_lock, update_lock
from xsft.image.options import BuildOptions

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
    options=BuildOptions(
        maxtext="0.2.5",
        maxtext_source="pypi",
        tunix_source="pypi",
        code=("extra",),
        args={"APT_PACKAGES": "git"},
    ),
)
TEXT = st.text(max_size=5)


def text_of(*entries: LockedImage, text: str | None = None) -> str:
    for locked in entries:
        text = update_lock(text, locked) or text
    assert text
    return text


@given(TEXT, TEXT, st.none() | st.booleans(), st.none() | st.tuples(TEXT))
def test_written_lock_is_read_back(deps: str, commit: str, dirty: bool | None, code: tuple[str] | None) -> None:
    options = replace(LOCKED.options, code=code) if code and LOCKED.options else None
    locked = replace(LOCKED, deps=deps, commit=commit or None, dirty=dirty, options=options)
    assert read_lock(text_of(locked)).images == {locked.repository: locked}


TEXT_OF_LOCKED = """\
{
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
    assert text_of(LOCKED) == text
    assert read_lock(text) == Lock(images={LOCKED.repository: LOCKED})


def test_a_base_that_an_earlier_xsft_pinned_is_read_and_kept() -> None:
    text = json.dumps({"schema": SCHEMA, "base": LOCKED.base, "image": "post_training", "images": ["a"]})
    assert read_lock(text) == Lock(base=LOCKED.base)
    assert read_lock(text_of(LOCKED, text=text)) == Lock(base=LOCKED.base, images={LOCKED.repository: LOCKED})


def test_each_repository_has_a_row_and_the_text_is_canonical() -> None:
    other = replace(LOCKED, repository="us-docker.pkg.dev/p/xsft/post-training")
    text = text_of(LOCKED, other)
    assert text == text_of(other, LOCKED)
    assert read_lock(text).images == {locked.repository: locked for locked in (LOCKED, other)}
    assert text.endswith("}\n")


def test_unknown_keys_of_a_later_xsft_are_kept_and_ignored() -> None:
    document = json.loads(text_of(LOCKED))
    document["signed"] = "yes"
    document["images"]["elsewhere/x"] = {"digest": "none yet"}
    row = document["images"][LOCKED.repository]
    row["options"]["sparse"] = True
    text = json.dumps(document)
    assert read_lock(text).images == {LOCKED.repository: replace(LOCKED, options=None)}
    written = json.loads(text_of(replace(LOCKED, repository="third.dev/x"), text=text))
    assert written["signed"] == "yes"
    assert written["images"]["elsewhere/x"] == {"digest": "none yet"}
    assert written["images"][LOCKED.repository] == row


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *((key, None) for key in ("digest", "maxtext", "deps", "pushed_at")),
        *(("digest", "latest"), ("base", 7), ("dirty", "yes"), ("commit", 7), ("deps_digest", "latest")),
    ],
)
def test_row_without_a_required_key_or_with_a_wrong_type_is_ignored(key: str, value: object) -> None:
    assert changed_lock(**{key: value}).images == {}


@pytest.mark.parametrize("options", [7, {"code": "extra"}, {"args": ["A"]}, {"vllm": 1}])
def test_options_with_a_value_of_a_wrong_type_are_unknown(options: object) -> None:
    assert changed_lock(options=options).images == {LOCKED.repository: replace(LOCKED, options=None)}


def changed_lock(**fields: object) -> Lock:
    """Return the lock with other fields in its row; None: without that field."""
    document = json.loads(text_of(LOCKED))
    row = {**document["images"][LOCKED.repository], **fields}
    document["images"][LOCKED.repository] = {name: field for name, field in row.items() if field is not None}
    return read_lock(json.dumps(document))


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"schema": "xsft.record/1"}', "[" * 100_000])
def test_text_that_is_no_lock_raises_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"it |invalid JSON"):
        read_lock(text)


@pytest.mark.parametrize("repository", ["a.dev/x;id", "a.dev/x $(id)", "a.dev/x:v1", "x", "A.dev/x", "a.dev/../x"])
def test_row_with_an_invalid_repository_is_ignored(repository: str) -> None:
    text = text_of(LOCKED, replace(LOCKED, repository=repository))
    assert read_lock(text).images == {LOCKED.repository: LOCKED}


def test_a_later_lock_version_is_read_and_not_written() -> None:
    later = json.dumps({**json.loads(text_of(LOCKED)), "schema": "xsft.image-lock/2"})
    assert read_lock(later).images
    with pytest.raises(ValueError, match="its version is"):
        update_lock(later, LOCKED)


def test_a_lock_is_not_written_for_another_time_or_commit() -> None:
    text = text_of(LOCKED)
    assert update_lock(text, replace(LOCKED, pushed_at="later", commit=None, dirty=True)) is None
    assert update_lock(text, replace(LOCKED, digest="sha256:" + "0" * 64))
    assert update_lock(text, replace(LOCKED, deps_digest=None))


def test_options_are_those_of_the_repository_else_of_the_last_push() -> None:
    other = replace(LOCKED, repository="a.dev/p/r", pushed_at="2027-01-01T00:00:00+00:00", options=None)
    lock = Lock(images={locked.repository: locked for locked in (LOCKED, other)})
    assert lock.last_push(LOCKED.repository) == LOCKED
    assert lock.last_push("b.dev/p/r") == lock.last_push(None) == other
    assert Lock().last_push("b.dev/p/r") is None
