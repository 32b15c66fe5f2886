"""The digest of the base image, and the registry that is asked for it."""

from __future__ import annotations

import pytest

from tests.fakes.dockers import FakeDocker, FakeRegistry
from tests.image.materials import DIGEST
from tests.image.test_lock import LOCKED
from tests.replacing import replace
from xsft.base.errors import EnvironmentMissing, Refused, Unreachable
from xsft.effects.images.base import resolve_base
from xsft.image.model import Base, LockedImage

OTHER = "sha256:" + "cd" * 32
REF = "python:3.12-slim"


def resolved(
    ref: str | None = REF, *, pinned: Base | None = None, held: tuple[LockedImage, ...] = (),
    docker: FakeDocker | None = None, again: bool = False, **registry: object,
) -> Base | None:  # fmt: skip
    asked = FakeRegistry(**registry)  # type: ignore[arg-type]
    engine = docker or FakeDocker(asked)
    return resolve_base(ref, pinned=pinned, held=held, docker=lambda: engine, registry=asked, again=again)


PINNED = Base(ref=REF, digest=DIGEST)


@pytest.mark.parametrize("ref", [REF, f"{REF}@{DIGEST}"])
def test_the_pinned_base_is_used_without_requests(ref: str) -> None:
    docker = FakeDocker(FakeRegistry(), bases={REF: Base(ref=REF, digest=OTHER)})
    assert resolved(ref, pinned=PINNED, docker=docker, down=True) == PINNED


@pytest.mark.parametrize("ref", ["python:3.13", "other/python:3.12-slim", f"{REF}@{OTHER}"])
def test_a_base_other_than_the_pinned_one_needs_update_base(ref: str) -> None:
    with pytest.raises(Refused) as refused:
        resolved(ref, pinned=PINNED, images={ref: OTHER})
    assert (refused.value.problem_id, "--update-base" in refused.value.fix) == ("image-base-differs", True)
    found = resolved(ref, pinned=PINNED, images={ref: OTHER}, again=True)
    assert found == Base(ref=ref.partition("@")[0], digest=OTHER)


def no_engine() -> FakeDocker:
    raise EnvironmentMissing("no engine", id="docker-not-running")


def test_a_base_with_a_digest_needs_no_request() -> None:
    assert resolved(f"{REF}@{OTHER}", down=True) == Base(ref=REF, digest=OTHER)


def test_a_tag_keeps_its_locked_digest_until_update_base() -> None:
    assert resolved(held=(LOCKED,), down=True) == Base(ref=REF, digest=DIGEST)
    assert resolved(held=(LOCKED,), images={REF: OTHER}, again=True) == Base(ref=REF, digest=OTHER)
    assert resolved("python:3.13", held=(LOCKED,), images={"python:3.13": OTHER}) == Base(
        ref="python:3.13", digest=OTHER
    )


def test_the_engine_is_asked_before_the_registry() -> None:
    local = Base(ref=REF, image_id="sha256:1")
    docker = FakeDocker(FakeRegistry(), bases={REF: local})
    assert resolved(docker=docker, images={REF: OTHER}) == local


def test_a_base_known_only_to_the_engine_is_resolved_each_time() -> None:
    held = replace(LOCKED, base=f"{REF}#sha256:1")
    docker = FakeDocker(FakeRegistry(), bases={REF: Base(ref=REF, image_id="sha256:2")})
    found = resolved(held=(held,), docker=docker)
    assert found is not None
    assert found.image_id == "sha256:2"


def test_without_an_engine_the_registry_is_asked_and_a_missing_base_is_an_error() -> None:
    registry = FakeRegistry(images={REF: OTHER})
    assert resolve_base(REF, pinned=None, held=(), docker=no_engine, registry=registry, again=False) == Base(
        ref=REF, digest=OTHER
    )
    with pytest.raises(EnvironmentMissing, match="neither in the engine nor in its registry"):
        resolved()
    with pytest.raises(Unreachable):
        resolved(down=True)


def test_unreachable_engine_and_registry_are_both_reported_engine_first() -> None:
    with pytest.raises(EnvironmentMissing) as missing:
        resolve_base(REF, pinned=None, held=(), docker=no_engine, registry=FakeRegistry(down=True), again=False)
    assert [problem.id for problem in missing.value.problems] == ["docker-not-running", "registry-unreachable"]


def test_a_dockerfile_without_a_base_has_none() -> None:
    assert resolved(None, down=True) is None
