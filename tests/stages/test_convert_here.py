from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from tests.machine.test_http_session import serving
from xsft.base.errors import Refused, Unreachable
from xsft.base.reporting import Reporter
from xsft.machine.process import user_name
from xsft.records.record_files import RecordStore, record_store
from xsft.spec.conversion_inputs import ConversionInputs, ConversionRecord, ConversionSource
from xsft.spec.facts import SourceFacts
from xsft.stages.convert_stage import ask_hub, moved_warning, read_source_for_pods
from xsft.stages.once import ConversionClaim, claim_path, read_claim, take_claim, under_claim
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
        source, problems = read_source_for_pods(PLAN, Reporter(), has_secret=has_secret)
    assert [problem.id for problem in problems] == found
    assert (source is None) == has_secret


def test_an_unreachable_hub_is_only_a_warning_for_a_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as server:
        monkeypatch.setenv("HF_ENDPOINT", f"http://{server.address}")
    source, problems = read_source_for_pods(PLAN, Reporter(), has_secret=False)
    assert (source, [problem.id for problem in problems]) == (None, ["hub-not-asked"])


AT = "2026-11-21T10:00:00Z"


@pytest.fixture
def store(tmp_path: Path) -> RecordStore:
    return replace(record_store({"HOME": str(tmp_path)}), now=lambda: AT)


@pytest.fixture
def plan(tmp_path: Path) -> ConversionPlan:
    return replace(PLAN, first=str(tmp_path / "converted" / "x"))


def named(plan: ConversionPlan, name: str) -> ConversionPlan:
    return replace(plan, run_name=f"{name}-convert", training=name)


def test_the_first_claim_holds(store: RecordStore, plan: ConversionPlan) -> None:
    assert read_claim(store, plan) is None
    first = take_claim(store, named(plan, "one"))
    assert first == ConversionClaim(run_name="one-convert", training="one", user=user_name(), at=AT)
    assert take_claim(store, named(plan, "two")) == first == read_claim(store, plan)
    assert under_claim(named(plan, "two"), first).run_name == "one-convert"
    assert under_claim(named(plan, "two"), None).run_name == "two-convert"


def test_a_claim_is_a_json_document_named_by_the_inputs(store: RecordStore, plan: ConversionPlan) -> None:
    """Other versions of xsft read it."""
    take_claim(store, named(plan, "Zürich"))
    file = Path(plan.first) / "xsft" / f"claim-{plan.digest[:12]}.json"
    text = file.read_text(encoding="utf-8")
    names = {"run_name": "Zürich-convert", "training": "Zürich"}
    assert json.loads(text) == {"schema": "xsft.conversion-claim/1", **names, "user": user_name(), "at": AT}
    assert "Zürich" in text
    assert text.startswith('{\n "schema"')
    assert text.endswith("}\n")


def test_a_claim_of_another_version_is_read(store: RecordStore, plan: ConversionPlan) -> None:
    file = Path(claim_path(plan))
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"schema": "xsft.conversion-claim/9", "run_name": "r", "training": "t", "new": 1}))
    assert take_claim(store, plan) == ConversionClaim(run_name="r", training="t", user="", at="")


def test_exactly_one_of_eight_concurrent_claims_holds(store: RecordStore, plan: ConversionPlan) -> None:
    together, claims = threading.Barrier(8), list[ConversionClaim]()

    def take(number: int) -> None:
        together.wait()
        claims.append(take_claim(store, named(plan, f"run{number}")))

    threads = [threading.Thread(target=take, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(claims) == 8
    assert len({claim.run_name for claim in claims}) == 1


def test_other_weights_in_the_same_folder_have_their_own_claim(store: RecordStore, plan: ConversionPlan) -> None:
    take_claim(store, named(plan, "one"))
    other = replace(plan, inputs=replace(plan.inputs, param_scan_axis=0))
    assert take_claim(store, named(other, "two")).training == "two"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"run_name": 3}', b"\xff", b" " * (1 << 16) + b"{}"])
def test_a_damaged_claim_is_refused_and_kept(store: RecordStore, plan: ConversionPlan, content: bytes) -> None:
    file = Path(claim_path(plan))
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    with pytest.raises(Refused, match="does not say which run") as refused:
        take_claim(store, plan)
    assert "move it away if no conversion is in progress" in refused.value.fix
    assert file.read_bytes() == content
