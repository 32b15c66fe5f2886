from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.launcher.test_encoding import WRAPPER
from xsft.base.pointers import NamedEntry
from xsft.launcher.audit import ArgumentOutcome, AuditRow, Expectation, audit, audit_problems

PATH = ("spec", "replicas")


def _row(*, value: Any, rendered: Any, manifest: Any, requested: Any = None) -> AuditRow:
    expectation = Expectation(field="tpu.num_slices", path=PATH, value=value, requested=requested)
    (row,) = audit((expectation,), rendered=_document(rendered), manifest=_document(manifest))
    return row


ABSENT = msgspec.UNSET


def _document(value: Any) -> dict[str, Any]:
    return {"spec": {} if value is ABSENT else {"replicas": value}}


CASES: tuple[tuple[Any, Any, Any, ArgumentOutcome], ...] = (
    (2, 2, 2, "landed"),
    (2, ABSENT, 2, "patched"),
    (2, 3, 2, "patched"),
    (2, 2, ABSENT, "dropped"),
    (2, ABSENT, ABSENT, "dropped"),
    (2, 2, 3, "altered"),
    # To Kubernetes these are other values, though Python or a reader may take them for the same.
    (4, 4, "4", "altered"),
    (1, 1, True, "altered"),
    (4, 4, 4.0, "altered"),
    (2, 2, None, "altered"),
    ([{"a": 1}], [{"a": 1}], [{"a": True}], "altered"),
    ([{"a": 1}], [{"a": "1"}], [{"a": 1}], "patched"),
    ([1, 2], [1, 2], [2, 1], "altered"),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}, {"b": 2, "a": 1}, "landed"),
)


@pytest.mark.parametrize(("value", "rendered", "manifest", "outcome"), CASES)
def test_a_field_is_landed_patched_dropped_or_altered(
    value: Any, rendered: Any, manifest: Any, outcome: ArgumentOutcome
) -> None:
    assert _row(value=value, rendered=rendered, manifest=manifest).outcome == outcome


def test_an_audit_row_has_field_place_and_both_values() -> None:
    assert _row(value=2, rendered=2, manifest=3) == AuditRow(
        field="tpu.num_slices", outcome="altered", where="/spec/replicas", requested=2, rendered=3
    )


def test_an_audit_row_shows_the_requested_value_not_its_encoding() -> None:
    assert _row(value="$$X", requested="$X", rendered="$$X", manifest="$$X").requested == "$X"


def test_a_dropped_value_has_no_rendered_value() -> None:
    assert _row(value=2, rendered=2, manifest=ABSENT).rendered is None


@pytest.mark.parametrize(
    ("container", "outcome"),
    [
        (["bash", "-c", WRAPPER % "exec python3 -m x"], "landed"),
        (["bash", "-c", WRAPPER % "exec python3 -m y"], "altered"),
        (["bash", "-c", (WRAPPER % "exec python3 -m x") + "rm -rf x\n"], "altered"),
        (["bash", "-c"], "altered"),
        ("exec python3 -m x", "altered"),
        (None, "altered"),
    ],
    ids=["planned command", "another module", "a line after the wrapper", "no script", "text", "none"],
)
def test_the_command_is_read_out_of_xpks_wrapper(container: Any, outcome: ArgumentOutcome) -> None:
    path = ("containers", NamedEntry("jax-tpu"), "command")
    expectation = Expectation(field="command", path=path, value="exec python3 -m x", reads="command")
    document = {"containers": [{"name": "jax-tpu", "command": container}]}
    (row,) = audit((expectation,), rendered=document, manifest=document)
    assert row.outcome == outcome


def test_only_dropped_and_altered_fields_are_problems() -> None:
    pairs = ((2, 2), (ABSENT, 2), (2, ABSENT), (2, 3))
    rows = [_row(value=2, rendered=rendered, manifest=manifest) for rendered, manifest in pairs]
    problems = list(audit_problems(rows))
    assert [(p.id, p.severity, p.where) for p in problems] == [
        ("audit-dropped", "error", "tpu.num_slices"),
        ("audit-altered", "error", "tpu.num_slices"),
    ]
    assert "/spec/replicas" in problems[1].message
    assert "3" in problems[1].message
    assert all(p.fix for p in problems)
