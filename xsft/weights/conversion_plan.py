"""The plan of `xsft checkpoint convert`, on this machine or on a cluster, and its progress by lines and bytes. Pure."""

from __future__ import annotations

import re
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from xsft.base.reporting import Activity
from xsft.spec.conversion_inputs import ConversionInputs, ConversionRecord, items
from xsft.trainer.arguments import argument
from xsft.weights.estimates import ConversionEstimate
from xsft.weights.export_record import ALL_BELOW_BYTES, SAMPLE

SOURCE = "xsft.workers.compare_source"
"""Program that answers `source_job`."""
PhaseName = Literal["loading", "transforming", "saving", "saved"]


class ConversionPlan(Activity, frozen=True, kw_only=True):
    """One attempt of a conversion: a run of its own, `<run_name>-convert`."""

    run_name: str
    training: str
    """run_name of the run that starts from the result."""
    output: str
    """base_output_directory of both; the conversion's own files are in `<output>/<run_name>/xsft/`."""
    inputs: ConversionInputs
    first: str
    """Folder of the first attempt, which names the conversion."""
    directory: str
    """base_output_directory of this attempt."""
    argv: tuple[str, ...]
    """`python3 -m …to_maxtext …`."""
    estimate: ConversionEstimate | None
    """Estimated sizes; None if the model's size is unknown."""
    whole: str | None = None
    """load_parameters_path of an earlier conversion; None without a complete one."""
    recorded: ConversionRecord | None = None
    """Its record; None without one, as after a conversion by hand."""
    why_not: str = ""
    """Why the newest attempt is incomplete, or could not be read."""
    unread: bool = False
    """Whether the newest attempt could not be read, so that it may be complete."""
    broken: tuple[str, ...] = ()
    """Folders of attempts without a complete checkpoint. They are kept."""

    @property
    def checkpoint(self) -> str:
        """Return load_parameters_path of the training."""
        return items(self.directory)

    @property
    def digest(self) -> str:
        """Return the digest, as `ConversionInputs.digest`."""
        return self.inputs.digest

    @property
    def why(self) -> str:
        """Return why the weights are converted now."""
        if self.broken:
            return f"{', '.join(self.broken)} is incomplete and is kept"
        return "these weights were not converted with these flags before"


def source_job(inputs: ConversionInputs, checkpoint: str, *, seed: int | None, size: int | None) -> dict[str, Any]:
    """Return the question to SOURCE. `seed`: of the choice of tensors, where not all are compared; None: only the
    source's folder is asked for. `size`: estimated bytes of the checkpoint; None: unknown."""
    keys = {
        "model_name": inputs.model.replace("-Instruct", ""),
        "scan_layers": inputs.scan_layers,
        "param_scan_axis": inputs.param_scan_axis,
        **inputs.keys,
        "hardware": "cpu",
        "skip_jax_distributed_system": True,
    }
    # An unknown size may be a large one.
    is_large = size is None or size >= ALL_BELOW_BYTES
    compared = {
        "argv": ["python3", "-m", "maxtext.checkpoint_conversion.to_huggingface", *map(argument, keys, keys.values())],
        "form": "full",
        "dtype": inputs.dtype,
        "weights": checkpoint,
        "base": None,
        "scaling": None,
        "sample": SAMPLE if is_large else None,
        "seed": seed,
    }
    source = {"repo": inputs.source.repo, "revision": inputs.source.commit or inputs.source.revision}
    return {"source": source, "compared": None if seed is None else compared}


class ConversionPhase(Struct, frozen=True, kw_only=True):
    """The current phase of the converter."""

    name: PhaseName


class ArraysDone(Struct, frozen=True, kw_only=True):
    """Progress of the transformation. With lazy loading it takes no time, and the weights are read during the save."""

    done: int
    of: int


class BytesDone(Struct, frozen=True, kw_only=True):
    """Bytes of one kind of work: read of a local folder to name it, downloaded from the hub, or written below the
    folder of this attempt."""

    doing: Literal["reading", "downloading", "saving"] = "saving"
    done: int
    of: int | None
    """Estimated total; None if the model's size is unknown."""
    at: float
    """Time in seconds of a monotonic clock."""


ConversionEvent: TypeAlias = ConversionPhase | ArraysDone | BytesDone

_ARRAYS = re.compile(r"Transforming weights:.*\| *(\d{1,9})/(\d{1,9})\b")
_PHASES: tuple[tuple[str, PhaseName], ...] = (
    ("Initializing LazyHFLoader", "loading"),
    ("Loading full HuggingFace model", "loading"),
    ("Starting weight transformation", "transforming"),
    ("Starting checkpoint save", "saving"),
    ("Conversion complete. Checkpoint saved to", "saved"),
)
"""source: maxtext@0.2.5 checkpoint_conversion/to_maxtext.py, main; the bar is utils/utils.py MemoryMonitorTqdm."""

_BAR = re.compile(
    r"(?P<file>[\w.-]+\.safetensors): +[0-9]+%\|[^|]*\| *(?P<done>[0-9.]+\w?)/(?P<of>[0-9.]+\w?)"
    r" \[[0-9:]+<(?P<left>[0-9:]+), *(?P<rate>[0-9.]+ ?\w?B/s)"
)
"""A bar of a download. source: tqdm@4.67 std.py format_meter, as huggingface_hub@2.4.0 utils/tqdm.py uses it."""


def download_text(line: str) -> str | None:
    """Return the progress of a download in a line of the converter, with the rate and the time left that the bar tells;
    None for another line."""
    bar = _BAR.search(line)
    if bar is None:
        return None
    return f"downloading {bar['file']}: {bar['done']} of {bar['of']}, {bar['rate']}, {bar['left']} left"


WINDOW_S = 20.0
"""Seconds over which a rate is measured."""


def conversion_event(line: str) -> ConversionEvent | None:
    """Return the event in a line; None for a line without progress."""
    if "Transforming weights:" in line and (bar := _ARRAYS.search(line)):
        return ArraysDone(done=int(bar[1]), of=int(bar[2]))
    return next((ConversionPhase(name=name) for words, name in _PHASES if words in line), None)


class ProgressSample(Struct, frozen=True, kw_only=True):
    """The progress at one time."""

    done: int
    of: int | None
    at: float


class ConversionPace:
    """The pace of one kind of work: bytes or arrays per second, and the seconds that are left."""

    def __init__(self) -> None:
        self._seen: list[ProgressSample] = []

    def add(self, *, done: int, of: int | None, at: float) -> None:
        """Add a measurement; `at`: seconds of a monotonic clock."""
        self._seen = [sample for sample in self._seen if at - sample.at <= WINDOW_S]
        self._seen.append(ProgressSample(done=done, of=of, at=at))

    @property
    def rate(self) -> float | None:
        """Return the pace per second; None before two measurements."""
        if len(self._seen) < 2:
            return None
        first, last = self._seen[0], self._seen[-1]
        return (last.done - first.done) / (last.at - first.at) if last.at > first.at else None

    @property
    def left_s(self) -> float | None:
        """Return the seconds that are left; None if the total is unknown or there is no progress."""
        if not self.rate or self._seen[-1].of is None:
            return None
        return max(0, self._seen[-1].of - self._seen[-1].done) / self.rate
