"""Lay a source tree over an installed package: write the files that differ, remove the modules that are gone.

    place.py TREE PACKAGE

TREE is a checkout (`src/PACKAGE` in it), the folder that holds `PACKAGE`, or empty: then nothing is done. It runs while
an image is built, with the image's own Python; a layer holds what was written, so a one-line change is one file.

`TREE/as-installed.txt`, where there is one, names the files of the tree that were not sent because the installed ones
are the same: `BYTES PATH` a line.
"""

from __future__ import annotations

import filecmp
import os
import py_compile
import shutil
import sys
from importlib.util import cache_from_source, find_spec
from pathlib import Path

LAID = frozenset({".py", ".yml"})
"""Suffixes of files that are removed where the tree lacks them: a stale module would hide a broken import. Other files
stay, so that a tree may come without MaxText's 30 MB of tokenizers."""


def main(tree: Path, package: str) -> None:
    if not any(tree.iterdir()):
        return
    source, target = source_of(tree, package), installed(package)
    left_out = as_installed(tree, target)
    ours, theirs = files_of(source), files_of(target) - left_out
    changed = [name for name in sorted(ours) if not same(source / name, target / name)]
    gone = [name for name in sorted(theirs - ours) if name.suffix in LAID]
    for name in changed:
        write(source / name, target / name)
    for name in gone:
        remove(target / name)
    as_before = len(ours) - len(changed) + len(left_out)
    print(f"{package}: {len(changed)} files written, {len(gone)} removed, {as_before} as installed")


def source_of(tree: Path, package: str) -> Path:
    found = (folder for folder in (tree / "src" / package, tree / package) if (folder / "__init__.py").is_file())
    return next(found, None) or sys.exit(
        f"xsft: {package}/ of the build context has neither src/{package}/ nor {package}/ with an __init__.py in it"
    )


def as_installed(tree: Path, target: Path) -> set[Path]:
    """What was left out of the tree; a file that is not the installed one's size was left out by mistake."""
    listed = tree / "as-installed.txt"
    lines = listed.read_text(encoding="utf-8").splitlines() if listed.is_file() else []
    sizes = {Path(path): int(size) for size, _, path in (line.partition(" ") for line in lines)}
    wrong = [
        path for path, size in sizes.items() if not ((at := target / path).is_file() and at.stat().st_size == size)
    ]
    if wrong:
        sys.exit(f"xsft: {wrong[0]} was left out of the build context, and the installed one is another")
    return set(sizes)


def installed(package: str) -> Path:
    """Folder of the installed package; nothing of it is imported."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        sys.exit(f"xsft: {package} is not installed in the deps image")
    return Path(spec.submodule_search_locations[0])


def files_of(folder: Path) -> set[Path]:
    """Names relative to `folder`, without byte code."""
    found = (Path(at, name) for at, _, names in os.walk(folder) for name in names)
    return {path.relative_to(folder) for path in found if "__pycache__" not in path.parts}


def same(source: Path, target: Path) -> bool:
    return target.is_file() and filecmp.cmp(source, target, shallow=False)


def write(source: Path, target: Path) -> None:
    """Byte code too: what is installed is never held against its source again (install.py, COMPILING)."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(0o644)
    if target.suffix == ".py":
        remove_cached(target)
        py_compile.compile(str(target), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)


def remove(target: Path) -> None:
    target.unlink()
    remove_cached(target)


def remove_cached(target: Path) -> None:
    if target.suffix == ".py":
        Path(cache_from_source(str(target))).unlink(missing_ok=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
