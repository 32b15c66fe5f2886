"""Gives an exported model the source model's config.json, and the tokenizer of its training. Runs as a program in
MaxText's environment (`workers.answering`).

MaxText's exporter writes a configuration of its own, as transformers 5 spells it, and a tokenizer that transformers 5
saved: other readers find other position embeddings there, and no tokenizer. So both are taken from where the training
took them, changed by what the training changed and by nothing else.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from xsft.workers.answering import answer_question

CONFIG, GENERATION, ADAPTER = "config.json", "generation_config.json", "adapter_config.json"
TEMPLATE = "chat_template.jinja"
TOKENIZER_FILES = (
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json"),
    *("vocab.txt", "merges.txt", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model"),
    *(TEMPLATE, "chat_template.json"),
)
ROLES = ("bos", "eos", "pad")
MARK = "the-answer-of-xsft"
"""An answer whose end is looked for in the rendered template."""


def answer(job: dict[str, Any]) -> dict[str, Any]:
    """Return `{"ends": [ids], "config": why config.json is MaxText's, or ""}`.

    `folder`: of the exported model; `tokenizer`: folder or repository; `tokenizer_revision`: of a repository,
    or null for its default branch; `pad_token`, `bos_token`, `template`: of the
    training, empty for the tokenizer's own; `source`: ExportSource, or null; `dtype`: of the exported weights;
    `computed`: fields of config.json as MaxText computed with them; `changed`: those that the workload changed;
    `own_rope`: whether it changed the kind of position embeddings, which the exporter wrote.
    """
    folder = Path(job["folder"])
    source = job["source"]
    write_tokenizer(folder, job)
    if (folder / ADAPTER).is_file() and source is not None:
        named = {"base_model_name_or_path": source["repo"], "revision": source["revision"]}
        change_json(folder / ADAPTER, named)
    if not (folder / CONFIG).is_file():
        return {"ends": ends_of(loaded_tokenizer(folder)), "config": ""}
    config, generation, why = source_configs(folder, job)
    config = with_both_spellings(with_changes(config, job))
    write_json(folder / CONFIG, config)  # the tokenizer's loader reads it
    tokenizer = loaded_tokenizer(folder)
    ids = {f"{role}_token_id": getattr(tokenizer, f"{role}_token_id") for role in ROLES}
    own = {name: token for name, token in ids.items() if token is not None}
    ends = ends_of(tokenizer)
    write_json(folder / CONFIG, with_ids(config, own))
    write_json(folder / GENERATION, with_ends(with_ids(generation or own, own), ends))
    return {"ends": ends, "config": why}


def write_tokenizer(folder: Path, job: Mapping[str, Any]) -> None:
    """Replace the exporter's copy of the tokenizer by the files of the training's, with its tokens and template."""
    for name in TOKENIZER_FILES:
        (folder / name).unlink(missing_ok=True)
    for file in files_of(job["tokenizer"], revision=job["tokenizer_revision"], names=TOKENIZER_FILES):
        shutil.copyfile(file, folder / file.name)
    tokens = {f"{role}_token": job[f"{role}_token"] for role in ("pad", "bos") if job[f"{role}_token"]}
    template = {"chat_template": job["template"]} if job["template"] else {}
    if job["template"]:
        (folder / TEMPLATE).write_text(job["template"], encoding="utf-8")
        (folder / "chat_template.json").unlink(missing_ok=True)
    change_json(folder / "special_tokens_map.json", tokens)
    change_json(folder / "tokenizer_config.json", {**tokens, **template})
    settings = folder / "tokenizer_config.json"
    if settings.is_file():
        write_json(settings, readable_by_transformers_4(read_json(settings)))


def readable_by_transformers_4(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return tokenizer_config.json in words that transformers 4 has, too. source: transformers@5.23.0
    tokenization_utils_tokenizers.py (PreTrainedTokenizerFast is an alias there)."""
    changed = dict(settings)
    if changed.get("tokenizer_class") == "TokenizersBackend":
        changed["tokenizer_class"] = "PreTrainedTokenizerFast"
    if isinstance(changed.get("extra_special_tokens"), list):
        changed.setdefault("additional_special_tokens", changed.pop("extra_special_tokens"))
    return changed


def files_of(place: str, *, revision: str | None, names: tuple[str, ...]) -> Iterator[Path]:
    """Yield the files of these names that a folder or a repository of the hub has. Raises as huggingface_hub does."""
    folder = Path(place)
    if not folder.is_dir():
        from huggingface_hub import snapshot_download  # type: ignore[import-not-found]

        folder = Path(snapshot_download(place, revision=revision, allow_patterns=list(names)))
    yield from (folder / name for name in names if (folder / name).is_file())


def source_configs(folder: Path, job: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], str]:
    """Return config.json and generation_config.json of the source model; else MaxText's and {}, and why."""
    source = job["source"]
    exported = with_layer_types_cut(read_json(folder / CONFIG))
    if source is None:
        return exported, {}, "the training started from no Hugging Face model"
    try:
        files = list(files_of(source["repo"], revision=source["revision"], names=(CONFIG, GENERATION)))
    except Exception as failed:  # any error of the hub's client
        if not source["guessed"]:
            raise
        return exported, {}, f"{source['repo']} cannot be read: {failed}"
    found = {file.name: read_json(file) for file in files}
    config = found[CONFIG]
    if job["own_rope"]:
        config = {name: value for name, value in config.items() if name not in ("rope_theta", "rope_scaling")}
        config["rope_parameters"] = exported["rope_parameters"]
    return config, found.get(GENERATION, {}), ""


def with_layer_types_cut(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return MaxText's configuration with as many kinds of layers as layers: it changes only their number."""
    changed = dict(config)
    if isinstance(config.get(TEXT), Mapping):
        changed[TEXT] = with_layer_types_cut(config[TEXT])
    if isinstance(config.get("layer_types"), list):
        changed["layer_types"] = config["layer_types"][: config["num_hidden_layers"]]
    return changed


def with_changes(config: Mapping[str, Any], job: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration with the values that MaxText trained with, and the data type of the export."""
    section = config[TEXT] if isinstance(config.get(TEXT), Mapping) else config
    named = {**section.get("rope_parameters", {}), **section}
    changed = {
        name: value
        for name, value in job["computed"].items()
        if name in job["changed"] or (name in named and named[name] != value)
    }
    dtypes = {name: job["dtype"] for name in ("dtype", "torch_dtype") if name in section}
    outer = {name: job["dtype"] for name in ("dtype", "torch_dtype") if name in config}
    if "rope_theta" in changed and isinstance(section.get("rope_parameters"), Mapping):
        changed["rope_parameters"] = {**section["rope_parameters"], "rope_theta": changed["rope_theta"]}
    if section is config:
        return {**config, **changed, **dtypes}
    return {**config, **outer, TEXT: {**section, **changed, **dtypes}}


def with_ids(config: Mapping[str, Any], ids: Mapping[str, int]) -> dict[str, Any]:
    """Return the configuration with the tokenizer's ids in place of others that it names."""
    wrong = {name: own for name, own in ids.items() if name in config and own not in as_list(config[name])}
    return {**config, **wrong}


def with_ends(generation: Mapping[str, Any], ends: list[int]) -> dict[str, Any]:
    """Return generation_config.json with every token at which a server must stop."""
    known = as_list(generation.get("eos_token_id"))
    every = [*known, *(end for end in ends if end not in known)]
    return {**generation, "eos_token_id": every or None}


def as_list(ids: Any) -> list[Any]:
    if ids is None:
        return []
    return list(ids) if isinstance(ids, list) else [ids]


def loaded_tokenizer(folder: Path) -> Any:
    import transformers  # type: ignore[import-not-found]

    return transformers.AutoTokenizer.from_pretrained(folder)


def ends_of(tokenizer: Any) -> list[int]:
    """Return the tokens that end an answer: the EOS, and the first special token after an answer in the template."""
    found = [] if tokenizer.eos_token_id is None else [int(tokenizer.eos_token_id)]
    if not tokenizer.chat_template:
        return found
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": MARK}]
    _, _, tail = tokenizer.apply_chat_template(turns, tokenize=False).rpartition(MARK)
    special = {*tokenizer.all_special_ids, *tokenizer.added_tokens_decoder}
    after = (token for token in tokenizer(tail, add_special_tokens=False)["input_ids"] if token in special)
    first = next(after, None)
    return found if first is None or first in found else [*found, int(first)]


def change_json(file: Path, changes: Mapping[str, Any]) -> None:
    if changes and file.is_file():
        write_json(file, {**read_json(file), **changes})


def read_json(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


GLOBAL, LOCAL = "full_attention", "sliding_attention"
"""Kinds of layers that have their own parameters in transformers 5."""
TEXT = "text_config"


def with_both_spellings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return config.json with the position embeddings as transformers 4 and 5 name them, in the part of the language
    model, too.

    transformers 4 (vLLM, mlx-lm) reads `rope_theta` and `rope_scaling`, and of Gemma 3 `rope_local_base_freq`;
    transformers 5 reads `rope_parameters`, else those. A reader that does not find its own spelling takes a default,
    without an error. source: transformers@4.57.6 and @5.23.0 modeling_rope_utils.py,
    models/gemma3/configuration_gemma3.py
    """
    inner = config.get(TEXT)
    texts = {TEXT: with_both_spellings(inner)} if isinstance(inner, Mapping) else {}
    parameters = config.get("rope_parameters")
    if isinstance(parameters, Mapping):
        return {**_as_transformers_4(parameters), **config, **texts}
    if "rope_theta" in config:
        return {**config, "rope_parameters": _as_transformers_5(config), **texts}
    return {**config, **texts}


def _as_transformers_4(parameters: Mapping[str, Any]) -> dict[str, Any]:
    if GLOBAL not in parameters:
        return _flat(parameters)
    found = _flat(parameters[GLOBAL])
    local = parameters.get(LOCAL) or {}
    if "rope_theta" in local:
        found["rope_local_base_freq"] = local["rope_theta"]
    return found


def _flat(parameters: Mapping[str, Any]) -> dict[str, Any]:
    scaling = {name: value for name, value in parameters.items() if name not in ("rope_theta", "partial_rotary_factor")}
    outside = {name: parameters[name] for name in ("rope_theta", "partial_rotary_factor") if name in parameters}
    if scaling.get("rope_type", "default") == "default":
        return {**outside, "rope_scaling": None}
    return {**outside, "rope_scaling": scaling}


def _as_transformers_5(config: Mapping[str, Any]) -> dict[str, Any]:
    scaling = dict(config.get("rope_scaling") or {})
    kind = scaling.pop("type", None)
    scaling.setdefault("rope_type", kind or "default")
    parameters = {**scaling, "rope_theta": config["rope_theta"]}
    if "partial_rotary_factor" in config:
        parameters["partial_rotary_factor"] = config["partial_rotary_factor"]
    if "rope_local_base_freq" not in config:
        return parameters
    local = {"rope_type": "default", "rope_theta": config["rope_local_base_freq"]}
    return {GLOBAL: parameters, LOCAL: local}


if __name__ == "__main__":
    answer_question(answer)
