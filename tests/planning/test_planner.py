"""Spec and facts to intent to plan, and the laws of the audit over whole manifests.

The manifests are the golden ones: tests/test_workloads.py compares them with what the real xpk renders.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import yaml

from tests.everything import EVERYTHING, changed, everything, leaves, other
from tests.goldens import FOLDER
from tests.replacing import replace
from tests.stories import intent_of, spec_of
from xsft.base.pointers import MISSING, find_pointer
from xsft.checks.facts import Facts
from xsft.launcher.audit import ArgumentOutcome, audit
from xsft.launcher.patch import apply
from xsft.planning.planner import make_intent, make_plan
from xsft.planning.steps import Intent
from xsft.spec.model import WorkloadSpec
from xsft.spec.yamltext import load_yaml

Manifest = dict[str, Any]

KEPT = tuple(sorted(file.name.partition(".")[0] for file in FOLDER.glob("*.manifest.yaml")))

NO_PLACE = {
    "target": "decides whether there is a manifest at all",
    "place.project": "where the manifest is created, not what is in it",
    "place.zone": "where the manifest is created",
    "place.cluster": "where the manifest is created",
    "place.context": "where the manifest is created",
    "place.registry": "where images are pushed",
    "place.chip_hour_price": "what a run costs, not what it does",
    "image.name": "the image is known by its digest",
    "model.hf.repo": "an argument of the conversion, which runs before",
    "model.hf.revision": "an argument of the conversion",
    "data.chat_template": "the file's content is in the command, not its name",
    "data.rows": "what the user knows about the data; a check reads it",
    "checks": "which warnings are accepted",
    **{path: "read by another stage" for path in leaves() if path.startswith("stages.")},
}
"""Fields that a manifest cannot hold."""

SHADOWED = {
    "place.output": {"output": None},
    "place.queue": {"queue": None},
    "place.namespace": {"namespace": None},
    "place.pathways.proxy_image": {"pathways.proxy_image": None},
    "place.pathways.server_image": {"pathways.server_image": None},
    "place.pathways.scratch": {"pathways.scratch": None},
    "model.hf.converted": {"model.checkpoint": None},
    "tpu.capacity": {"tpu.reservation": None},
}
"""Fields that act where another one is not set."""

PATHWAYS_ONLY = {path for path in leaves() if path.startswith(("pathways.", "place.pathways."))}
"""Pathways' servers do not exist in McJAX; a check says so."""


def test_at_least_three_golden_manifests_exist() -> None:
    assert len(KEPT) >= 3


# The audit notices everything


@pytest.mark.parametrize(
    ("path", "mode"),
    [
        (path, mode)
        for path in sorted(set(leaves()) - set(NO_PLACE))
        for mode in ("mcjax", "pathways")
        if mode == "pathways" or path not in PATHWAYS_ONLY
    ],
)
def test_every_field_has_an_expectation(path: str, mode: str) -> None:
    """Changing a field changes what the manifest must hold, somewhere else than in the digest."""
    base = changed(EVERYTHING, {"mode": mode, **SHADOWED.get(path, {})})
    after = everything(mode="mcjax") if path == "mode" and mode == "pathways" else other(path, base)
    assert _expected_before(json.dumps(base)) != _expected(after)


@cache
def _expected_before(base: str) -> dict[str, Any]:
    return _expected(WorkloadSpec.model_validate_json(base))


@pytest.mark.parametrize("path", sorted(NO_PLACE))
def test_a_field_without_a_place_changes_no_expectation(path: str) -> None:
    assert path == "target" or _expected_of_everything() == _expected(other(path))


@cache
def _expected_of_everything() -> dict[str, Any]:
    return _expected(everything())


def _expected(spec: WorkloadSpec) -> dict[str, Any]:
    intent = make_intent(spec, Facts())
    return {f"{e.field} {e.path}": e.value for e in intent.expectations if e.field != "spec_digest"}


@pytest.mark.parametrize("mode", ["mcjax", "pathways"])
def test_every_patch_is_audited(mode: str) -> None:
    """A patch that went missing would be noticed; but for who manages the JobSet, which no field asks for."""
    intent = make_intent(everything(mode=mode), Facts())
    managed_by = ("metadata", "labels", "app.kubernetes.io/managed-by")
    put = [change.path for change in intent.changes if change.action == "put" and change.path != managed_by]
    audited = [expectation.path for expectation in intent.expectations]
    assert [path for path in put if not any(a[: len(path)] == path for a in audited)] == []


@pytest.mark.parametrize("name", KEPT)
def test_the_golden_manifest_meets_every_expectation(name: str) -> None:
    assert set(_outcomes(_intent(name), _manifest(name)).values()) == {"landed"}


def _take_away(parent: Any, key: Any) -> None:
    del parent[key]


def _put_another(parent: Any, key: Any) -> None:
    parent[key] = _another(parent[key])


def _put_another_type(parent: Any, key: Any) -> None:
    parent[key] = str(parent[key]) if isinstance(parent[key], int) else [parent[key]]


def _another(value: Any) -> Any:
    match value:
        case str():
            return value + "x"
        case int():
            return value + 1
        case dict():
            return {}
        case _:
            return []


TAMPERINGS: tuple[Callable[[Any, Any], None], ...] = (_take_away, _put_another, _put_another_type)


@pytest.mark.parametrize("name", KEPT)
@pytest.mark.parametrize("tamper", TAMPERINGS, ids=lambda f: f.__name__.strip("_"))
def test_the_audit_reports_every_tampering_with_a_manifest(name: str, tamper: Callable[[Any, Any], None]) -> None:
    """Whatever the audit names, field by field: taken away or changed, the audit says so and the plan is not ok."""
    intent, manifest = _intent(name), _manifest(name)
    for expectation in intent.expectations:
        pointer, _ = find_pointer(manifest, expectation.path)
        tampered = copy.deepcopy(manifest)
        _at(tampered, pointer, tamper)
        rows = audit(intent.expectations, rendered=manifest, manifest=tampered)
        hit = [row for row in rows if row.outcome in ("dropped", "altered")]
        assert expectation.field in {row.field for row in hit}, pointer
        assert all(_touches(row.where, pointer) for row in hit), pointer


@pytest.mark.parametrize("name", KEPT)
def test_the_audit_reports_a_changed_command(name: str) -> None:
    """In the wrapper that xpk puts around it, any other word is another command."""
    intent, manifest = _intent(name), _manifest(name)
    text = yaml.safe_dump(manifest).replace("steps=", "stepz=")
    rows = audit(intent.expectations, rendered=manifest, manifest=load_yaml(text))
    assert [(r.field, r.outcome) for r in rows if r.outcome != "landed"] == [("command", "altered")]


def test_a_field_that_xpk_drops_without_a_patch_is_an_error() -> None:
    """The patch undone: the plan says which field did not arrive."""
    intent = _intent("deepseek_ultrachat")
    manifest = _manifest("deepseek_ultrachat")
    del manifest["spec"]["ttlSecondsAfterFinished"]
    unpatched = tuple(c for c in intent.changes if c.path[-1] != "ttlSecondsAfterFinished")
    plan = make_plan(replace(intent, changes=unpatched), rendered=manifest)
    assert [(p.id, p.where) for p in plan.problems if p.severity == "error"] == [
        ("audit-dropped", "ttl_seconds_after_finished")
    ]
    assert not plan.ok


@pytest.mark.parametrize("name", KEPT)
def test_patching_twice_changes_nothing(name: str) -> None:
    intent, manifest = _intent(name), _manifest(name)
    assert apply(intent.changes, manifest) == manifest
    plan = make_plan(intent, rendered=manifest)
    assert plan.manifest == manifest
    assert plan.by_hand == ()


@pytest.mark.parametrize("name", KEPT)
def test_exactly_the_rows_of_an_undone_change_are_patched(name: str) -> None:
    """Undo each change by itself: exactly the rows it touches are patched, and the line by hand lacks its reason."""
    intent, manifest = _intent(name), _manifest(name)
    for change in intent.changes:
        pointer, value = find_pointer(manifest, change.path)
        if value is MISSING:
            continue
        rendered = copy.deepcopy(manifest)
        _at(rendered, pointer, _take_away)
        plan = make_plan(intent, rendered=rendered)
        assert plan.manifest == manifest
        patched = {row.where for row in plan.audit if row.outcome == "patched"}
        assert patched == {row.where for row in plan.audit if _touches(row.where, pointer)}
        assert change.why in plan.by_hand


# Plans


def test_a_local_plan_has_no_manifest() -> None:
    intent = intent_of(spec_of("tiny_local"))
    plan = make_plan(intent, rendered=None, file="tiny.yaml")
    assert (plan.xpk_argv, plan.manifest, plan.audit, plan.by_hand) == (None, None, (), ())
    assert plan.target == "local"
    assert plan.file == "tiny.yaml"


UNKNOWN: dict[str, dict[str, Any]] = {
    "tpu-missing": {"tpu": None},
    "tpu-unknown": {"tpu.type": "v6e-257"},
    "image-missing": {"image.ref": None, "image.name": None},
    "place-missing": {"place": None},
    "place-unknown": {"place": "nowhere"},
    "env-name": {"env": {"BASH": "set by bash"}},
    "env-value": {"env": {"NAME": "\x00"}},
    "pathways-args": {"mode": "pathways", "pathways.server_args": ["--a b"]},
}


@pytest.mark.parametrize("problem", UNKNOWN)
def test_a_plan_that_xpk_cannot_render_has_no_manifest(problem: str) -> None:
    intent = make_intent(WorkloadSpec.model_validate(changed(EVERYTHING, UNKNOWN[problem])), Facts())
    assert problem in {p.id for p in intent.problems if p.kind == "unrenderable"}
    assert intent.xpk_argv is None
    plan = make_plan(intent, rendered=None)
    assert (plan.manifest, plan.audit) == (None, ())
    assert not plan.ok


def test_an_error_that_xpk_accepts_keeps_the_xpk_command() -> None:
    intent = make_intent(everything(model__name="qwen3-8bb"), Facts())
    assert {p.severity for p in intent.problems} >= {"error"}
    assert intent.xpk_argv is not None


def test_problems_of_a_plan_name_its_file() -> None:
    plan = make_plan(_intent("deepseek_ultrachat"), rendered=_manifest("deepseek_ultrachat"), file="a.yaml")
    assert {p.file for p in plan.problems} == {"a.yaml"}


def test_a_context_missing_from_the_command_is_reported() -> None:
    spec = spec_of("deepseek_ultrachat")
    place = {"context": "my-context", "pathways": EVERYTHING["place"]["pathways"]}
    intent = make_intent(spec.model_copy(update={"place": everything(place=place).place}), Facts())
    plan = make_plan(intent, rendered=_manifest("deepseek_ultrachat"))
    assert any("my-context" in reason for reason in plan.by_hand)


def test_make_plan_does_not_change_the_rendered_manifest() -> None:
    intent, manifest = _intent("qwen3_gsm8k"), _manifest("qwen3_gsm8k")
    rendered = copy.deepcopy(manifest)
    del rendered["metadata"]["labels"]["xsft.dev/run"]
    before = copy.deepcopy(rendered)
    assert make_plan(intent, rendered=rendered).manifest == manifest
    assert rendered == before


def _intent(name: str) -> Intent:
    return intent_of(spec_of(name))


def _manifest(name: str) -> Manifest:
    document = load_yaml((FOLDER / f"{name}.manifest.yaml").read_text(encoding="utf-8"))
    assert isinstance(document, dict)
    return document


def _outcomes(intent: Intent, manifest: Manifest) -> dict[tuple[str, str], ArgumentOutcome]:
    rows = audit(intent.expectations, rendered=manifest, manifest=manifest)
    return {(row.field, row.where): row.outcome for row in rows}


def _at(document: Any, pointer: str, do: Callable[[Any, Any], None]) -> None:
    """`do(parent, key)` at a JSON pointer."""
    *parents, last = (token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:])
    node = document
    for token in parents:
        node = node[int(token)] if isinstance(node, list) else node[token]
    do(node, int(last) if isinstance(node, list) else last)


def _touches(where: str, pointer: str) -> bool:
    """Return whether one of two places is in the other, or behind it in the same list."""
    if f"{where}/".startswith(f"{pointer}/") or f"{pointer}/".startswith(f"{where}/"):
        return True
    parent, _, index = pointer.rpartition("/")
    return index.isdigit() and where.startswith(parent + "/")
