"""Takes a MaxText release into the catalogue: `make maxtext-release VERSION=0.2.6 [FACTS="scan_layers_auto=true"]`.

Installs the release's wheel beside the dependencies of the locked one, dumps its keys, nested keys and models
(tests/catalog/dumps/maxtext_facts.py), writes them into xsft/catalog, and prints what a person must decide. Facts that
no dump tells (xsft/catalog/releases.toml explains each) are given in FACTS or taken over from the release before.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xsft.effects.environments import environments
from xsft.effects.environments.uv import find_uv, uv_environment

ROOT = Path(__file__).parents[2]
CATALOG = ROOT / "xsft" / "catalog"
DUMP = ROOT / "tests" / "catalog" / "dumps" / "maxtext_facts.py"
ORDER = "is release i of: "
"""Stands before the releases in the heads of the mask files."""


@dataclass(frozen=True, kw_only=True)
class Masks:
    """A file of the catalogue that says of each name which releases take it, and which know it elsewhere."""

    head: tuple[str, ...]
    """Its comments, without the list of releases."""
    releases: tuple[str, ...]
    """Oldest first."""
    rows: Mapping[str, tuple[frozenset[str], frozenset[str]]]
    """Name -> (releases that take it, releases that know it elsewhere)."""


def read_masks(text: str) -> Masks:
    comments = [line for line in text.splitlines() if line.startswith("#")]
    releases = tuple(comments[-1].partition(ORDER)[2].split())
    rows = (line.split() for line in text.splitlines() if line and not line.startswith("#"))
    held = {row[0]: (_named(row[1], releases), _named(row[2] if len(row) > 2 else "0", releases)) for row in rows}
    return Masks(head=(*comments[:-1], comments[-1].partition(ORDER)[0]), releases=releases, rows=held)


def masks_text(masks: Masks) -> str:
    head = [*masks.head[:-1], f"{masks.head[-1]}{ORDER}{' '.join(masks.releases)}"]
    rows = (f"{name} {_row(*masks.rows[name], masks.releases)}" for name in sorted(masks.rows))
    return "".join(f"{line}\n" for line in (*head, *rows))


def with_release(masks: Masks, version: str, *, at: int, taken: Iterable[str], elsewhere: Iterable[str] = ()) -> Masks:
    """`at`: its place among the releases. A name that no release knows any more goes."""
    takes, knows = frozenset(taken), frozenset(elsewhere)
    before = without_release(masks, version)
    nothing: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset())
    rows = {
        name: (
            before.rows.get(name, nothing)[0] | ({version} if name in takes else frozenset()),
            before.rows.get(name, nothing)[1] | ({version} if name in knows else frozenset()),
        )
        for name in (before.rows.keys() | takes | knows)
    }
    order = (*before.releases[:at], version, *before.releases[at:])
    return Masks(head=masks.head, releases=order, rows=rows)


def without_release(masks: Masks, version: str) -> Masks:
    rows = {name: (takes - {version}, knows - {version}) for name, (takes, knows) in masks.rows.items()}
    left = {name: row for name, row in rows.items() if any(row)}
    return Masks(head=masks.head, releases=tuple(r for r in masks.releases if r != version), rows=left)


def place_of(version: str, releases: Sequence[str]) -> int:
    """After the last release that is older; tags that are no versions stand where they are."""
    older = [i for i, known in enumerate(releases) if (number := _number(known)) and number < (_number(version) or ())]
    return max(older, default=-1) + 1


def section(version: str, facts: Mapping[str, str], nested: Mapping[str, Sequence[str]] | None) -> str:
    """Of releases.toml; `nested` where it is not that of the release before."""
    lines = [f'["{version}"]', *(f"{key} = {value}" for key, value in facts.items()), ""]
    if nested is not None:
        children = (f"{parent} = {json.dumps(list(names))}" for parent, names in sorted(nested.items()))
        lines += [f'["{version}".nested]', *children, ""]
    return "".join(f"{line}\n" for line in lines)


def put_section(toml: str, version: str, text: str, *, before: str | None) -> str:
    """In place of the release's own section, else in front of `before`, else at the end."""
    without = drop_section(toml, version)
    if before is None:
        return f"{without.rstrip()}\n\n{text.rstrip()}\n"
    at = without.index(f'["{before}"]')
    return without[:at] + text + without[at:]


def drop_section(toml: str, version: str) -> str:
    name = re.escape(version)
    its = rf'^\["{name}"\].*?(?=^\["(?!{name}")|\Z)'
    return re.sub(its, "", toml, flags=re.MULTILINE | re.DOTALL)


def dump(version: str) -> dict[str, Any]:
    """What the release says of itself, with the dependencies of the locked one. Raises CalledProcessError."""
    python = environments.ensure("maxtext", progress=print).python
    with tempfile.TemporaryDirectory(prefix="xsft-release-") as folder:
        install = (find_uv(), "pip", "install", "--quiet", "--python", str(python), "--no-deps", "--target", folder)
        subprocess.run((*install, f"maxtext=={version}"), env=uv_environment(os.environ), check=True)
        quiet = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": folder}
        argv = (str(python), str(DUMP))
        done = subprocess.run(argv, env=quiet, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def written(version: str, found: Mapping[str, Any], facts: Mapping[str, str], catalog: Path) -> dict[str, str]:
    """The catalogue's files as they will be, by name."""
    keys = read_masks((catalog / "release_keys.txt").read_text())
    models = read_masks((catalog / "release_models.txt").read_text())
    toml = (catalog / "releases.toml").read_text()
    others = tuple(release for release in keys.releases if release != version)
    at = place_of(version, others)
    after = others[at] if at < len(others) else None
    nested = None if found["nested"] == _nested(toml, others[:at]) else found["nested"]
    text = section(version, facts, nested)
    return {
        "release_keys.txt": masks_text(
            with_release(keys, version, at=at, taken=found["keys"], elsewhere=found["elsewhere"])
        ),
        "release_models.txt": masks_text(with_release(models, version, at=at, taken=found["models"])),
        "releases.toml": put_section(toml, version, text, before=after),
    }


def decisions(version: str, found: Mapping[str, Any], catalog: Path) -> list[str]:
    """What a person must look at, a line each."""
    keys = read_masks((catalog / "release_keys.txt").read_text())
    before = [release for release in keys.releases if release != version][: place_of(version, keys.releases)][-1]
    old = {name for name, (takes, _knows) in keys.rows.items() if before in takes}
    rows = tomllib.loads((catalog / "models.toml").read_text())["models"]
    lacking = sorted(set(found["models"]) - rows.keys() - {"default"})
    return [
        f"keys that came since {before}: {' '.join(sorted(set(found['keys']) - old)) or 'none'}",
        f"keys that went: {' '.join(sorted(old - set(found['keys']))) or 'none'}",
        f"models without a row in models.toml: {' '.join(lacking) or 'none'}",
        "the facts of releases.toml, taken over from it: check each in the source, and give what changed as FACTS",
        "if it becomes the default: what CONTRIBUTING says under 'a MaxText release'",
    ]


def main(arguments: Sequence[str]) -> int:
    version, *given = arguments
    facts = dict(fact.split("=", 1) for fact in given)
    found = dump(version)
    told = decisions(version, found, CATALOG)
    for name, text in written(version, found, facts, CATALOG).items():
        (CATALOG / name).write_text(text)
    for line in told:
        print(f"decide: {line}")
    return 0


def _nested(toml: str, releases: Sequence[str]) -> dict[str, list[str]]:
    """Of the last of these releases: each section holds until a later one says otherwise."""
    sections = tomllib.loads(toml)
    said = [sections[release]["nested"] for release in releases if "nested" in sections[release]]
    return said[-1] if said else {}


def _named(mask: str, releases: Sequence[str]) -> frozenset[str]:
    return frozenset(release for i, release in enumerate(releases) if int(mask, 16) >> i & 1)


def _row(takes: frozenset[str], knows: frozenset[str], releases: Sequence[str]) -> str:
    masks = [sum(1 << i for i, release in enumerate(releases) if release in named) for named in (takes, knows)]
    return " ".join(f"{mask:03x}" for mask in (masks if masks[1] else masks[:1]))


def _number(version: str) -> tuple[int, ...] | None:
    return tuple(map(int, version.split("."))) if re.fullmatch(r"\d+(\.\d+)*", version) else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
