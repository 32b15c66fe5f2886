"""What of a sample of the data should not stay so. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from xsft.dataset.summary import Summary
from xsft.problems import Problem, error, warning

MANY_CUT = 0.1
"""Share of cut examples above which it is said: their ends, which hold the answers' ends, are not trained."""


def findings(summary: Summary, *, limit: int) -> tuple[Problem, ...]:
    return tuple(_findings(summary, limit))


def _findings(summary: Summary, limit: int) -> Iterator[Problem]:
    if not summary.sampled:
        yield error("data-empty", "data", "The data has no rows.", "Check data.hf_train_files and data.train_split.")
        return
    if summary.no_target == 1:
        message = f"Not one of {summary.sampled:,} examples has a trained token: the run would learn nothing."
        fix = "Look at them: `xsft data show FILE`. Often the template puts no answer behind the roles."
        yield error("data-no-target", "data", message, fix)
    elif summary.no_target > 0:
        message = f"{summary.no_target:.1%} of {summary.sampled:,} examples have no trained token."
        yield warning("data-no-target", "data", message, "Look at them: `xsft data show FILE --no-target`.")
    if summary.truncated > MANY_CUT:
        message = f"{summary.truncated:.1%} of {summary.sampled:,} examples are longer than {limit} tokens and are cut."
        fix = "Raise train.max_target_length, or look at them: `xsft data show FILE --truncated`."
        yield warning("data-truncated", "train.max_target_length", message, fix)
