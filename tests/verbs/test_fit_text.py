from __future__ import annotations

from msgspec import to_builtins
from msgspec.structs import replace

from tests.checks.factory import run_of, spec
from tests.documents import read_document
from xsft.fit.verdict import CompiledStep, DoesNotFit, Fits, KnownStep, LargeBuffer, StepMemory, Verdict
from xsft.launch.fit_search import FitAnswer
from xsft.verbs.fit import FitDocument, fit_entry
from xsft.verbs.fit_text import fit_notes, fit_text, not_covered
from xsft.verbs.plan_text import time_text


def answer(verdict: Verdict, *, tokens: int = 1024, tpu: str = "v6e-8", maxtext: str = "0.2.5") -> FitAnswer:
    entry = CompiledStep(
        verdict=verdict,
        tokens=tokens,
        versions={"maxtext": "0.2.5", "libtpu": "0.0.44"},
        made_at="2026-11-23T03:00:00Z",
        seconds={"tracing": 5.0, "compiling": 55.0},
        cpu_s=170.4,
        rss_gib=1.9,
    )
    run = run_of(spec(tpu={"type": tpu}, image={"maxtext": maxtext}))
    known_step = KnownStep(entry=entry, derived=tokens != 1024)
    return FitAnswer(file="a.yaml", run=run, verdict=verdict, source="compiler", known=known_step)


BUFFER = LargeBuffer(gib=0.29, shape="bf16[151936,1024]", count=3, layer="jit(train_step)/jvp()")


FITS = Fits(
    peak_gib=2.017,
    sum_gib=2.027,
    limit_gib=31.24,
    by=StepMemory(weights=0.28, optimizer=0.56, gradients=0.28, batch=0.0, temporaries=0.92, buffers=(BUFFER,)),
)


NO = DoesNotFit(needed_gib=33.5, limit_gib=31.24, told_by="compiler")


def test_a_verdict_is_printed_with_memory_time_and_limits() -> None:
    fits = answer(FITS)
    time = fits.time
    assert time is not None
    assert list(fit_text(fits)) == [
        "qwen-chat: FITS v6e-8 × 1: 2.02 GiB at the peak, 2.03 in total, of 31.24 GiB per chip",
        "  weights         0.28 GiB",
        "  optimizer       0.56 GiB",
        "  gradients       0.28 GiB",
        "  batch           0.00 GiB",
        "  temporaries     0.92 GiB",
        "  largest buffers that the program writes (not all exist at the same time):",
        "          0.29 GiB  bf16[151936,1024] × 3  jit(train_step)/jvp()",
        f"  time: {time_text(time)}",
        "  Compiled 2026-11-23 in 1m (170 CPU-s, 1.9 GiB) with maxtext 0.2.5, libtpu 0.0.44.",
        "  Not covered: restoring the checkpoint, a second step in flight, the runtime's own memory, the eval step.",
    ]


def test_host_memory_is_printed_and_a_host_only_peak_is_not() -> None:
    by = StepMemory(weights=1.0, optimizer=1.0, gradients=0.0, batch=0.0, temporaries=2.0, host=32.0, peak_known=False)
    lines = list(fit_text(answer(Fits(peak_gib=4.0, sum_gib=4.0, limit_gib=31.24, by=by))))
    assert lines[0] == "qwen-chat: FITS v6e-8 × 1: 4.00 GiB in total, of 31.24 GiB per chip"
    assert lines[6:8] == [
        "  host           32.00 GiB of the host's memory per chip, not in the sum",
        "  The compiler reports only the host's peak. The chip's peak, which it accepts, is at most the sum.",
    ]


def test_a_refusal_prints_one_total_of_memory() -> None:
    lines = list(fit_text(answer(NO, tokens=512)))
    assert lines[0] == "qwen-chat: NO, does not fit v6e-8 × 1: needs 33.50 GiB of 31.24 per chip"
    assert "  Follows from the compiled run with 512 tokens: more tokens need more memory." in lines
    assert answer(NO).refused


def test_notes_name_the_versions_and_types_that_a_verdict_does_not_cover() -> None:
    assert any(
        "compiled with MaxText 0.2.5; the image has 0.2.4" in note for note in fit_notes(answer(FITS, maxtext="0.2.4"))
    )
    assert any("Only the figures of v6e" in note for note in fit_notes(answer(FITS, tpu="v5p-8")))
    assert not any("Only the figures" in note for note in fit_notes(answer(FITS)))


def test_the_verdict_of_an_evaluation_names_the_evaluation() -> None:
    eval_answer = replace(answer(FITS), kind="eval")
    assert next(fit_text(eval_answer)).startswith("qwen-chat, evaluation: FITS v6e-8 × 1: ")
    assert "the eval step" not in not_covered(eval_answer)
    assert fit_entry(eval_answer).step == "eval"


def test_the_document_of_fit_matches_its_schema() -> None:
    for one in (FITS, NO):
        read_document("fit", to_builtins(FitDocument(fits=(fit_entry(answer(one)),))))
