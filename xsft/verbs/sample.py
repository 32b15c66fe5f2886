"""`xsft sample RUN --prompt TEXT`: the answers of a run's weights, on this machine."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from xsft.base.terminal_text import safe_text
from xsft.evaluation.inputs import PromptTurn
from xsft.evaluation.report import MeasuredAnswer
from xsft.launch.local_machine import maxtext_machine
from xsft.machine.paths import scratch_folder
from xsft.machine.signals import as_ctrl_c
from xsft.records.record_files import record_store
from xsft.stages.evaluate import SampleOptions, sample, tuned_run
from xsft.verbs.document import Document, VerbDocument, print_to_stderr, report_document, request_of, show_progress
from xsft.verbs.terminal import terminal


class SampledPrompt(Document, frozen=True, kw_only=True):
    """One prompt and its answers."""

    prompt: tuple[PromptTurn, ...]
    base: MeasuredAnswer | None
    """Answer of the weights before the training; null without --base."""
    tuned: MeasuredAnswer


class SampleDocument(VerbDocument, frozen=True, kw_only=True, tag_field="schema", tag="xsft.sample/1"):
    """`xsft sample RUN --prompt TEXT --json`."""

    run_name: str
    step: int
    """Step of the checkpoint."""
    weights: str
    """Path of the checkpoint."""
    samples: tuple[SampledPrompt, ...]


def run(args: argparse.Namespace) -> int:
    run = tuned_run(args.run, step=args.step, store=record_store())
    sampling = request_of(args, SampleOptions)
    machine = maxtext_machine(terminal())
    with (
        as_ctrl_c(),
        scratch_folder("sample") as scratch,
        show_progress("sample") as progress,
    ):
        measured = sample(run, sampling, machine=machine, progress=progress, scratch=scratch)
    if not args.json and not all(answer.text.strip() for answer in measured.tuned.answers):
        print_to_stderr("An answer is empty: the first token of it was the end.")
    bases = measured.base.answers if measured.base else [None] * len(measured.prompts)
    answers = zip(measured.prompts, bases, measured.tuned.answers, strict=True)
    samples = tuple(SampledPrompt(prompt=prompt, base=base, tuned=tuned) for prompt, base, tuned in answers)
    document = SampleDocument(run_name=run.run_name, step=run.step, weights=run.weights, samples=samples)
    return report_document(document, sample_lines, as_json=args.json)


def sample_lines(document: SampleDocument) -> Iterator[str]:
    """Yield the tuned answers alone; with the base's, or of several prompts, each under its name."""
    first, *more = document.samples
    if first.base is None and not more:
        yield safe_text(first.tuned.text)
        return
    for sampled in document.samples:
        yield safe_text(f"prompt  {sampled.prompt[-1].content}")
        if sampled.base is not None:
            yield safe_text(f"base    {sampled.base.text}")
        yield safe_text(f"tuned   {sampled.tuned.text}")
