"""Check the model and its tokenizer: known to the release, convertible, and of one family. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from types import MappingProxyType

from xsft.base.problems import Problem, error, note, warning
from xsft.catalog.models import context_length, suggest
from xsft.catalog.releases import at_least, models_of
from xsft.catalog.tokenizers import has_chat_template, tokenizer_family, tokenizer_fits
from xsft.catalog.weights import WeightsFailure, weights_failure
from xsft.checks.facts import Facts
from xsft.checks.trainer_keys import is_on, number, same, where_of
from xsft.data.facts import TokenizerFacts
from xsft.records.record import Record
from xsft.spec.base import Keys
from xsft.spec.conversion_inputs import is_folder
from xsft.spec.paths import is_local
from xsft.spec.resolve import Run


def check(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    """Check for names that MaxText does not know, and for weights or tokenizers of another model."""
    is_known = run.spec.model.name in models_of(run.release.version)
    if not is_known:
        yield _model_unknown(run)
    yield from _check_initial_weights(run)
    if run.spec.model.hf is not None and is_known:
        yield from _check_convertible(run)
    yield from _check_weights_source(run)
    yield from _check_tokenizer(run)
    yield from _check_tokens_in_embedding(run, keys, facts)
    yield from _check_chat_template(run, keys, facts.tokenizer)
    default = run.pins.get("scan_layers", True) is True
    if run.model is not None and run.model.unscanned and is_on(keys.get("scan_layers", default)):
        message = f"{run.model.name} cannot scan its layers; MaxText refuses scan_layers: true."
        yield error("scan-layers-model", where_of("scan_layers", run), message, "Set model.scan_layers: false.")
    # A sparse indexer's settings. source: maxtext@0.2.5 configs/types.py, "Sparse indexer with mla" and
    # "DeepSeek4 is only supported with".
    attention = keys.get("attention", "autoselected")
    splash = attention == "flash" and is_on(keys.get("use_tokamax_splash"))
    has_indexer = run.pins.get("use_indexer") or run.pins.get("use_sparse_indexer")  # its name in 0.2.0
    if has_indexer and attention != "dot_product" and not splash:
        message = f"{run.spec.model.name} has a sparse indexer, for which MaxText refuses attention={attention}."
        fix = "Set in overrides.maxtext attention: flash and use_tokamax_splash: true, or attention: dot_product."
        yield error("indexer-attention", where_of("attention", run) or "model.name", message, fix)
    yield from _check_architecture(run, keys)


def _model_unknown(run: Run) -> Problem:
    name = run.spec.model.name
    version = run.release.version
    names = models_of(version)
    similar = [n for n in suggest(name) if n in names] or get_close_matches(
        name.lower(), sorted(names), n=3, cutoff=0.5
    )
    if run.model is not None:
        fix = f"Use an image with a newer MaxText, or one of: {', '.join(similar) or ', '.join(sorted(names))}."
        return error("model-unknown", "model.name", f"MaxText {version} has no model {name!r}; 0.2.5 has.", fix)
    fix = f"Did you mean {' or '.join(similar)}?" if similar else f"Known: {', '.join(sorted(names))}."
    return error("model-unknown", "model.name", f"MaxText {version} has no model {name!r}.", fix)


def _check_initial_weights(run: Run) -> Iterator[Problem]:
    model = run.spec.model
    if model.checkpoint and model.hf:
        message = "Both checkpoint and hf are given; checkpoint is for converted weights, hf for weights to convert."
        yield error("checkpoint-and-hf", "model", message, "Remove one of them.")
    if not model.checkpoint and not model.hf:
        message = "No initial weights: the run starts from random ones."
        fix = "Set model.checkpoint (converted) or model.hf (to convert)."
        if run.spec.on_this_machine:
            yield note("no-initial-checkpoint", "model", message, fix)
        else:
            yield warning("no-initial-checkpoint", "model", message, fix)
    if run.model is not None and not run.model.built_in:
        message = (
            f"MaxText has no configuration for {run.model.name} and silently builds its default model of 1e9 "
            "parameters."
        )
        yield error("model-not-built-in", "model.name", message, "Choose another model.")


def _check_convertible(run: Run) -> Iterator[Problem]:
    hf = run.spec.model.hf
    model = run.model
    if hf is None or model is None:
        return
    failure = weights_failure(
        model.name,
        stage="convert",
        version=run.release.version,
        scan_layers=run.spec.model.scan_layers is not False,
    )
    if failure is not None:
        message = f"to_maxtext of MaxText {run.release.version} cannot convert {model.name}: {failure.why}."
        yield error("model-not-convertible", "model.hf", message, _way_to_convert(failure))
    elif hf.repo != model.hf_id and run.release.layout == "legacy":
        message = (
            f"MaxText {run.release.version} converts {model.name} from {model.hf_id} only: it has no --hf_model_path, "
            f"so {hf.repo} would be ignored."
        )
        yield error("hf-repo-legacy", "model.hf.repo", message, f"Use {model.hf_id}, or MaxText 0.2.0 or newer.")
    elif hf.repo != model.hf_id:
        message = f"{model.name} is converted from {hf.repo} instead of MaxText's own choice, {model.hf_id}."
        yield note("hf-other-weights", "model.hf.repo", message)
    elif model.converts_tuned_weights:
        message = (
            f"{model.name} means {model.hf_id}, whose weights are instruction-tuned, although the name does not say so."
        )
        yield note(
            "hf-tuned-weights", "model.hf.repo", message, "For the base model, set its repository in model.hf.repo."
        )


def _check_weights_source(run: Run) -> Iterator[Problem]:
    hf = run.spec.model.hf
    if hf is not None and is_folder(hf.repo):
        if run.spec.on_cluster:
            message = f"{hf.repo} is a folder on this machine; a conversion on a cluster cannot read it."
            fix = (
                "Use a Hugging Face repository, or convert here (target: local) and set model.checkpoint to the result."
            )
            yield error("hf-folder-on-cluster", "model.hf.repo", message, fix)
        if hf.revision:
            message = f"{hf.repo} is a folder, which has no revisions: {hf.revision} would be ignored."
            yield error("hf-folder-revision", "model.hf.revision", message, "Remove revision.")
    # Check that the release can convert a given revision. source: maxtext@0.2.5
    # checkpoint_conversion/to_maxtext.py, the first release with --revision.
    hf = run.spec.model.hf
    if hf is not None and hf.revision and not at_least(run.release.version, "0.2.5"):
        message = (
            f"MaxText {run.release.version} always converts the newest weights of {hf.repo}; 0.2.5 supports a revision."
        )
        yield error("hf-revision-release", "model.hf.revision", message, "Remove revision, or use MaxText 0.2.5.")


def _way_to_convert(failure: WeightsFailure) -> str:
    if failure.unscanned_works:
        return "Set model.scan_layers: false."
    if failure.working_release is not None:
        return f"Convert with MaxText {failure.working_release}, and set model.checkpoint to the result."
    return (
        "Convert with MaxText's own script for the model, and set model.checkpoint to the result; or use another model."
    )


def _check_tokenizer(run: Run) -> Iterator[Problem]:
    tokenizer = run.tokenizer
    version = run.release.version
    pinned = run.spec.model.tokenizer_revision
    if tokenizer and pinned and is_local(tokenizer):
        message = f"{tokenizer} is a folder, which has no revisions: {pinned} would be ignored."
        yield error("hf-folder-revision", "model.tokenizer_revision", message, "Remove tokenizer_revision.")
    if tokenizer is None:
        default = (
            "Llama 2's"
            if run.release.needs_tokenizer_path
            else "Llama 2's, because MaxText has no default for this model"
        )
        message = f"No tokenizer: MaxText {version} would silently use {default}, and train on wrong tokens."
        yield error("tokenizer-missing", "model.tokenizer", message, f"Set one, e.g. {_example(run)}.")
    elif run.spec.data.pipeline != "grain" and _is_file(tokenizer):
        message = f"{tokenizer} is a file; Hugging Face's pipeline loads a tokenizer from a folder or a repository."
        yield error("tokenizer-unreadable", "model.tokenizer", message, f"Use its folder, or {_example(run)}.")
    elif run.model is not None and tokenizer_fits(family=run.model.tokenizer_family, repo=tokenizer) is False:
        message = (
            f"{tokenizer} is a {tokenizer_family(tokenizer) or 'foreign'} tokenizer, and {run.model.name} reads "
            f"{run.model.tokenizer_family} tokens."
        )
        yield error("tokenizer-family", "model.tokenizer", message, f"Use {_example(run)}.")


def _is_file(tokenizer: str) -> bool:
    """Return whether the name is that of a SentencePiece or tiktoken file, or of a file in a tokenizer's folder."""
    name = tokenizer.rpartition("/")[2]
    return name.startswith("tokenizer.") or name.endswith((".model", ".json", ".tiktoken"))


ONE_MORE = frozenset({"gemma3", "gemma4"})
"""Families whose tokenizer has an image token after the last row; no text contains it."""


def _check_tokens_in_embedding(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    """Check for tokens without a row in the embedding: JAX uses the last row instead, without an error. If the rows of
    the weights are known, checks.conversion checks them."""
    tokens = facts.tokenizer.vocabulary if facts.tokenizer else None
    rows = number(keys.get("vocab_size")) or (run.model.vocab if run.model else None)
    is_known = facts.source is not None and facts.source.vocabulary is not None
    if tokens is None or not rows or is_known or run.model is None or run.model.tokenizer_family in ONE_MORE:
        return
    if tokens > rows:
        message = (
            f"{run.tokenizer} has token ids up to {tokens - 1:,}, but the embedding of {run.spec.model.name} has"
            f" {rows:,.0f} rows: every id beyond them is read as the last row, without an error."
        )
        fix = (
            "Use the tokenizer that came with the weights, or remove the tokens that were added to it, e.g. a pad "
            "token."
        )
        yield warning("tokenizer-vocabulary", "model.tokenizer", message, fix)


def _example(run: Run) -> str:
    repository = run.model.hf_id if run.model else None
    return repository or "the model's repository on Hugging Face"


def _check_chat_template(run: Run, keys: Keys, read: TokenizerFacts | None) -> Iterator[Problem]:
    """Check for a chat template: every column set becomes a conversation that the tokenizer's template formats
    (hf_data_processing.py). The tokenizer's files are read if they are on this machine."""
    tokenizer = run.tokenizer
    in_image = str(keys.get("chat_template_path") or "").startswith("/") and at_least(run.release.version, "0.2.2")
    if tokenizer is None or keys.get("chat_template") or in_image:
        return
    if bool(read.template) if read else has_chat_template(tokenizer) is not False:
        return
    message = f"{tokenizer} is a tokenizer without a chat template; MaxText fails at the first row."
    fix = "Set data.chat_template, or use the tokenizer of the instruction-tuned model."
    yield error("chat-template-missing", "data.chat_template", message, fix)


BUILT_WITH: Keys = MappingProxyType(
    {
        "attention_type": "global",
        "sliding_window_size": 0,
        "chunk_attn_window_size": 0,
        "attn_logits_soft_cap": 0,
        "final_logits_soft_cap": 0,
        "normalize_embedding_logits": True,
        "rope_type": "default",
        "rope_max_timescale": 10_000,
        "rope_min_timescale": 1,
        "partial_rotary_factor": 1,
        "rope_interleave": True,
        "rope_linear_scaling_factor": 1,
        "use_mrope": False,
        "nope_layer_interval": -1,
        "norm_topk_prob": False,
        "routed_score_func": "",
        "routed_scaling_factor": 1,
        "num_experts_per_tok": 1,
        "temperature_tuning": False,
        "moba": False,
        "mlp_activations_limit": -1,
        "normalization_layer_epsilon": 1e-5,
        "use_untrainable_positional_embedding": False,
        "v_norm_with_scale": True,
    }
)
"""Keys that change a model's computation but none of its arrays, with MaxText's defaults. They hold for a model whose
configuration does not set the key. source: maxtext@0.2.5 configs/base.yml."""
BUILT_BY_MODEL = frozenset(
    {
        *BUILT_WITH, "beta_fast", "beta_slow", "compressed_rope_max_timescale", "global_rope_max_timescale",
        "global_rope_proportion", "interleave_moe_layer_step", "local_rope_max_timescale", "local_rope_proportion",
        "logits_via_embedding", "mlp_activations", "mscale", "n_routing_groups",
        "original_max_position_embeddings", "rope_attention_scaling", "rope_factor", "rope_truncate", "rope_use_scale",
        "topk_routing_group",
    }
)  # fmt: skip
"""Such keys that models set in their own configuration; override_model_config lets MaxText accept another value."""


def _check_architecture(run: Run, keys: Keys) -> Iterator[Problem]:
    """Check for keys that change the computation that the weights were trained with. A longer context may need other
    position embeddings."""
    weights = run.spec.model.checkpoint or run.spec.model.hf
    longest = context_length(run.spec.model.name)
    length = number(keys.get("max_target_length")) or 0
    for key in run.spec.overrides.maxtext if weights and run.model else ():
        trained = run.pins.get(key, BUILT_WITH.get(key))
        setting = keys.get(key)
        lengthens = key.startswith("rope_") and longest is not None and length > longest
        is_pinned = key in run.pins and not is_on(
            keys.get("override_model_config", False)
        )  # override-model-key, trainer_keys
        if None in (trained, setting) or key not in BUILT_BY_MODEL or is_pinned or same(setting, trained) or lengthens:
            continue
        message = (
            f"{run.spec.model.name} was trained with {key} {trained!r}, but {setting!r} is given: the weights load, "
            "and the model computes other results without an error."
        )
        yield warning("architecture-changed", where_of(key, run), message, "Remove it, or give a reason under checks:.")


PARTS = {"tokenizer": "model.tokenizer", "data": "data.hf_path"}
"""Part of a run that may be on the hub -> its key."""


def moved_commits(run: Run, earlier: Iterable[Record]) -> Iterator[Problem]:
    """Yield a warning for each repository of the hub that has another commit than the run's records name."""
    then: dict[str, str] = {}
    for record in earlier:
        then |= record.hub_commits
    fixes = {
        "tokenizer": f"A new run can keep the earlier one: model.tokenizer_revision: {then.get('tokenizer')}.",
        "data": "MaxText has no key for it; xsft data prepare copies the rows of one commit.",
    }
    for part, commit in run.hub_commits.items():
        if then.get(part, commit) != commit:
            message = f"The {part} is read at commit {commit} of the hub; an earlier attempt read {then[part]}."
            yield warning("hf-revision-moved", PARTS[part], message, fixes[part])
