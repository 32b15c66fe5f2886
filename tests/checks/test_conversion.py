from __future__ import annotations

import pytest

from tests.checks.factory import DROP, ids, spec
from xsft.checks.conversion import check
from xsft.facts import Facts, SourceFacts, TokenizerFacts
from xsft.problems import error

HF = {"checkpoint": DROP, "hf": {"repo": "./mine"}}
HERE = spec(target="local", tpu=DROP, place=DROP, model=HF)
PROBLEM = error("hf-folder-missing", "model.hf.repo", "There is no folder.", "Correct the path.")


@pytest.mark.parametrize(
    ("source", "tokens", "expected"),
    [
        (None, None, set()),
        (SourceFacts(vocabulary=512), 512, set()),
        (SourceFacts(vocabulary=512), 513, {"tokenizer-vocabulary"}),
        (SourceFacts(), 513, set()),
        (SourceFacts(vocabulary=151_938), None, {"weights-vocabulary"}),
        (SourceFacts(quantized="config.json has quantization_config (fp8)"), None, {"weights-quantized"}),
        (SourceFacts(problems=(PROBLEM,)), None, {"hf-folder-missing"}),
    ],
)
def test_what_is_wrong_with_the_weights(source: SourceFacts | None, tokens: int | None, expected: set[str]) -> None:
    tokenizer = TokenizerFacts(folder="/t", vocabulary=tokens)
    assert ids(check, HERE, Facts(source=source, tokenizer=tokenizer)) == expected


def test_a_run_from_a_checkpoint_converts_nothing() -> None:
    facts = Facts(source=SourceFacts(quantized="config.json has quantization_config"))
    assert ids(check, spec(), facts) == set()
