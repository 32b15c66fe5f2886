"""`xsft fit FILE --search` where the catalogue and kept verdicts answer, and how a search ends early."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.documents import read_document
from tests.fit.test_search import of
from tests.inprocess import xsft
from xsft.base.errors import RunFailed, TimedOut
from xsft.fit.alternatives import Alternative
from xsft.fit.cache import compiler_versions, fit_cache
from xsft.fit.search import FitSearch
from xsft.fit.trainer_step import step_to_compile
from xsft.fit.verdict import CompiledStep, Fits
from xsft.launch.fit_search import FitAnswer, search_alternatives
from xsft.planning import api
from xsft.verbs.fit_text import tried_line

WORKLOADS = Path(__file__).parents[2] / "workloads"
KEEP = ("--keep", "tpu", "parallelism", "remat_policy")
MOMENTS = "overrides.maxtext.mu_dtype"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """qwen3-14b for v6e-8, which the catalogue refuses; with the moments in bfloat16 the cache says that it fits."""
    monkeypatch.setenv("XSFT_CACHE_DIR", str(tmp_path / "cache"))
    text = (WORKLOADS / "qwen3_gsm8k.yaml").read_text().replace("qwen3-0.6b", "qwen3-14b").replace("1024", "2048")
    (tmp_path / "math_qa.json").write_bytes((WORKLOADS / "math_qa.json").read_bytes())
    (tmp_path / "places.yaml").write_bytes((WORKLOADS.parent / "places.yaml").read_bytes())
    path = tmp_path / "large.yaml"
    path.write_text(text)
    (loaded,), _ = api.load_each([path], settings=(f"{MOMENTS}=bfloat16",))
    step = step_to_compile(api.intend((loaded,))[0].run)
    assert step is not None
    fits = Fits(peak_gib=28.1, sum_gib=30.2, limit_gib=31.24, by=None)
    fit_cache().keep(step, CompiledStep(verdict=fits, tokens=2048, versions=compiler_versions(), made_at="2026-11-23"))
    return path


def test_search_shows_the_nearest_alternative_that_fits_and_writes_it(file: Path) -> None:
    before = file.read_text()
    shown = xsft("fit", str(file), "--search", *KEEP)
    assert (shown.returncode, file.read_text()) == (0, before)
    assert "up to 30m" in shown.stdout
    assert f"FITS, peak 28.10, sum 30.20 GiB of 31.24: {MOMENTS}: bfloat16 (the best so far)" in shown.stdout
    assert "+overrides:\n+  maxtext:\n+    mu_dtype: bfloat16\nApply it with --write.\n" in shown.stdout
    beside = xsft("fit", str(file), "--search", *KEEP, "--set", "train.steps=7")
    assert beside.stdout.endswith(
        "It fits with train.steps=7: write that into the file too, then apply this with --write.\n"
    )
    assert xsft("fit", str(file), "--search", "--write", *KEEP).stdout.endswith("Written.\n")
    assert file.read_text() == f"{before}overrides:\n  maxtext:\n    mu_dtype: bfloat16\n"
    assert "It fits as it is" in xsft("fit", str(file), "--search").stdout


def test_the_document_of_a_search_lists_its_alternatives(file: Path) -> None:
    done = xsft("fit", str(file), "--search", "--json", *KEEP)
    (entry,) = read_document("fit", done.stdout)["fits"]
    search = entry["search"]
    assert (entry["verdict"], search["settings"], search["stopped"]) == ("no", {MOMENTS: "bfloat16"}, "done")
    assert [
        (alternative["verdict"], alternative["source"], alternative["why"]) for alternative in entry["alternatives"]
    ] == [("fits", "cache", "")]


def test_each_refusal_by_arithmetic_has_a_line(file: Path) -> None:
    text = file.read_text().replace("14b", "32b").replace("14B", "32B")
    file.write_text(text)
    done = xsft("fit", str(file), "--search", "--keep", "tpu", "parallelism", "weight_dtype", "lora")
    assert done.returncode == 2
    refused = [line for line in done.stdout.splitlines() if "GiB of 31.24 for its state alone" in line]
    assert len(refused) == len(set(refused)) == 11
    assert done.stdout.endswith("No alternative that fits was found.\n")


def test_search_refuses_unsuitable_files_and_options(file: Path) -> None:
    for wrong in ((str(file), str(file)), ("-",), (str(file), "--write", "--set", "train.steps=3")):
        assert xsft("fit", *wrong, "--search").returncode == 2
    assert "--keep steps: no search changes that key" in xsft("fit", str(file), "--search", "--keep", "steps").stderr
    assert "v6e-9" in xsft("fit", str(file), "--search", "--types", "v6e-9").stderr


Ask = Callable[[Alternative, float], FitAnswer]


def raising(error: BaseException) -> Ask:
    def ask(_one: Alternative, _left: float) -> FitAnswer:
        raise error

    return ask


@pytest.mark.parametrize(
    ("error", "timeout_s", "stopped", "tried"),
    [
        (KeyboardInterrupt(), None, "interrupted", 0),
        (TimedOut("late", fix="."), None, "budget", 0),
        (TimedOut("late", fix="."), 1.0, "done", 3),
        (RunFailed("it was killed", fix="."), None, "done", 3),
    ],
)
def test_a_search_stops_at_an_interrupt_at_its_budget_or_when_done(
    error: BaseException, timeout_s: float | None, stopped: str, tried: int
) -> None:
    states: list[FitSearch] = []
    search = of(0.9, 0.8, 0.7)
    best, why = search_alternatives(search, raising(error), report=states.append, budget_s=60.0, timeout_s=timeout_s)
    assert (why, len(best.tried), len(states), best.best) == (stopped, tried, tried, None)
    assert all("no verdict" in tried_line(state) for state in states)


def test_a_search_without_time_compiles_nothing() -> None:
    best, why = search_alternatives(of(0.9), raising(AssertionError()), report=print, budget_s=0.0, timeout_s=None)
    assert (why, best.tried) == ("budget", ())
