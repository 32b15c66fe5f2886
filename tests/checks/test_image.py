"""Images are pinned by digest and match their lock."""

from __future__ import annotations

import pytest

from tests.checks.factory import DROP, ids, problems, run_of, spec
from tests.replacing import replace
from xsft.base.acceptance import accept_problems, for_submission
from xsft.checks.facts import Facts
from xsft.checks.image import check
from xsft.checks.subjects import late_ids
from xsft.image.reference import tag_of
from xsft.spec.digest import spec_digest
from xsft.spec.facts import ImageFacts

DIGEST = "@sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("ref", "expected"),
    [
        ("registry.example.com/team/image" + DIGEST, set()),
        ("registry.example.com/team/image:v1" + DIGEST, set()),
        ("registry.example.com/team/image:v1", {"image-not-pinned"}),
        ("registry.example.com/team/image:latest", {"image-not-pinned"}),
        ("registry.example.com/team/image", {"image-untagged"}),
        ("localhost:5000/image", {"image-untagged"}),
        ("localhost:5000/image:v1", {"image-not-pinned"}),
        ("python", {"image-untagged"}),
        ("python:3.12", {"image-not-pinned"}),
        (DROP, {"image-missing"}),
    ],
)
def test_image_without_a_digest_is_reported(ref: object, expected: set[str]):
    assert ids(check, spec(image={"ref": ref})) == expected
    assert ids(check, spec(image={"ref": ref}, target="local")) == set()


PUSHED = ImageFacts(name="mine", repository="us-docker.pkg.dev/p/r/mine", digest=DIGEST[1:], maxtext="0.2.5")
NEVER = ImageFacts(name="mine", repository="us-docker.pkg.dev/p/r/mine")


@pytest.mark.parametrize(
    ("image_facts", "expected"),
    [
        (PUSHED, set()),
        (replace(PUSHED, stale=False), set()),
        (replace(PUSHED, stale=True), {"image-stale"}),
        (replace(PUSHED, maxtext="0.2.4"), {"image-maxtext-differs"}),
        (NEVER, {"image-not-pushed"}),
        (None, {"image-not-pushed"}),
        (ImageFacts(name="mine", there=False, others=("mine2",)), {"image-unknown"}),
        (ImageFacts(name="mine", lock_problem="it is not JSON"), {"image-lock-unreadable"}),
    ],
    ids=["pushed", "current", "stale", "other MaxText", "never pushed", "no facts", "unknown name", "unreadable lock"],
)
def test_named_image_must_match_its_lock(image_facts: ImageFacts | None, expected: set[str]):
    named = spec(image={"name": "mine", "ref": DROP, "maxtext": "0.2.5"})
    assert ids(check, named, Facts(image=image_facts)) == expected
    assert ids(check, spec(image={"name": "mine", "ref": DROP}, target="local"), Facts(image=image_facts)) == expected


def test_a_named_image_resolves_to_its_digest_and_brings_its_maxtext():
    run = run_of(
        spec(image={"name": "mine", "ref": DROP, "maxtext": DROP}), Facts(image=replace(PUSHED, maxtext="0.2.4"))
    )
    assert run.spec.image.ref == f"us-docker.pkg.dev/p/r/mine{DIGEST}"
    assert (run.spec.image.maxtext, run.release.version) == ("0.2.4", "0.2.4")
    written = run_of(spec(image={"ref": run.spec.image.ref, "maxtext": "0.2.4"}))
    assert spec_digest(run) == spec_digest(written)


def test_image_that_was_not_pushed_is_refused_at_submission():
    facts = Facts(image=NEVER)
    named = spec(image={"name": "mine", "ref": DROP})
    assert run_of(named, facts).spec.image.ref == "us-docker.pkg.dev/p/r/mine:not-pushed"
    reported = accept_problems(problems(check, named, facts), {"image-not-pushed": "it will be"})
    assert [(p.id, p.severity) for p in for_submission(reported)] == [
        ("image-not-pushed", "error"),
        ("checks-not-accepted", "warning"),
    ]
    assert not any("(accepted:" in p.message for p in reported)


def test_image_name_and_reference_together_are_refused():
    assert "image-twice" in ids(check, spec(image={"name": "mine"}), Facts(image=PUSHED))


def test_a_tag_is_refused_at_submission_unless_it_is_accepted():
    reported = problems(check, spec(image={"ref": "registry.example.com/team/image:v1"}))
    assert [p.severity for p in reported] == ["warning"]
    assert [p.severity for p in for_submission(reported)] == ["error"]
    accepted = accept_problems(reported, {"image-not-pinned": "our tags do not move"})
    assert [p.severity for p in for_submission(accepted)] == ["note"]


def test_gcr_registry_is_reported_with_its_successor():
    (problem,) = problems(check, spec(image={"ref": f"gcr.io/my-project/image{DIGEST}"}))
    assert problem.id == "image-legacy-registry"
    assert "us-docker.pkg.dev/my-project/gcr.io/image" in problem.fix


def test_an_error_about_the_image_may_be_accepted_and_others_may_not():
    facts = Facts(image=replace(PUSHED, maxtext="0.2.4"))
    named = spec(image={"name": "mine", "ref": DROP, "maxtext": "0.2.5"})
    reasons = {"image-maxtext-differs": "same layout", "image-missing": "no"}
    reported = accept_problems((*problems(check, named, facts), *problems(check, spec(image={"ref": DROP}))), reasons)
    assert [(p.id, p.severity) for p in reported] == [
        ("image-maxtext-differs", "note"),
        ("image-missing", "error"),
        ("checks-not-accepted", "warning"),
    ]


def test_acceptance_of_a_submission_problem_is_not_reported_as_unused():
    assert accept_problems((), {"image-not-found": "a mirror"}, late=late_ids) == ()


def test_tag_of_ignores_the_port_of_the_registry():
    assert tag_of("localhost:5000/image") is None
    assert tag_of("localhost:5000/image:v1" + DIGEST) == "v1"
