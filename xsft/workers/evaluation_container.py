"""Measures and judges weights in the pods of a training's slices, one process per host; the first one writes the report
and the end of the run's attempt. Sent to the image's Python, which has no xsft.

Arguments: a JSON document with the `notes`, and the path of the report. The notes are a job of `measure_weights`, with
the rules, the other fields of the report (`noted`), and how the end is recorded (`launcher.cpujob`).
"""

from __future__ import annotations

import json
import math
import os
import sys
import traceback
from dataclasses import asdict
from typing import Any

from xsft.workers.evaluation_verdict import AnswerPattern, EvaluationRules, Judgement, Losses, judge_evaluation
from xsft.workers.expression import matching_texts
from xsft.workers.measure_weights import evaluated, print_progress
from xsft.workers.work import now, place_of, record_attempt


def main(job: dict[str, Any], into: str) -> None:
    found = evaluated(job)
    import jax  # type: ignore[import-not-found]

    if jax.process_index() != 0:
        return
    judgement, place = judged(found, job["rules"]), place_of(into)
    written = place.create(
        into, json.dumps(evaluation_document(found, judgement, job["noted"]), indent=1, allow_nan=False)
    )
    print_progress(f"wrote {into}" if written else f"{into} already exists, with the same inputs; it is kept")
    print_progress(f"verdict {judgement.summary}")
    record_attempt(place, job, end_of(judgement))


def judged(found: dict[str, Any], given: dict[str, Any]) -> Judgement:
    """Return the verdict on the measurement of `measure_weights`. `given`: the rules."""
    rules = EvaluationRules(**{**given, "require": tuple(AnswerPattern(**one) for one in given["require"])})
    base, tuned = found["models"]["base"], found["models"]["tuned"]
    losses = Losses(base=base["loss"], tuned=tuned["loss"])
    return judge_evaluation(
        rules, answers=tuple(one["text"] for one in tuned["answers"]), losses=losses, matches=matching_texts
    )


def evaluation_document(found: dict[str, Any], judgement: Judgement, noted: dict[str, Any]) -> dict[str, Any]:
    """Return the content of evaluation.json."""
    models = {name: {**one, "loss": finite(one["loss"])} for name, one in found["models"].items()}
    return {**noted, "finished_at": now(), "prompts": found["prompts"], **models, "judgement": asdict(judgement)}


def finite(loss: float | None) -> float | None:
    """Return a loss that JSON can hold: NaN and infinity become null; the rule on it kept the value."""
    return loss if loss is not None and math.isfinite(loss) else None


def end_of(judgement: Judgement) -> dict[str, Any]:
    if judgement.verdict == "failed":
        return {"outcome": "failed", "reason": f"verdict {judgement.summary}"}
    return {"outcome": "completed"}


def main_or_exit(job: dict[str, Any], into: str) -> None:
    """Do the work; after an error print it, and end with exit status 1."""
    try:
        main(job, into)
    except (Exception, SystemExit) as problem:
        traceback.print_exc()
        sys.stderr.flush()
        print_progress(f"failed: {type(problem).__name__}: {problem}")
        os._exit(1)  # at a usual exit JAX waits for the other processes, which wait for this one


if __name__ == "__main__":
    main_or_exit(json.loads(sys.argv[1])["notes"], sys.argv[2])
