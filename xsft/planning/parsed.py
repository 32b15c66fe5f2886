"""Runs the installed MaxText's parser on command lines, with the slices' topology; once for each."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from xsft.base.errors import XsftError
from xsft.catalog.releases import DEFAULT
from xsft.checks.parsed import ParserAnswer, ParserQuestion
from xsft.environments import environments
from xsft.environments.ask import PROGRAMS, Interpreter, ask
from xsft.environments.installed import BuiltEnvironment
from xsft.machine.paths import own_cache
from xsft.machine.process import own_environment

PARSER = "xsft.workers.parse_arguments"
TIMEOUT_S = 180.0
"""About 5 s on a quiet machine, mostly imports, and 0.1 s more for each command line; a busy one took 90 s."""


def ask_parser(questions: Sequence[ParserQuestion]) -> tuple[ParserAnswer, ...]:
    """Return MaxText's answers, in the same order. Raises nothing: `unanswered` gives the reason for a missing
    answer."""
    maxtext = environments.find_environment("maxtext")
    if maxtext is None:
        return tuple(ParserAnswer(unanswered=NOT_BUILT) for _ in questions)
    files = {one: own_cache() / "parser-answers" / f"{_question_digest(one, maxtext)}.json" for one in questions}
    known = {one: found for one, file in files.items() if (found := _kept_answer(file))}
    unanswered = [one for one in files if one not in known and one.release == DEFAULT]
    known |= (
        dict(zip(unanswered, _ask_parser(maxtext, {one: files[one] for one in unanswered}), strict=True))
        if unanswered
        else {}
    )
    return tuple(known.get(one, _other_release_answer(one)) for one in questions)


NOT_BUILT = "MaxText's environment is not built: `xsft setup maxtext`"


def _other_release_answer(question: ParserQuestion) -> ParserAnswer:
    return ParserAnswer(unanswered=f"this machine has MaxText {DEFAULT}, but the image has {question.release}")


def _ask_parser(maxtext: BuiltEnvironment, asked: Mapping[ParserQuestion, Path]) -> list[ParserAnswer]:
    env = own_environment(JAX_PLATFORMS="cpu", HF_HUB_OFFLINE="1")
    interpreter = Interpreter(python=maxtext.python, env=env, cwd=Path("/"), timeout_s=TIMEOUT_S)
    questions = [{"argv": one.argv, "slices": dict(one.slices), "file": str(file)} for one, file in asked.items()]
    try:
        return [_parser_answer(one) for one in ask(interpreter, PARSER, questions)]
    except (XsftError, OSError, msgspec.MsgspecError) as failed:
        return [ParserAnswer(unanswered=f"its parser did not answer: {failed}")] * len(asked)


def _parser_answer(answer: Any) -> ParserAnswer:
    return _ANSWER.decode(json.dumps(answer))


_ANSWER = msgspec.json.Decoder(ParserAnswer)
"""Made once: two threads in which msgspec describes a type at the same time crash the process (msgspec@0.22.0)."""


def _kept_answer(file: Path) -> ParserAnswer | None:
    try:
        return _ANSWER.decode(file.read_bytes())
    except (OSError, msgspec.MsgspecError):
        return None


def _question_digest(question: ParserQuestion, maxtext: BuiltEnvironment) -> str:
    source = hashlib.sha256((PROGRAMS / "parse_arguments.py").read_bytes()).hexdigest()
    content = json.dumps([maxtext.digest, source, msgspec.to_builtins(question)])
    return hashlib.sha256(content.encode()).hexdigest()
