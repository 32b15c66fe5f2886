"""Resolve a workload: decide its defaults and look up its place. Pure; every decision that is not typed is made
here.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Literal, cast

from msgspec import Struct, field

from xsft.base.errors import UsageError
from xsft.base.names import ModeName, attempt_name, attempt_number, next_attempt, single_controller
from xsft.base.problems import Problem, error
from xsft.catalog import models, releases
from xsft.catalog.data import located
from xsft.catalog.models import CatalogModel
from xsft.catalog.releases import Release
from xsft.catalog.sizes import CHANGES_ARRAYS, misread_by_converter
from xsft.catalog.tpu import Slice, parse_tpu_type
from xsft.spec.base import Keys, Value
from xsft.spec.conversion_inputs import ConversionInputs, ConversionSource, directory_of, is_folder, items
from xsft.spec.facts import ImageFacts, ResolutionFacts
from xsft.spec.model import WorkloadSpec
from xsft.spec.paths import MAXTEXT_KEYS, in_folder
from xsft.spec.place import DEFAULT_QUEUE, PathwaysImages, Place
from xsft.spec.sections import Pathways
from xsft.spec.template import WHERE, Template, read_template

NOT_PUSHED = "not-pushed"
"""Tag shown for an image that has no digest yet."""

LOCAL_OUTPUT = "xsft-runs"
"""Output of local runs that name none: a folder of the current directory."""


class Mode(Struct, frozen=True, kw_only=True):
    """The mode in which JAX controls the hosts, and the reason."""

    value: ModeName
    reason: str

    @property
    def single_controller(self) -> bool:
        """Return whether one process on a head pod drives all chips, through servers with images of their own."""
        return single_controller(self.value)


class Run(Struct, frozen=True, kw_only=True):
    """A workload with every possible decision made. `None` if the workload lacks the value; a problem says so."""

    spec: WorkloadSpec
    run_name: str
    attempt: int
    """Number of the attempt, from 1; later ones resume."""
    jobset: str
    mode: Mode
    place: Place | None
    slice: Slice | None
    model: CatalogModel | None
    release: Release
    """MaxText in the image; xsft's default release if the workload names an unknown one (a problem says so)."""
    checkpoint: str | None
    """load_parameters_path."""
    adapters: str | None
    """lora.lora_restore_path."""
    output: str | None
    """base_output_directory."""
    namespace: str
    queue: str
    checkpoint_period: int
    template: Template | None = None
    """Content of the file of data.chat_template."""
    conversion: ConversionInputs | None = None
    """Inputs of the conversion of model.hf."""
    converted: str | None = None
    """base_output_directory of the conversion's first attempt; the checkpoint is in `<it>/0/items`."""
    next_try: str | None = None
    """base_output_directory of the next attempt: the first one's, unless that folder has content."""
    paths: Mapping[str, str] = field(default_factory=dict)
    """Relative paths of the workload -> the absolute ones."""
    hub_commits: Mapping[str, str] = field(default_factory=dict)
    """As of `ResolutionFacts`."""
    evaluation_program: str | None = None
    """sha256 of the evaluation program that the image carries, by its lock; None if unknown."""

    @property
    def tokenizer(self) -> str | None:
        """Return the tokenizer that MaxText will load: the workload's, else the model's own if the release looks it
        up.
        """
        stated = self.spec.model.tokenizer
        if stated:
            return self.paths.get(stated, stated)
        if self.release.needs_tokenizer_path or self.model is None:
            return None
        return self.model.hf_id

    @property
    def pins(self) -> Mapping[str, Value]:
        """Return the keys that the model's own configuration sets in the image's release, with values."""
        return cast("Mapping[str, Value]", models.pins(self.spec.model.name, version=self.release.version))

    def located(self, path: str) -> str:
        """Return the absolute path of a relative one, and of `xsft://…`; any other text unchanged."""
        return self.paths.get(path, located(path))

    def located_keys(self, keys: Keys) -> Keys:
        """Return MaxText's keys with the absolute paths of the files that they name."""
        paths = {key: path for key, path in keys.items() if key in MAXTEXT_KEYS and isinstance(path, str)}
        return {**keys, **{key: self.located(path) for key, path in paths.items()}}

    def files_of(self, split: Literal["train", "eval"]) -> str | None:
        """Return the pattern of the split's files, with an absolute path; None if none is named."""
        data = self.spec.data
        pattern = {"train": data.hf_train_files, "eval": data.hf_eval_files}[split]
        return pattern and self.located(pattern)

    @property
    def tokenizer_revision(self) -> str | None:
        """Return the tokenizer's commit, tag or branch on the hub: the workload's, else the commit that the hub had at
        planning. None: the hub's default branch when the tokenizer is read, or a folder."""
        model = self.spec.model
        revision = model.tokenizer_revision
        if revision is None and model.hf and model.hf.repo == self.tokenizer:
            revision = model.hf.revision
        return revision or self.hub_commits.get("tokenizer")

    @property
    def checkpoint_identity(self) -> str | None:
        """Return the value of `checkpoint` in the digest: model.hf identifies the weights, and their path does not make
        another run. So a folder that is named by its content counts without those digits."""
        hf, converted = self.spec.model.hf, self.converted
        if hf is None or self.spec.model.checkpoint or converted is None:
            return self.checkpoint
        by_model = f"{(self.output or '').rstrip('/')}/converted/{self.spec.model.name}"
        return items(by_model if hf.converted is None else converted)

    def required_place(self) -> Place:
        """Return the place. Raises UsageError if the workload names none."""
        if self.place is None:
            raise UsageError("the workload has no place.", fix="Set place: main, or write the place inline.")
        return self.place

    @property
    def num_slices(self) -> int:
        return self.spec.tpu.num_slices if self.spec.tpu else 1

    @property
    def chips(self) -> int:
        """Return the chips of all slices; 1 on this machine, where JAX sees one CPU device."""
        if self.spec.on_this_machine or self.slice is None:
            return 1
        return self.slice.chips * self.num_slices

    @property
    def devices(self) -> int:
        """Return the JAX devices of all slices, which batch sizes are counted per; 1 on this machine."""
        if self.spec.on_this_machine or self.slice is None:
            return 1
        return self.slice.devices * self.num_slices

    @property
    def servers(self) -> PathwaysImages:
        """Return the servers of a run in Pathways mode, the workload's, else the place's; they are unused in McJAX."""
        stated = self.spec.pathways or Pathways()
        default = self.place.pathways if self.place else PathwaysImages()
        return PathwaysImages(
            proxy_image=stated.proxy_image or default.proxy_image,
            server_image=stated.server_image or default.server_image,
            scratch=stated.scratch or default.scratch,
        )


def resolve(spec: WorkloadSpec, facts: ResolutionFacts) -> tuple[Run, tuple[Problem, ...]]:
    """Return the run with every open value decided, and problems for missing or unknown values."""
    spec = _with_image(spec, facts.image)
    place, place_problems = _find_place(spec, facts)
    tpu, tpu_problems = _slice(spec)
    run_name, name_problems = _run_name(spec, facts)
    release, release_problems = _find_release(spec)
    template, template_problems = _template(spec, facts)
    output = spec.output or (place.output if place else None)
    if spec.on_this_machine:
        output = _absolute_here(spec, facts, spec.output or LOCAL_OUTPUT)
    conversion = _conversion_inputs(spec, facts, release)
    converted = _converted_checkpoint(spec, facts, conversion, output)
    run = Run(
        spec=spec,
        run_name=run_name,
        attempt=facts.attempt,
        jobset=attempt_name(run_name, facts.attempt),
        mode=_mode(spec),
        place=place,
        slice=tpu,
        model=_find_model(spec),
        release=release,
        checkpoint=_absolute_here(spec, facts, spec.model.checkpoint) or _converted_items(facts, converted),
        adapters=_absolute_here(spec, facts, spec.lora.restore_path if spec.lora else None),
        output=output,
        namespace=spec.namespace or (place.namespace if place else "default"),
        queue=spec.queue or (place.queue if place else DEFAULT_QUEUE),
        checkpoint_period=spec.train.checkpoint_period or default_checkpoint_period(spec.train.steps),
        template=template,
        conversion=conversion,
        converted=converted,
        next_try=next_attempt(converted, existing=facts.tries.taken if facts.tries else ()) if converted else None,
        paths=facts.paths,
        hub_commits=facts.hub_commits,
        evaluation_program=facts.image.evaluate if facts.image and spec.image.name else None,
    )
    return run, (*place_problems, *tpu_problems, *name_problems, *release_problems, *template_problems)


def default_checkpoint_period(steps: int) -> int:
    """Return a tenth of the run, at least 50 steps, never beyond its end. MaxText's 10,000 saves only at the end of
    most SFT runs."""
    return min(steps, max(50, steps // 10))


def named_ref(name: str, facts: ImageFacts | None) -> str:
    """Return the reference of an image under images/. One that was never pushed gets a tag that says so, and
    `image-not-pushed` blocks its submission."""
    if facts and facts.ref:
        return facts.ref
    return f"{(facts.repository if facts else None) or name.replace('_', '-')}:{NOT_PUSHED}"


def _with_image(spec: WorkloadSpec, facts: ImageFacts | None) -> WorkloadSpec:
    """Return the workload with the named image by its digest, as if `ref` had been written down."""
    image = spec.image
    if image.name is None or image.ref is not None:
        return spec
    update = {"ref": named_ref(image.name, facts)}
    if facts and facts.maxtext and "maxtext" not in image.model_fields_set:
        update["maxtext"] = facts.maxtext
    return spec.model_copy(update={"image": image.model_copy(update=update)})


def _mode(spec: WorkloadSpec) -> Mode:
    if spec.on_this_machine:
        return Mode(value="mcjax", reason="one Python process on this machine")
    match spec.mode:
        case "mcjax" | "pathways":
            return Mode(value=spec.mode, reason=f"the workload says mode: {spec.mode}")
        case "auto":
            if spec.pathways is not None:
                return Mode(value="pathways", reason="mode: auto, and the workload has a pathways section")
            return Mode(value="mcjax", reason="mode: auto, and the workload has no pathways section")


def _find_place(spec: WorkloadSpec, facts: ResolutionFacts) -> tuple[Place | None, tuple[Problem, ...]]:
    if isinstance(spec.place, Place):
        return spec.place, ()
    if spec.place is None:
        return None, ()
    place = facts.places.get(spec.place)
    if place is not None or spec.on_this_machine:
        return place, ()
    return None, (_unknown_place(spec.place, facts),)


def _unknown_place(name: str, facts: ResolutionFacts) -> Problem:
    similar = difflib.get_close_matches(name, facts.places, n=1)
    names = ", ".join(sorted(facts.places)) or "none"
    where = facts.places_file or f"no places.yaml in {', '.join(facts.places_folders) or 'any folder'}"
    hint = f"; did you mean {similar[0]}?" if similar else "."
    return error(
        "place-unknown",
        "place",
        f"place {name!r} was not found{hint} Known: {names} ({where}).",
        "Add it to a places.yaml in the workload's folder or above it, or write the place inline.",
        kind="unrenderable",
    )


def _slice(spec: WorkloadSpec) -> tuple[Slice | None, tuple[Problem, ...]]:
    if spec.tpu is None:
        return None, ()
    try:
        return parse_tpu_type(spec.tpu.type), ()
    except ValueError as e:
        return None, (error("tpu-unknown", "tpu.type", str(e), "Use one of the named types.", kind="unrenderable"),)


def _find_release(spec: WorkloadSpec) -> tuple[Release, tuple[Problem, ...]]:
    try:
        return releases.release(spec.image.maxtext), ()
    except ValueError as e:
        # The default stands in, so that the other checks can still say what they know.
        problem = error("release-unknown", "image.maxtext", str(e), "Set the MaxText release of the image.")
        return releases.release(releases.DEFAULT), (problem,)


def _template(spec: WorkloadSpec, facts: ResolutionFacts) -> tuple[Template | None, tuple[Problem, ...]]:
    name = spec.data.chat_template
    file = facts.template
    if name is None:
        return None, ()
    if file is None:  # the Python API takes a workload without a file, too
        problem = error("chat-template-file", WHERE, f"{name!r} was not read.", "Load the workload from its file.")
    elif file.problem is not None:
        problem = file.problem
    elif isinstance(template := read_template(name, file.text), Template):
        return template, ()
    else:
        problem = template
    return None, (problem,)


def _find_model(spec: WorkloadSpec) -> CatalogModel | None:
    try:
        return models.model(spec.model.name)
    except ValueError:
        return None


def _run_name(spec: WorkloadSpec, facts: ResolutionFacts) -> tuple[str, tuple[Problem, ...]]:
    match spec.run_name_suffix:
        case "none":
            return spec.name, ()
        case "date":
            return f"{spec.name}-{facts.today}", ()
        case "commit":
            if facts.commit:
                return f"{spec.name}-{facts.commit[:7]}", ()
            problem = error(
                "run-name-commit",
                "run_name_suffix",
                "run_name_suffix: commit needs a git checkout, and the workload is not in one.",
                "Run inside the checkout, or use run_name_suffix: date.",
            )
            return spec.name, (problem,)


def _absolute_here(spec: WorkloadSpec, facts: ResolutionFacts, path: str | None) -> str | None:
    """Return the path, absolute for a run on this machine, because Orbax accepts only absolute paths. source:
    orbax-checkpoint@0.12.8 _src/serialization/tensorstore_utils.py"""
    if path is None or not spec.on_this_machine or "://" in path:
        return path
    return facts.paths.get(path) or in_folder(facts.working_directory, path)


def _conversion_inputs(spec: WorkloadSpec, facts: ResolutionFacts, release: Release) -> ConversionInputs | None:
    """Return the inputs of the conversion, without OCDBT and zarr3: such a checkpoint is readable in both modes."""
    hf = spec.model.hf
    overrides = spec.overrides.maxtext
    if hf is None:
        return None
    source_facts = facts.source
    axis = str(overrides.get("param_scan_axis"))
    source = ConversionSource(
        repo=(is_folder(hf.repo) and _absolute_here(spec, facts, hf.repo)) or hf.repo,
        revision=hf.revision,
        commit=source_facts.commit if source_facts else None,
        content=source_facts.content if source_facts and is_folder(hf.repo) else None,
    )
    return ConversionInputs(
        source=source,
        model=spec.model.name,
        release=release.version,
        scan_layers=spec.model.scan_layers is not False,
        # another check refuses an axis that is not a number
        param_scan_axis=int(axis) if len(axis) == 1 and axis in "0123456789" else 1,
        dtype="float32" if release.layout == "legacy" else "bfloat16",
        keys={key: value for key, value in overrides.items() if key in CHANGES_ARRAYS},
        sized=bool(misread_by_converter(spec.model.name, overrides, release=release.version)),
    )


def _converted_checkpoint(
    spec: WorkloadSpec, facts: ResolutionFacts, conversion: ConversionInputs | None, output: str | None
) -> str | None:
    named = spec.model.hf.converted if spec.model.hf else None
    if named:
        return (_absolute_here(spec, facts, named) or named).rstrip("/")
    return directory_of(conversion, output=output) if conversion and output else None


def _converted_items(facts: ResolutionFacts, converted: str | None) -> str | None:
    """Return the path of the conversion's result: the complete one that was found, else the path of the first
    attempt's."""
    if converted is None:
        return None
    folder = facts.checkpoint.path.removesuffix("/0/items") if facts.checkpoint else converted
    return items(folder if attempt_number(folder, first=converted) else converted)
