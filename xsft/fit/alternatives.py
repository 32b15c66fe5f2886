"""The alternatives to a run that does not fit, in the order of preference. Pure.

The alternative that loses less of the training's quality comes first; then the one with fewer chip-hours, fewer chips,
fewer slices and fewer changes. `preference` has the order of the losses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from math import log2, prod
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from xsft.catalog.models import CatalogModel
from xsft.catalog.tpu import Slice, parse_tpu_type

SettingValue = str | int | float | bool

CHANGEABLE = (
    "train.per_device_batch_size", "train.max_target_length", "train.weight_dtype", "overrides.maxtext.mu_dtype",
    "overrides.maxtext.remat_policy", "overrides.maxtext.decoder_layer_input", "parallelism.ici", "parallelism.dcn",
    "tpu.num_slices", "tpu.type", "lora",
)  # fmt: skip
MOST_CHANGES = 4
SHORTEST = 512
"""Minimum tokens: below this length the attention's blocks shrink, and the batch is mostly prompts."""
MOST_HALVINGS = 4
EXPERTS = (16, 8, 4, 32)
"""Sizes of the expert axis; 16 is one physical axis of a v6e-256 slice, the layout of aot_fit.md §0.1."""
BFLOAT16 = "bfloat16"
RANK = 16
ALPHA = 32
"""Adapters of aot_fit.md §0.1, row L1."""


class TunableRun(Struct, frozen=True, kw_only=True):
    """A run's settings that a search may change, with their values."""

    tpu: Slice
    num_slices: int
    batch: float
    """per_device_batch_size."""
    tokens: int
    """max_target_length."""
    ici: Mapping[str, int]
    """Axes that the workload names, and their sizes."""
    dcn: Mapping[str, int]
    remat: str
    """remat_policy."""
    offloaded: bool
    """Whether the layers' inputs are kept in the host's memory."""
    moments: str
    """mu_dtype; empty: that of the weights."""
    weights: str
    """weight_dtype."""
    optimizer: str
    """opt_type."""
    lora: bool
    flash: bool
    """Whether the workload asks for attention=flash, which stops LoRA."""
    model: CatalogModel | None
    paths: Mapping[str, str]
    """MaxText's key -> key path in the workload, of the keys that a section or an override may hold."""

    @property
    def chips(self) -> int:
        return self.tpu.chips * self.num_slices

    @property
    def moment_dtype(self) -> str:
        return self.moments or self.weights

    @property
    def tokens_per_step(self) -> float:
        return self.tpu.devices * self.num_slices * self.batch * self.tokens


class FitChange(Struct, frozen=True, kw_only=True):
    """One change of a workload that may make it fit."""

    settings: tuple[tuple[str, SettingValue], ...]
    """Key path and value, as `--set` takes them."""
    fields: Mapping[str, Any]
    """Changed fields of the run: field of `TunableRun` -> value."""


class Alternative(Struct, frozen=True, kw_only=True):
    """A run with changes."""

    changes: tuple[FitChange, ...]
    run: TunableRun
    """The changed run."""

    @property
    def settings(self) -> dict[str, SettingValue]:
        return {path: value for change in self.changes for path, value in change.settings}

    @property
    def words(self) -> str:
        """Return the changes on one line."""
        return ", ".join(f"{path}: {_setting_text(value)}" for path, value in self.settings.items())


class SearchLimits(Struct, frozen=True, kw_only=True):
    """The settings that a search may change, and how far."""

    keep: tuple[str, ...] = ()
    """Keys that stay as they are: a key path, a section, or the last word of a path."""
    types: tuple[Slice, ...] = ()
    """TPU types to take; empty: the run's own, and larger ones of its generation."""
    slices: tuple[int, ...] = ()
    """Numbers of slices to take; empty: the run's own, and twice that."""
    max_chips: int | None = None
    """Default: twice the run's, or any number where `types` or `slices` are given."""


def alternatives(run: TunableRun, limits: SearchLimits) -> list[Alternative]:
    """Return the alternatives, the most preferred first."""
    options = [option for place in _places(run, limits) for option in _alternatives_at(place, run, limits)]
    return sorted(options, key=lambda option: preference(option, run))


def preference(alternative: Alternative, run: TunableRun) -> tuple[float, ...]:
    """Return what an alternative is ordered by: its losses, worst kind first, then chip-hours, chips and so on.

    Chip-hours by arithmetic: the tokens of a step over the peak of a chip; the cost of more gathering or offloading is
    unknown.
    """
    new, batch = alternative.run, run.tpu.devices * run.num_slices * run.batch
    losses = (
        float(new.lora and not run.lora),
        float(new.weights != run.weights and not new.lora),
        log2(run.tokens / new.tokens),
        max(0.0, log2(batch / (new.tpu.devices * new.num_slices * new.batch))),
        float(new.moments != run.moments),
    )
    work = new.tokens_per_step / (new.tpu.bf16_tflops or 1.0)
    return (*losses, work, new.chips, new.num_slices, len(alternative.changes), float(new.offloaded))


def keeps_any(change: FitChange, keep: Iterable[str]) -> bool:
    """Return whether one of the keys must stay as it is."""
    paths = [path for path, _ in change.settings]
    return any(_key_matches(key, path) for key in keep for path in paths)


def is_changeable(key: str) -> bool:
    """Return whether a search may change the key, or one below it."""
    return any(_key_matches(key, path) or key.startswith(f"{path}.") for path in CHANGEABLE)


def _key_matches(key: str, path: str) -> bool:
    return path == key or path.startswith(f"{key}.") or path.rpartition(".")[2] == key


def _places(run: TunableRun, limits: SearchLimits) -> Iterator[Alternative]:
    """Yield the run on each TPU type and number of slices that it may take."""
    is_limited = bool(limits.types or limits.slices)
    max_chips = limits.max_chips or (None if is_limited else 2 * run.chips)
    types = limits.types or tuple(_same_generation(run.tpu, max_chips or run.chips))
    for tpu, count in product(types, limits.slices or (run.num_slices, 2 * run.num_slices)):
        if max_chips is None or tpu.chips * count <= max_chips:
            yield from _permitted_alternatives(_apply_changes(run, _place_change(run, tpu, count)), limits)


def _same_generation(tpu: Slice, max_chips: int) -> Iterator[Slice]:
    yield tpu
    chips = 2 * tpu.chips
    while chips <= max_chips:
        try:
            yield parse_tpu_type(f"{tpu.generation}-{chips * tpu.cores_per_chip}")
        except ValueError:
            return
        chips *= 2


def _place_change(run: TunableRun, tpu: Slice, count: int) -> tuple[FitChange, ...]:
    type_ = (("tpu.type", tpu.xpk_type),) if tpu != run.tpu else ()
    slices = (("tpu.num_slices", count),) if count != run.num_slices else ()
    settings = (*type_, *slices)
    return (FitChange(settings=settings, fields={"tpu": tpu, "num_slices": count}),) if settings else ()


def _permitted_alternatives(alternative: Alternative, limits: SearchLimits) -> Iterator[Alternative]:
    """Yield the alternative, unless it has too many changes or one of a key that is kept."""
    if len(alternative.changes) <= MOST_CHANGES and not any(
        keeps_any(change, limits.keep) for change in alternative.changes
    ):
        yield alternative


def _alternatives_at(place: Alternative, run: TunableRun, limits: SearchLimits) -> Iterator[Alternative]:
    """Yield the alternatives on one TPU type and number of slices."""
    layout = (
        tuple(_ici(place.run, run)),
        tuple(_dcn(place.run, run)),
        tuple(_batch_changes(run)),
        tuple(_length_changes(run)),
    )
    # one of these: the moments have the type of bfloat16 weights anyway, and adapters need such weights
    states = (*_moments(run), *_weight_changes(run), *_lora(run))
    for picked in product(*layout, tuple(_remat(run)), states):
        alternative = _apply_changes(run, (*place.changes, *(change for change in picked if change is not None)))
        if alternative.changes:
            yield from _permitted_alternatives(alternative, limits)


def _apply_changes(run: TunableRun, changes: tuple[FitChange, ...]) -> Alternative:
    fields = {name: value for change in changes for name, value in change.fields.items()}
    return Alternative(changes=changes, run=replace(run, **fields))


def _ici(place: TunableRun, run: TunableRun) -> Iterator[FitChange | None]:
    """Yield the mesh of a slice: as it is, fsdp alone, experts over an axis of their own, the rest to tensor."""
    devices, model = place.tpu.devices, run.model
    scaled = _scaled_axes(place, run)
    yield _mesh(place, run, scaled) if scaled else None
    if any(size > 1 for axis, size in run.ici.items() if axis != "fsdp"):
        yield _mesh(place, run, {"fsdp": devices})
    if model is None:
        return
    if model.moe:
        yield from (
            _mesh(place, run, {"fsdp": devices // size, "expert": size})
            for size in EXPERTS
            if size <= devices and devices % size == 0 and model.experts % size == 0 and run.ici.get("expert") != size
        )
    largest_fsdp = _power_of_two_in(model.emb)
    if largest_fsdp < devices:
        yield _mesh(place, run, {"fsdp": largest_fsdp, "tensor": devices // largest_fsdp})
    elif not model.moe and devices > 1 and run.ici.get("tensor", 1) == 1:
        yield _mesh(place, run, {"fsdp": devices // 2, "tensor": 2})


def _scaled_axes(place: TunableRun, run: TunableRun) -> dict[str, int] | None:
    """Return the workload's own axes with fsdp for a slice of another size; None if nothing must change."""
    if place.tpu.devices == run.tpu.devices or not run.ici or -1 in run.ici.values():
        return None
    return {**run.ici, "fsdp": max(1, run.ici.get("fsdp", 1) * place.tpu.devices // run.tpu.devices)}


def _mesh(place: TunableRun, run: TunableRun, sizes: Mapping[str, int]) -> FitChange:
    """Return the change to these axes; the workload's other axes become 1."""
    axis_sizes = {**dict.fromkeys(run.ici, 1), **sizes}
    split = (("overrides.maxtext.allow_split_physical_axes", True),) if _splits(place.tpu, sizes) else ()
    axes = tuple((f"parallelism.ici.{axis}", size) for axis, size in axis_sizes.items())
    return FitChange(settings=(*axes, *split), fields={"ici": axis_sizes})


def _splits(tpu: Slice, sizes: Mapping[str, int]) -> bool:
    """Return whether an axis is neither the whole slice nor one of its physical axes. Up to 8 chips take any mesh.
    source: jax@0.11.0 _src/mesh_utils.py"""
    split_sizes = sorted(size for size in sizes.values() if size > 1)
    return tpu.chips > 8 and split_sizes not in ([tpu.devices], sorted(size for size in tpu.physical_axes if size > 1))


def _power_of_two_in(size: int) -> int:
    return size & -size


def _dcn(place: TunableRun, run: TunableRun) -> Iterator[FitChange | None]:
    """Yield how the state is split over slices: as it is, or by fsdp."""
    count = place.num_slices
    axis_sizes = {**dict.fromkeys(run.dcn, 1), "fsdp": count}
    divides = not run.dcn or -1 in run.dcn.values() or prod(run.dcn.values()) == count
    if divides:
        yield None
    if not divides or (count > 1 and run.dcn.get("fsdp") != count):
        settings = tuple((f"parallelism.dcn.{axis}", size) for axis, size in axis_sizes.items())
        yield FitChange(settings=settings, fields={"dcn": axis_sizes})


def _remat(run: TunableRun) -> Iterator[FitChange | None]:
    yield None
    policy, inputs = "overrides.maxtext.remat_policy", "overrides.maxtext.decoder_layer_input"
    if run.remat not in ("full", "custom"):
        yield FitChange(settings=((policy, "full"),), fields={"remat": "full"})
    if not run.offloaded:
        settings = ((policy, "custom"), (inputs, "offload"))
        yield FitChange(settings=settings, fields={"remat": "custom", "offloaded": True})


def _moments(run: TunableRun) -> Iterator[FitChange | None]:
    yield None
    if run.optimizer == "adamw" and not run.lora and BFLOAT16 not in (run.moments, run.weights):
        yield FitChange(settings=(("overrides.maxtext.mu_dtype", BFLOAT16),), fields={"moments": BFLOAT16})


def _batch_changes(run: TunableRun) -> Iterator[FitChange | None]:
    yield None
    size = run.batch
    for _ in range(MOST_HALVINGS):
        size /= 2
        if size < 1 or size != int(size):
            return
        path = run.paths["per_device_batch_size"]
        yield FitChange(settings=((path, int(size)),), fields={"batch": size})


def _length_changes(run: TunableRun) -> Iterator[FitChange | None]:
    yield None
    tokens = run.tokens
    while tokens % 2 == 0 and tokens // 2 >= SHORTEST and tokens > run.tokens / 4:
        tokens //= 2
        yield FitChange(settings=((run.paths["max_target_length"], tokens),), fields={"tokens": tokens})


def _weight_changes(run: TunableRun) -> Iterator[FitChange]:
    if run.weights == "float32" and not run.lora:
        yield FitChange(settings=((run.paths["weight_dtype"], BFLOAT16),), fields={"weights": BFLOAT16})


def _lora(run: TunableRun) -> Iterator[FitChange]:
    if run.lora:
        return
    weights = ((run.paths["weight_dtype"], BFLOAT16),) if run.weights != BFLOAT16 else ()
    path = run.model.lora_module_path if run.model else ""
    modules = (("lora.module_path", path),) if path else ()
    attention = (("overrides.maxtext.attention", "autoselected"),) if run.flash else ()
    settings = (("lora.rank", RANK), ("lora.alpha", ALPHA), *modules, *weights, *attention)
    yield FitChange(settings=settings, fields={"lora": True, "weights": BFLOAT16})


def _setting_text(value: SettingValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
