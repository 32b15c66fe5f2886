"""Check the special tokens that MaxText trains at the end of an answer. Pure.

A target is masked when it equals the pad token (without a pad token: the unknown token); Hugging Face's pipeline masks
the BOS, too, and Grain's does not. source: maxtext@0.2.5 maxtext/input_pipeline/hf_data_processing.py [_get_pad_id,
preprocessing_pipeline], data_processing_utils.py [format_and_batch]; the same in all releases from 0.1.0 (Grain:
0.2.2). tests/contract/test_special_tokens.py asks MaxText's pipelines.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from xsft.base.problems import Problem, error, note, warning
from xsft.catalog.tokenizers import SpecialTokens, special_tokens, tokenizer_family
from xsft.checks.facts import Facts
from xsft.checks.trainer_keys import is_on
from xsft.data.facts import TokenizerFacts
from xsft.spec.base import Keys
from xsft.spec.resolve import Run
from xsft.trainer.chat import TOKENS, chat_format

UNKNOWN = SpecialTokens(eos=TOKENS["eos_token"])
"""Those of an unknown tokenizer, whose EOS a template may name."""


def check(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    """Check for a masked end of answers; a note if the tokenizer is unknown."""
    if run.tokenizer is None or not reads_texts(keys):
        return
    if facts.tokenizer_problem:
        yield facts.tokenizer_problem
        return
    model = run.spec.model
    for field, token in (("pad_token", model.pad_token), ("bos_token", model.bos_token)):
        if facts.tokenizer and token in facts.tokenizer.missing:
            message = (
                f"The tokenizer in {facts.tokenizer.folder} has no token {token}; the run would fail at its start."
            )
            yield error("token-unknown", f"model.{field}", message, "Use a token of its vocabulary.")
    yield from _check_foreign_template(run, str(keys.get("chat_template") or ""), facts.tokenizer)
    tokens = special_tokens_of(run, keys, facts.tokenizer)
    yield from _check_answer_end(run, tokens)
    if _known_tokens(run, facts.tokenizer) is None:
        message = f"The special tokens that MaxText trains and masks with {run.tokenizer} are unknown."
        fix = (
            "Look at its tokenizer_config.json: the token that ends an answer must be neither pad_token nor "
            "bos_token, nor unk_token where there is no pad_token."
        )
        yield note("special-tokens", "model.tokenizer", message, fix)
    else:
        trained = ", ".join(trained_tokens(tokens)) or ("none" if tokens.ends is not None else "unknown")
        masked = (
            ", ".join(f"{token} ({why.partition(',')[0]})" for token, why in masked_tokens(tokens).items()) or "none"
        )
        message = f"{run.tokenizer}: special tokens trained at the end of an answer: {trained}; masked: {masked}."
        yield note("special-tokens", "model.tokenizer", message)


def reads_texts(keys: Keys) -> bool:
    """Return whether the input pipeline renders conversations by the tokenizer's template."""
    return (keys.get("dataset_type") or "hf") in ("hf", "grain")


def masked_tokens(tokens: SpecialTokens) -> dict[str, str]:
    """Return each masked token with the reason why MaxText masks it, as far as is known."""
    masked = {}
    if tokens.pad:
        masked[tokens.pad] = "pad token"
    elif tokens.pad == "" and tokens.unk:
        masked[tokens.unk] = "unknown token, which is used as pad token"
    if tokens.bos:
        masked.setdefault(tokens.bos, "BOS token")
    return masked


def trained_tokens(tokens: SpecialTokens) -> tuple[str, ...]:
    """Return the special tokens after an answer whose prediction is trained."""
    return tuple(token for token in tokens.ends or () if token not in masked_tokens(tokens))


def special_tokens_of(run: Run, keys: Keys, read: TokenizerFacts | None) -> SpecialTokens:
    """Return the tokens of the tokenizer's files, else of the catalogue; with the workload's own tokens and chat
    template."""
    original = _known_tokens(run, read) or UNKNOWN  # an own template alone shows whether an answer has an end
    model = run.spec.model
    tokens = replace(original, pad=model.pad_token or original.pad, bos=model.bos_token or original.bos)
    template = keys.get("chat_template") or (read.template if read else None)
    if keys.get("chat_template_path"):
        return _as_masked(replace(tokens, ends=None, repeats=None), keys)
    return _as_masked(_template_tokens(tokens, template, read) if isinstance(template, str) else tokens, keys)


def _as_masked(tokens: SpecialTokens, keys: Keys) -> SpecialTokens:
    """Return the tokens as the pipeline masks them: with Grain the BOS is not masked, and an EOS follows each
    answer.
    """
    if keys.get("dataset_type") != "grain":
        return tokens
    added = tokens.eos if is_on(keys.get("add_eos", True)) else None
    ends = tokens.ends if tokens.ends is None or not added else tuple(dict.fromkeys((*tokens.ends, added)))
    return replace(tokens, bos=None, ends=ends)


def _known_tokens(run: Run, read: TokenizerFacts | None) -> SpecialTokens | None:
    if read:
        return SpecialTokens(bos=read.bos, eos=read.eos, pad=read.pad, unk=read.unk)
    return special_tokens(run.tokenizer or "")


def _template_tokens(tokens: SpecialTokens, template: str, read: TokenizerFacts | None) -> SpecialTokens:
    """Return the tokens as this template writes them; unknown if it cannot be rendered, or ends answers with other
    text."""
    named = {"bos_token": tokens.bos, "eos_token": tokens.eos, "pad_token": tokens.pad, "unk_token": tokens.unk}
    rendered = chat_format(template, {name: token for name, token in named.items() if token})
    if rendered is None:
        return replace(tokens, ends=None, repeats=None)
    special = read.special if read else (*(tokens.ends or ()), *(token for token in named.values() if token))
    ends = tuple(dict.fromkeys(token for token in special if token in rendered.after_answer))
    text = bool(rendered.after_answer.strip())
    return replace(tokens, ends=ends or (None if text else ()), repeats=rendered.repeated)


MARKERS = {
    "<|im_start|>": {"gemma", "gemma3", "llama2", "llama3", "mistral-v1", "mistral-v3"},
    "<|start_header_id|>": {"gemma", "gemma3", "llama2", "mistral-v1", "mistral-v3", "olmo3", "qwen", "qwen3.5"},
    "<start_of_turn>": {"llama2", "llama3", "mistral-v1", "mistral-v3", "olmo3", "qwen", "qwen3.5"},
}
"""Tokens at the start of a message, and families whose vocabularies lack them. source: the models' tokenizer.json"""


def _check_foreign_template(run: Run, template: str, read: TokenizerFacts | None) -> Iterator[Problem]:
    """Check for a template of another model: its markers become several ordinary tokens each, without an error."""
    family = tokenizer_family(run.tokenizer or "")
    for marker, without in MARKERS.items():
        lacks = marker not in read.special if read and read.special else family in without
        if marker in template and lacks:
            message = (
                f"data.chat_template writes {marker}, which is not a token of {run.tokenizer}: it is read as plain "
                "text."
            )
            fix = "Use the template of this model, or a tokenizer and weights that have the token."
            yield warning("chat-template-foreign", "data.chat_template", message, fix)


def _check_answer_end(run: Run, tokens: SpecialTokens) -> Iterator[Problem]:
    masked = masked_tokens(tokens)
    if tokens.ends == ():
        message = "The chat template writes no token after an answer, so the model does not learn to stop."
        fix = "Change it to write the EOS after each answer."
        yield warning("answer-without-end", "data.chat_template", message, fix)
    elif tokens.ends and not trained_tokens(tokens):
        end = tokens.ends[0]
        message = (
            f"{run.tokenizer} ends an answer with {end}, which is also its {masked[end]}: MaxText masks every target "
            "equal to it, so the model never learns to stop."
        )
        yield error("answer-end-masked", _token_key(run, end), message, _way_out(tokens, masked[end]))
    elif tokens.ends is None and tokens.eos in masked:
        message = (
            f"The EOS of {run.tokenizer}, {tokens.eos}, is also its {masked[tokens.eos or '']}: MaxText masks every "
            "target equal to it. If it ends the answers, the model never learns to stop."
        )
        fix = _way_out(tokens, masked[tokens.eos or ""])
        yield warning("answer-end-masked", _token_key(run, tokens.eos), message, fix)


def _token_key(run: Run, token: str | None) -> str:
    model = run.spec.model
    if token == model.pad_token:
        return "model.pad_token"
    return "model.bos_token" if token == model.bos_token else "model.tokenizer"


def _way_out(tokens: SpecialTokens, why: str) -> str:
    field = "model.bos_token" if why.startswith("BOS") else "model.pad_token"
    if tokens.unused and tokens.unused not in (tokens.pad, tokens.bos):
        return f"Set {field}: {tokens.unused!r}; each host then uses a copy of the tokenizer with it."
    return f"Set {field} to a token of its vocabulary that no text uses; each host then copies the tokenizer with it."
