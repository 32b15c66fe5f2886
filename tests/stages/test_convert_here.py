from __future__ import annotations

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from tests.machine.test_http_session import serving
from xsft.base.errors import Unreachable
from xsft.base.reporting import Reporter
from xsft.spec.conversion_inputs import ConversionInputs, ConversionRecord, ConversionSource
from xsft.spec.facts import SourceFacts
from xsft.stages.convert_stage import ask_hub, moved_warning, read_source_for_pods
from xsft.weights.conversion_plan import ConversionPlan

THEN, NOW = "a" * 40, "b" * 40
SOURCE = ConversionSource(repo="owner/name")
INPUTS = ConversionInputs(
    source=SOURCE, model="qwen3-0.6b", release="0.2.5", scan_layers=True, param_scan_axis=1, dtype="bfloat16"
)
PLAN = ConversionPlan(
    run_name="tiny-convert",
    training="tiny",
    output="/out",
    inputs=INPUTS,
    first="/out/converted/x",
    directory="/out/converted/x",
    argv=("python3",),
    estimate=None,
)
MADE = ConversionRecord(
    digest=INPUTS.digest,
    run_name="tiny-convert",
    outcome="completed",
    inputs=to_builtins(replace(INPUTS, source=replace(SOURCE, commit=THEN))),
)
WHOLE = replace(PLAN, whole="/out/converted/x/0/items", recorded=MADE)


@pytest.mark.parametrize(
    ("plan", "now", "expected"),
    [
        (WHOLE, NOW, ["hf-revision-moved"]),
        (WHOLE, THEN, []),
        (WHOLE, None, []),
        (replace(WHOLE, recorded=None), NOW, []),
        (PLAN, NOW, []),
    ],
    ids=["moved", "unchanged", "not asked", "commit not recorded", "weights not downloaded"],
)
def test_a_branch_that_moved_since_is_reported(plan: ConversionPlan, now: str | None, expected: list[str]) -> None:
    assert [problem.id for problem in moved_warning(plan, SourceFacts(commit=now) if now else None)] == expected


def test_without_a_network_cached_files_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as server:
        monkeypatch.setenv("HF_ENDPOINT", f"http://{server.address}")
    assert ask_hub(WHOLE, Reporter()) is None
    with pytest.raises(Unreachable):
        ask_hub(PLAN, Reporter())


@pytest.mark.parametrize(("has_secret", "found"), [(True, ["hub-not-asked"]), (False, [])])
def test_a_gated_repository_is_refused_unless_the_pod_has_a_token(
    monkeypatch: pytest.MonkeyPatch, has_secret: bool, found: list[str]
) -> None:
    with serving() as server:
        monkeypatch.setenv("HF_ENDPOINT", f"http://{server.address}")
        path = f"/api/models/{PLAN.inputs.source.repo}/revision/main"
        server.answers = {path: (403, {"X-Error-Code": "GatedRepo"}, b"")}
        source, said = read_source_for_pods(PLAN, Reporter(), has_secret=has_secret)
    assert [problem.id for problem in said] == found
    assert (source is None) == has_secret


def test_an_unreachable_hub_is_only_a_warning_for_a_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as server:
        monkeypatch.setenv("HF_ENDPOINT", f"http://{server.address}")
    source, said = read_source_for_pods(PLAN, Reporter(), has_secret=False)
    assert (source, [problem.id for problem in said]) == (None, ["hub-not-asked"])
