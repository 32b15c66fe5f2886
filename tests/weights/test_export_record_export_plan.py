from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.spec.test_export_inputs import INPUTS
from xsft.weights.export_record import ExportPlan, ExportRecord

COMMIT = "0123456789" * 4


@pytest.mark.parametrize(
    ("hub", "commit", "served"),
    [(None, None, "gs://b/x"), ("me/tiny", COMMIT, f"me/tiny@{COMMIT}"), ("me/tiny", None, "me/tiny")],
)
def test_a_server_reads_the_commit_that_the_export_made(hub: str | None, commit: str | None, served: str) -> None:
    plan = ExportPlan(
        run_name="tiny-export",
        output="gs://b",
        inputs=replace(INPUTS, hub=hub),
        first="gs://b/x",
        directory="gs://b/x",
        folder="/x",
        argv=(),
        trainer_argv=(),
        recorded=ExportRecord(digest="d", run_name="tiny-export", outcome="completed", commit=commit),
    )
    assert plan.served == served
