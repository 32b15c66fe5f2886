from __future__ import annotations

import pytest

from tests.checks.factory import DROP, ids, problems, spec
from xsft.base.problems import error
from xsft.checks.conversion import check
from xsft.checks.facts import Facts
from xsft.data.facts import TokenizerFacts
from xsft.spec.facts import SourceFacts

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
    ids=[
        "nothing known",
        "vocabulary fits",
        "tokenizer larger than vocabulary",
        "vocabulary unknown",
        "vocabulary of another size",
        "quantized",
        "folder missing",
    ],
)
def test_unsuitable_source_weights_are_reported(
    source: SourceFacts | None, tokens: int | None, expected: set[str]
) -> None:
    tokenizer = TokenizerFacts(folder="/t", vocabulary=tokens)
    assert ids(check, HERE, Facts(source=source, tokenizer=tokenizer)) == expected


OWN = {
    "hidden_size": 1024,
    "num_hidden_layers": 28,
    "rope_theta": 1e6,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": True,
}


@pytest.mark.parametrize(
    ("told", "severity"),
    [
        (OWN, None),
        ({**OWN, "hidden_size": 2048}, None),  # to_maxtext stops
        ({**OWN, "rope_theta": 10_000.0}, "warning"),
        ({**OWN, "tie_word_embeddings": False}, "warning"),
        ({**OWN, "sliding_window": 32768, "final_logit_softcapping": 30.0}, None),
    ],
    ids=["same", "other size", "other rope_theta", "embeddings not tied", "further keys"],
)
def test_config_json_that_differs_from_the_model_is_reported(told: dict[str, float], severity: str | None) -> None:
    found = problems(check, HERE, Facts(source=SourceFacts(fields=told)))
    assert [(p.id, p.severity) for p in found] == ([("weights-config", severity)] if severity else [])


def test_run_from_a_checkpoint_has_no_conversion_problems() -> None:
    facts = Facts(source=SourceFacts(quantized="config.json has quantization_config"))
    assert ids(check, spec(), facts) == set()


def test_own_sizes_are_refused_where_the_converter_cannot_be_given_them() -> None:
    own = {"model": {**HF, "name": "llama3.1-8b"}, "overrides": {"maxtext": {"head_dim": 64}}}
    assert ids(check, spec(**own, image={"maxtext": "0.1.0"})) == {"weights-sizes-legacy"}
    assert ids(check, spec(**own)) == set()
