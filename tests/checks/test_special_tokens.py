"""Special tokens: trained, masked, and repeated by each round."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.checks.factory import DROP, FLAGSHIP, ids, problems, spec
from tests.tokenizers import DEEPSEEK_TEMPLATE
from xsft.base.problems import Problem
from xsft.catalog import models
from xsft.catalog.tokenizers import SpecialTokens
from xsft.checks.facts import Facts
from xsft.checks.special_tokens import check, masked_tokens, trained_tokens
from xsft.data.facts import TokenizerFacts
from xsft.spec.model import WorkloadSpec

EOS, BOS = "<｜end▁of▁sentence｜>", "<｜begin▁of▁sentence｜>"
DEEPSEEK = TokenizerFacts(
    folder="/tokenizer", bos=BOS, eos=EOS, pad=EOS, unk="", special=(BOS, EOS, "<｜User｜>"), template=DEEPSEEK_TEMPLATE
)
OWN = spec(model={"tokenizer": "./mine"})


def found(workload: WorkloadSpec, read: TokenizerFacts | None = None) -> dict[str, Problem]:
    return {p.id: p for p in problems(check, workload, Facts(tokenizer=read))}


def test_good_workload_notes_trained_and_masked_tokens() -> None:
    (problem,) = problems(check, spec())
    assert (problem.id, problem.severity) == ("special-tokens", "note")
    assert "trained at the end of an answer: <|im_end|>; masked: <|endoftext|> (pad token)" in problem.message


def test_deepseek_with_its_own_pad_token_is_an_error_and_the_fix_resolves_it() -> None:
    own = spec(FLAGSHIP, model={"pad_token": DROP})
    wrong = found(own)["answer-end-masked"]
    assert (wrong.severity, wrong.where) == ("error", "model.tokenizer")
    assert EOS in wrong.message
    assert "model.pad_token: '<｜▁pad▁｜>'" in wrong.fix
    mended = found(spec(FLAGSHIP))
    assert "answer-end-masked" not in mended
    assert (
        f"end of an answer: {EOS}; masked: <｜▁pad▁｜> (pad token), {BOS} (BOS token)"
        in mended["special-tokens"].message
    )


def test_pad_token_of_the_workload_that_ends_answers_is_an_error() -> None:
    wrong = found(spec(model={"pad_token": "<|im_end|>"}))["answer-end-masked"]
    assert (wrong.severity, wrong.where) == ("error", "model.pad_token")


def test_olmo_has_one_token_for_bos_and_eos() -> None:
    olmo = {"name": "olmo3-7b", "tokenizer": "allenai/Olmo-3-7B-Instruct"}
    wrong = found(spec(model=olmo))["answer-end-masked"]
    assert "its BOS token" in wrong.message
    assert "model.bos_token: '<|extra_id_0|>'" in wrong.fix
    assert "answer-end-masked" not in found(spec(model={**olmo, "bos_token": "<|extra_id_0|>"}))


def test_unknown_token_replaces_a_missing_pad_token() -> None:
    tokens = SpecialTokens(bos="<s>", eos="</s>", pad="", unk="</s>", ends=("</s>",))
    assert trained_tokens(tokens) == ()
    assert masked_tokens(tokens)["</s>"].startswith("unknown token")
    assert trained_tokens(replace(tokens, unk="<unk>")) == ("</s>",)
    assert trained_tokens(replace(tokens, pad="<pad>")) == ("</s>",)


def test_grain_masks_the_pad_token_alone() -> None:
    grain = {"maxtext": {"dataset_type": "grain", "add_bos": False, "add_eos": False}}
    olmo = {"name": "olmo3-7b", "tokenizer": "allenai/Olmo-3-7B-Instruct"}
    assert "answer-end-masked" not in found(spec(model=olmo, overrides=grain))
    deepseek = found(spec(FLAGSHIP, model={"pad_token": DROP}, overrides=grain))
    assert deepseek["answer-end-masked"].severity == "error"


def test_one_trained_end_token_is_enough() -> None:
    two = TokenizerFacts(
        folder="/t",
        bos="",
        eos="<e>",
        pad="<e>",
        unk="",
        special=("<e>", "<turn>"),
        template="{% for m in messages %}{{ m.content }}<turn><e>{% endfor %}",
    )
    assert "answer-end-masked" not in found(OWN, two)


def test_masked_eos_with_an_unknown_template_is_a_warning() -> None:
    flash = {"name": "deepseek4-284b", "tokenizer": "deepseek-ai/DeepSeek-V4-Flash"}
    wrong = found(spec(model=flash))["answer-end-masked"]
    assert wrong.severity == "warning"
    assert "model.pad_token to a token of its vocabulary" in wrong.fix


def test_template_of_the_workload_replaces_that_of_the_tokenizer() -> None:
    once = "{% if messages[0].role == 'system' %}{{ bos_token }}{% endif %}" + DEEPSEEK_TEMPLATE.removeprefix(
        "{{ bos_token }}"
    )
    workload = spec(FLAGSHIP, overrides={"maxtext": {"chat_template": once}})
    assert set(found(workload)) == {"special-tokens"}
    silent = spec(
        FLAGSHIP, overrides={"maxtext": {"chat_template": "{% for m in messages %}{{ m.content }}{% endfor %}"}}
    )
    assert found(silent)["answer-without-end"].severity == "warning"
    in_the_image = spec(FLAGSHIP, overrides={"maxtext": {"chat_template_path": "/deps/chat.jinja"}})
    assert "end of an answer: unknown" in found(in_the_image)["special-tokens"].message


@pytest.mark.parametrize(
    ("end", "is_missing"), [("", True), ("\n", True), ("{{ eos_token }}", False), ("<|im_end|>", False)]
)
def test_an_own_template_alone_shows_that_an_answer_has_no_end(end: str, *, is_missing: bool) -> None:
    """Its tokenizer is not on this machine, and not in the catalogue."""
    template = f"{{% for m in messages %}}<|{{{{ m.role }}}}|>{{{{ m.content }}}}{end}{{% endfor %}}"
    by_id = found(spec(model={"tokenizer": "./mine"}, overrides={"maxtext": {"chat_template": template}}))
    assert ("answer-without-end" in by_id) == is_missing
    assert "are unknown" in by_id["special-tokens"].message


def test_tokenizer_files_outrank_the_catalogue() -> None:
    mended = replace(DEEPSEEK, pad="<｜▁pad▁｜>")
    assert set(found(OWN, DEEPSEEK)) == {"answer-end-masked", "special-tokens"}
    assert set(found(spec(FLAGSHIP, model={"pad_token": DROP}), mended)) == {"special-tokens"}


def test_template_that_ends_answers_with_plain_text_gives_a_warning() -> None:
    text = replace(DEEPSEEK, template="{% for m in messages %}{{ m.role }}: {{ m.content }}\n###\n{% endfor %}")
    assert found(OWN, text)["answer-end-masked"].severity == "warning"
    assert "trained at the end of an answer: unknown" in found(OWN, text)["special-tokens"].message


def test_token_that_the_vocabulary_lacks_is_an_error() -> None:
    workload = spec(model={"tokenizer": "./mine", "bos_token": "<none>"})
    wrong = found(workload, replace(DEEPSEEK, missing=("<none>",)))["token-unknown"]
    assert (wrong.severity, wrong.where) == ("error", "model.bos_token")


def test_an_unknown_tokenizer_is_reported() -> None:
    special_tokens = found(OWN)["special-tokens"]
    assert "unknown" in special_tokens.message
    assert "tokenizer_config.json" in special_tokens.fix


def test_other_pipelines_and_missing_tokenizers_are_left_to_other_checks() -> None:
    assert ids(check, spec(overrides={"maxtext": {"dataset_type": "tfds"}})) == set()
    assert ids(check, spec(model={"name": "llama2-7b", "tokenizer": DROP})) == set()


def test_every_model_of_the_catalogue_lists_known_tokens() -> None:
    for name, hf_id in ((name, models.model(name).hf_id) for name in models.names()):
        if hf_id:
            special_tokens = found(spec(model={"name": name, "tokenizer": DROP}))["special-tokens"]
            assert special_tokens.message.startswith((f"{hf_id}: special tokens", "The special tokens")), name


def test_template_of_another_model_family_is_reported() -> None:
    chat = {"maxtext": {"chat_template": "{% for m in messages %}<|im_start|>{{ m['content'] }}{% endfor %}"}}
    gemma = {"name": "gemma2-2b", "tokenizer": "google/gemma-2-2b-it"}
    assert "chat-template-foreign" in found(spec(model=gemma, overrides=chat))
    assert "chat-template-foreign" not in found(spec(overrides=chat))
    extended = TokenizerFacts(folder="/t", special=("<|im_start|>", "<eos>"))
    assert "chat-template-foreign" not in found(spec(model=gemma, overrides=chat), extended)
    assert "chat-template-foreign" in found(spec(overrides=chat), replace(extended, special=("<eos>",)))
