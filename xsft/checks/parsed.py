"""Ask MaxText's own parser about a run, and turn its answer into problems. Pure.

The checks report most of what MaxText refuses, with a fix. The parser decides the rest: types, allowed values, and keys
that exclude each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from xsft.base.acceptance import LateProblem
from xsft.base.problems import Problem, errors_in, note
from xsft.checks.trainer_keys import where_of
from xsft.spec.resolve import Run
from xsft.trainer.trainer import trainer_of

MAXTEXT_REFUSES = LateProblem(id="maxtext-refuses")
MAXTEXT_IGNORES = LateProblem(id="maxtext-ignores")

NAMELESS = "run"
"""Run name in every question, so that the cached answer serves runs of any name."""


class ParserQuestion(Struct, frozen=True, kw_only=True):
    """A command line for MaxText's parser."""

    release: str
    argv: tuple[str, ...]
    slices: tuple[tuple[str, str], ...]
    """Keys that describe the TPUs, which this machine lacks."""


class ParserAnswer(Struct, frozen=True, kw_only=True):
    refused: str = ""
    """Error of MaxText; empty if it accepts the command line."""
    ignored: tuple[str, ...] = ()
    """Its warnings about keys that it ignores."""
    unanswered: str = ""
    """Why the parser was not run."""


def question_of(run: Run, argv: Sequence[str]) -> ParserQuestion:
    """Return the question for a run; ahead-of-time compilation's keys tell MaxText which chips there are."""
    tpu = run.spec.tpu
    slices = {"compile_topology": tpu.type, "compile_topology_num_slices": str(run.num_slices)} if tpu else {}
    nameless = tuple(f"run_name={NAMELESS}" if argument.startswith("run_name=") else argument for argument in argv)
    return ParserQuestion(release=run.release.version, argv=nameless, slices=tuple(slices.items()))


def check_parser_answer(run: Run, answer: ParserAnswer, *, found: Sequence[Problem]) -> Iterator[Problem]:
    """Yield MaxText's errors and warnings, except those in `found`, the problems of the checks."""
    if answer.unanswered:
        yield from check_parser_asked(answer.unanswered)
    # MaxText names the key that it refuses first; a text that names none may be about any of them.
    words = re.findall(r"[A-Za-z_][A-Za-z0-9_.]*", answer.refused)
    keys = trainer_of(run).trainer_keys(run)
    keys_of_run = [*run.spec.overrides.maxtext, *keys]
    key = next((word for word in words if word in keys_of_run), "")
    if answer.refused and not _is_known(key, found):
        message = f"MaxText {run.release.version} refuses this command line: {_without_noise(answer.refused)}"
        fix = (
            f"Correct {key}." if key else "Correct the key that it names; `xsft plan --notes` prints the command line."
        )
        yield MAXTEXT_REFUSES.error(where_of(key, run) if key else "", message, fix)
    for warned in answer.ignored:
        yield MAXTEXT_IGNORES.warning(
            "overrides.maxtext", f"MaxText says: {_without_noise(warned)}", "Remove that key."
        )


def check_parser_asked(why: str) -> Iterator[Problem]:
    message = f"MaxText's parser was not run: {why}."
    yield note(
        "maxtext-not-asked",
        "",
        message,
        "Unknown: whether MaxText accepts the types and values of all keys.",
        kind="unread",
    )


def _is_known(key: str, reported: Sequence[Problem]) -> bool:
    """Return whether the checks already reported this, or another error at which MaxText would stop."""
    return any(not key or key in f"{problem.where} {problem.message}" for problem in errors_in(reported))


_NOISE: Mapping[str, str] = {r"\s*For further information visit \S+": "", r"\s+": " "}


def _without_noise(text: str) -> str:
    for pattern, with_what in _NOISE.items():
        text = re.sub(pattern, with_what, text)
    return text.strip()[:600]
