"""Describes a folder of Hugging Face weights on this machine: its content, its size, and why it cannot be converted.

Every byte is read once for the content digest, and again only after a file has changed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from xsft.base.errors import XsftError
from xsft.base.problems import error
from xsft.catalog.hf_config import quantisation_evidence, sections, source_fields
from xsft.machine.files import system_words, write_private
from xsft.machine.regular import open_regular, read_bytes
from xsft.spec.facts import SourceFacts

WHERE = "model.hf.repo"
CONFIG = "config.json"
INDEX = "model.safetensors.index.json"
WEIGHTS = ".safetensors"
SINGLE = "model.safetensors"
"""The file that MaxText reads if there is no index. source: maxtext@0.2.5 checkpoint_conversion/to_maxtext.py,
LazyHFLoader.
"""
CHUNK = 8 << 20


OnRead = Callable[[int, int], None]
"""Called with the number of bytes read, and the total."""


def read_folder(path: str, *, cache: Path, on_read: OnRead = lambda _done, _of: None) -> SourceFacts:
    """Return the facts. Raises nothing: a problem states what is wrong. `cache`: for digests of large files; may be
    deleted at any time.
    """
    folder = Path(path)
    try:
        if folder.is_dir():
            return _read_weights(folder, cache, on_read)
    except (OSError, ValueError) as failed:
        message = f"{path} could not be read as a Hugging Face model: {system_words(failed)}."
        return _facts_with_problem("hf-folder-invalid", message, "Download or copy it again, and check its files.")
    fix = "Correct the path; write a Hugging Face repository as owner/name, without a leading dot or slash."
    return _facts_with_problem("hf-folder-missing", f"Folder {path} was not found.", fix)


def _read_weights(folder: Path, cache: Path, on_read: OnRead) -> SourceFacts:
    names = sorted(entry.name for entry in folder.iterdir())
    files = [name for name in names if name.endswith(WEIGHTS) and (folder / name).is_file()]  # a pipe would block
    if CONFIG not in names or not {INDEX, SINGLE} & set(names):
        return _no_model_in_folder(folder, names)
    config = _parse_json_file(folder / CONFIG)
    index = _parse_json_file(folder / INDEX) if INDEX in names else None
    named = {SINGLE}
    if index is not None:
        weight_map = index.get("weight_map")
        named = set(map(str, weight_map.values())) if isinstance(weight_map, Mapping) else set()
    arrays = {name: dtype for file in files for name, dtype in _types_in(folder / file).items()}
    lacking = [f"{name} is missing" for name in sorted(named - set(files))]
    if not arrays or not named:
        lacking = ["its safetensors files have no array"]
    if lacking:
        more = f" (and {len(lacking) - 1} more)" if len(lacking) > 1 else ""
        message = f"{folder} is incomplete: {lacking[0]}{more}."
        return _facts_with_problem("hf-folder-incomplete", message, "Download or copy it again.")
    return SourceFacts(
        content=_content(folder, (CONFIG, *((INDEX,) if index is not None else ()), *files), cache, on_read),
        quantized=quantisation_evidence(config, arrays=arrays, dtypes=arrays.values()),
        weights_bytes=sum((folder / name).stat().st_size for name in files),
        vocabulary=vocabulary(config),
        fields=source_fields(config),
    )


def vocabulary(config: Mapping[str, Any]) -> int | None:
    """Return the rows of the embedding, from config.json."""
    sizes = (section.get("vocab_size") for section in sections(config))
    return next((size for size in sizes if isinstance(size, int) and not isinstance(size, bool)), None)


def _types_in(file: Path) -> dict[str, str]:
    """Return the type of each array. Raises ValueError if the file is cut off, or has no valid header."""
    try:
        with safe_open(file, framework="numpy") as opened:
            return {name: str(opened.get_slice(name).get_dtype()) for name in opened.keys()}  # noqa: SIM118
    except SafetensorError as broken:
        raise ValueError(f"{file.name}: {broken}") from broken


def _content(folder: Path, names: tuple[str, ...], cache: Path, on_read: OnRead) -> str:
    """Return the sha256 over the files that the converter reads; their path and time of copying do not count."""
    sizes = {name: (folder / name).stat().st_size for name in names}
    total = sum(sizes.values())
    before = 0
    digests = []
    for name, size in sizes.items():
        digests.append(
            (name, file_digest(folder / name, cache=cache, on_read=partial(_add_read, on_read, before, total)))
        )
        before += size
        on_read(before, total)
    return hashlib.sha256(json.dumps(digests, separators=(",", ":")).encode()).hexdigest()


def _add_read(on_read: OnRead, before: int, of: int, done: int) -> None:
    on_read(before + done, of)


def file_digest(file: Path, *, cache: Path, on_read: Callable[[int], None] = lambda _done: None) -> str:
    """Return the sha256 of a file. Cached until the file's size, time or inode changes, because weights have
    gigabytes. `on_read`: called with the bytes that were read.
    """
    status = os.stat(file)
    identity = [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]
    kept_file = cache / "weights" / f"{hashlib.sha256(str(file.resolve()).encode()).hexdigest()[:32]}.json"
    before = _kept_hashes(kept_file)
    if before.get("seen") == identity and isinstance(before.get("sha256"), str):
        return str(before["sha256"])
    digest = hashlib.sha256()
    with open_regular(file) as opened:
        while chunk := opened.read(CHUNK):
            digest.update(chunk)
            on_read(opened.tell())
    with suppress(OSError, XsftError):  # read again the next time
        write_private(kept_file, json.dumps({"seen": identity, "sha256": digest.hexdigest()}))
    return digest.hexdigest()


def _kept_hashes(file: Path) -> dict[str, Any]:
    try:
        return _parse_json_file(file)
    except (OSError, ValueError):
        return {}


def _parse_json_file(file: Path) -> dict[str, Any]:
    try:
        document = json.loads(read_bytes(file))
    except (ValueError, RecursionError) as broken:
        raise ValueError(f"{file.name} is not JSON") from broken
    if not isinstance(document, dict):
        raise ValueError(f"{file.name} is not a JSON object")  # noqa: TRY004 - of the file, not of an argument
    return document


def _facts_with_problem(id: str, message: str, fix: str) -> SourceFacts:
    return SourceFacts(problems=(error(id, WHERE, message, fix),))


def _no_model_in_folder(folder: Path, names: list[str]) -> SourceFacts:
    contents = ", ".join(names[:5]) or "nothing"
    message = f"{folder} is not a Hugging Face model with safetensors weights: it contains {contents}."
    fix = "Use the folder with config.json, and model.safetensors or model.safetensors.index.json."
    if "_METADATA" in names or "items" in names:
        fix = "This is a MaxText checkpoint, which needs no conversion: set model.checkpoint to it."
    elif any(name.endswith((".bin", ".pth", ".pt")) for name in names):
        fix = "MaxText reads safetensors only; save the model with transformers' save_pretrained first."
    return _facts_with_problem("hf-folder-invalid", message, fix)
