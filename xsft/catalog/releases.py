"""MaxText releases: layout, keys, models and the facts that differ between them. Pure.

source: maxtext, the wheels of 0.2.0–0.2.5 and the tags named in releases.toml; tests/catalog/test_releases.py compares
keys and nested keys of DEFAULT with the installed MaxText.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from typing import Literal

from msgspec import Struct, convert

from xsft.catalog.data import catalog_text, toml

Layout = Literal["legacy", "current"]
WeightsStage = Literal["convert", "export"]

DEFAULT = "0.2.5"
"""The release that xsft installs for local runs, and assumes for an image without a version."""


MAPPINGS = frozenset({"formatting_func_kwargs"})
"""Keys whose value is a user-defined mapping: any sub-key is valid."""


class Release(Struct, frozen=True, kw_only=True):
    """The facts of one MaxText release; releases.toml explains each field."""

    version: str
    layout: Layout
    trainer: str
    """Module of the SFT trainer, for `python3 -m`."""
    sft_config: str
    base_config: str
    to_maxtext: str
    to_huggingface: str
    positional_yml: bool
    needs_tokenizer_path: bool
    hf_access_token_none: bool
    lazy_load_flag: bool
    lazy_load_default: bool
    scan_layers_auto: bool
    moe_eval_crash: bool
    saves_optimizer: bool
    gradient_clipping: bool
    reads_sft_checkpoint: bool
    nested: Mapping[str, tuple[str, ...]]
    """Keys with sub-keys, written `lora.lora_rank` on the command line."""
    requires: Mapping[str, str]
    """The oldest version of each package that its SFT trainer is released for, by the package's name."""


def release(version: str) -> Release:
    """Return the release. Raises ValueError, with the known releases, for any other version."""
    releases = _releases()
    if version not in releases:
        close = get_close_matches(version, releases, n=1, cutoff=0.6)
        hint = f"Did you mean {close[0]!r}? " if close else ""
        raise ValueError(f"MaxText {version!r} is not a release xsft knows. {hint}Known: {', '.join(releases)}.")
    return releases[version]


def versions() -> tuple[str, ...]:
    """Return the known versions, oldest first."""
    return tuple(toml("releases.toml"))


def at_least(version: str, oldest: str) -> bool:
    """Return whether `version` is `oldest` or newer."""
    order = versions()
    return order.index(release(version).version) >= order.index(release(oldest).version)


@cache
def keys(version: str) -> frozenset[str]:
    """Return the top-level keys that the SFT trainer of this release takes on its command line."""
    return frozenset(name for name, (mask, _) in _masks("release_keys.txt").items() if mask & _bit(version))


@cache
def models_of(version: str) -> frozenset[str]:
    """Return the values of `model_name` that this release supports."""
    return frozenset(name for name, (mask, _) in _masks("release_models.txt").items() if mask & _bit(version))


@cache
def weights_models(version: str, *, stage: WeightsStage) -> frozenset[str]:
    """Return the models that the release's tables of names convert from Hugging Face's format, or export to it."""
    masks = _masks("release_weights.txt")
    column = ("convert", "export").index(stage)
    return frozenset(name for name, row in masks.items() if row[column] & _bit(version))


class Defect(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A known defect of one or more releases; release_defects.toml explains each field."""

    what: str
    severity: Literal["error", "warning", "note"]
    since: str
    fixed: str = ""
    models: tuple[str, ...] = ("",)
    converts: bool = False
    when: Mapping[str, tuple[str, ...]] = {}
    way_round: str = ""
    source: str
    code: tuple[str, str]
    repaired: bool = False


convert({}, dict[str, Defect])  # here, in the main thread: two threads that first describe a type crash the process


def defects(version: str) -> tuple[Defect, ...]:
    """Return the known defects that this release has."""
    return tuple(
        defect
        for defect in convert(toml("release_defects.toml"), dict[str, Defect]).values()
        if at_least(version, defect.since) and not (defect.fixed and at_least(version, defect.fixed))
    )


def nested_key_ok(key: str, *, version: str = DEFAULT) -> bool:
    """Return whether a key such as `lora.lora_rank` names a sub-key of this release."""
    parent, _, child = key.partition(".")
    free = parent in MAPPINGS and parent in keys(version)
    return free or child in release(version).nested.get(parent, ())


def is_known(key: str) -> bool:
    """Return whether any release has a key of this name, for the SFT trainer or another."""
    return key in _masks("release_keys.txt")


def key_ok(key: str, *, version: str = DEFAULT) -> bool:
    """Return whether the SFT trainer takes `key`, nested or not; a parent alone (`lora`) cannot be set."""
    if "." in key:
        return nested_key_ok(key, version=version)
    return key in keys(version) and key not in release(version).nested


def key_hint(key: str, *, version: str = DEFAULT) -> str:
    """Return advice on a key that `key_ok` rejects: one sentence, never empty."""
    parents = [f"{parent}.{key}" for parent, children in release(version).nested.items() if key in children]
    if parents:
        return f"Write {' or '.join(parents)}."
    if new := new_name(key, version=version):
        return f"MaxText {version} calls it {new}."
    if key in release(version).nested:
        return f"Set one of its sub-keys: {', '.join(f'{key}.{child}' for child in release(version).nested[key])}."
    if _masks("release_keys.txt").get(key, (0, 0))[1] & _bit(version):
        return "It is a key of MaxText's RL trainer; the SFT trainer refuses it."
    having = releases_with(key)
    if having:
        order = versions()
        span = ", ".join(having)
        if len(having) > 1 and order[order.index(having[0]) : order.index(having[-1]) + 1] == having:
            span = f"{having[0]} to {having[-1]}"
        return f"The SFT trainer has it only in MaxText {span}, not in {version}."
    children = (f"{parent}.{child}" for parent, names in release(version).nested.items() for child in names)
    known_keys = sorted(keys(version) - set(release(version).nested)) + sorted(children)
    close = get_close_matches(key, known_keys, n=3, cutoff=0.6)
    return f"Did you mean {', '.join(close)}?" if close else f"MaxText {version} has no such key; remove it."


def new_name(key: str, *, version: str = DEFAULT) -> str | None:
    """Return the key that this release has in place of an earlier one, or of another trainer's; None if there is
    none."""
    table = toml("renamed_keys.toml")
    new: str | None = {**table["others"], **table["renamed"]}.get(key)
    return new if new and key_ok(new, version=version) and not key_ok(key, version=version) else None


def releases_with(key: str) -> tuple[str, ...]:
    """Return the releases whose SFT trainer takes the top-level `key`, oldest first."""
    mask = _masks("release_keys.txt").get(key, (0, 0))[0]
    return tuple(version for version in versions() if mask & _bit(version))


@cache
def _releases() -> dict[str, Release]:
    facts: dict[str, object] = {}
    releases: dict[str, Release] = {}
    for version, news in toml("releases.toml").items():
        facts = facts | {key: _freeze_lists(value) for key, value in news.items()}
        releases[version] = Release(version=version, **facts)  # type: ignore[arg-type]
    return releases


def _freeze_lists(value: object) -> object:
    if not isinstance(value, dict):
        return value
    return {key: tuple(inner) if isinstance(inner, list) else inner for key, inner in value.items()}


def _bit(version: str) -> int:
    return 1 << versions().index(release(version).version)


@cache
def _masks(name: str) -> dict[str, tuple[int, int]]:
    """Return name → (releases with the key, releases where another program has it); the head of the file explains the
    masks.
    """
    rows = (line.split() for line in catalog_text(name).splitlines() if line and not line.startswith("#"))
    return {row[0]: (int(row[1], 16), int(row[2], 16) if len(row) > 2 else 0) for row in rows}


POLICIES = (
    *("none", "full", "minimal", "minimal_flash", "minimal_with_context", "minimal_with_quantization"),
    *("minimal_with_context_and_quantization", "save_dot_with_context_except_mlp", "save_dot_except_mlpwi"),
    *("save_dot_except_mlp", "save_qkv_proj", "qkv_proj_offloaded", "minimal_offloaded", "custom", "save_out_proj"),
)
"""source: maxtext@0.2.5 layers/nnx_decoders.py: "Remat policy needs to be on list of remat policies"."""
KERNELS = (
    *("autoselected", "dot_product", "flash", "paged"),
    *("cudnn_flash_te", "cudnn_flash_jax", "vllm_rpa", "vllm_batched_rpa"),
)
"""source: maxtext@0.2.5 layers/attention_op.py [apply_attention]."""
MOMENTS = ("", "float32", "bfloat16", "float16")
"""Floating-point types of Adam's first moment that NumPy knows by name and that hold it. source: maxtext@0.2.5
configs/pyconfig.py: `jnp.dtype(mu_dtype)`."""
RINGS = ("", "hybrid_ring_64x4", "hybrid_ring_32x8")
"""source: maxtext@0.2.5 utils/max_utils.py [is_valid_custom_mesh]."""
LATER = {"remat_policy": POLICIES, "attention": KERNELS, "mu_dtype": MOMENTS, "custom_mesh": RINGS}
"""Values of texts that MaxText's parser lets pass, and its model refuses."""


class KeyType(Struct, frozen=True, kw_only=True):
    kinds: tuple[str, ...]
    """int, float, bool, str, list, null; any one fits. Empty if only `values` do."""
    values: tuple[str, ...] | None
    """Allowed texts; None: any."""
    bounds: tuple[tuple[str, float], ...]
    """`gt`, `ge`, `lt` or `le`, and the number."""


@cache
def key_types() -> dict[str, KeyType]:
    """Return the types by key; keys of other types are left out."""
    rows = (line.split(" ") for line in catalog_text("key_types.txt").splitlines() if not line.startswith("#"))
    return {row[0]: _key_type(*row) for row in rows}


def _key_type(name: str, kinds: str, values: str, *bounds: str) -> KeyType:
    limits = (bound.partition("=") for bound in bounds)
    return KeyType(
        kinds=tuple(kinds.split(",")) if kinds != "-" else (),
        values=LATER.get(name) if values == "-" else tuple(values.split("|")),
        bounds=tuple((sort, float(limit)) for sort, _, limit in limits),
    )
