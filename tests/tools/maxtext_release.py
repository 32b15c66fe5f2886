"""Takes a MaxText release into the catalogue: `make maxtext-release VERSION=0.2.6 [FACTS="scan_layers_auto=true"]
[DEFAULT=yes]`.

Installs the release's wheel beside the dependencies of the locked one, dumps its keys, nested keys, models and required
packages (tests/catalog/dumps/maxtext_facts.py), writes them into xsft/catalog, and prints what a person must decide.
Facts that no dump contains (xsft/catalog/releases.toml explains each) are given in FACTS, else those that the release
already has there are kept, else those of the release before hold. DEFAULT=yes makes it the release that workloads get:
its pin, the models' own settings, the types of the keys and the keys that no code reads are those of the default
release only.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from uv import find_uv_bin

from xsft.catalog.data import toml as catalog_toml
from xsft.catalog.releases import DEFAULT, Release
from xsft.environments import environments
from xsft.environments.uv import uv_environment

ROOT = Path(__file__).parents[2]
CATALOG = ROOT / "xsft" / "catalog"
DUMPS = ROOT / "tests" / "catalog" / "dumps"
PACKAGES = ("jax", "libtpu", "google-tunix", "transformers", "tokenizers", "datasets", "orbax-checkpoint", "flax")
"""Those of the extra `tpu-post-train` whose oldest version an image is held against (image-package-old)."""
DEFAULT_PINS = {
    "xsft/catalog/releases.py": r'^(DEFAULT = ")[^"]+(")$',
    "xsft/spec/sections.py": r'^(    maxtext: str = ")[^"]+(")$',
    "xsft/locks/maxtext.in": r"^(maxtext==)\S+()$",
}
"""File -> the line that names the default release, around its number."""
Pins = Mapping[str, Mapping[str, Any]]
"""Model -> the keys that its own configuration sets."""
LINES = 8
"""Of a failed process's standard error."""
DUMPED = ("nested", "requires")
FACTS = {name: kind for name, kind in Release.__annotations__.items() if name not in ("version", *DUMPED)}
"""Those that no dump contains -> the name of their type."""
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
    rows_left = {name: row for name, row in rows.items() if any(row)}
    return Masks(head=masks.head, releases=tuple(r for r in masks.releases if r != version), rows=rows_left)


def place_of(version: str, releases: Sequence[str]) -> int:
    """Return its own place if it is known, the end if no release is newer, else the place after the last older one.
    Tags that are no versions keep their places.
    """
    if version in releases:
        return releases.index(version)
    numbers = {i: number for i, releases_known in enumerate(releases) if (number := _number(releases_known))}
    older = [i for i, number in numbers.items() if number < (_number(version) or ())]
    return max(older, default=-1) + 1 if len(older) < len(numbers) else len(releases)


def section(version: str, facts: Mapping[str, str], nested: Mapping[str, Sequence[str]] | None) -> str:
    """Return a section of releases.toml; `nested` if it differs from the release before."""
    lines = [f'["{version}"]', *(f"{key} = {value}" for key, value in facts.items()), ""]
    if nested is not None:
        children = (f"{parent} = {json.dumps(list(names))}" for parent, names in sorted(nested.items()))
        lines += [f'["{version}".nested]', *children, ""]
    return "".join(f"{line}\n" for line in lines)


def own_facts(toml: str, version: str) -> dict[str, str]:
    """Return the facts in a release's section, as they are written there, without those that a dump contains."""
    lines = toml.partition(f'["{version}"]\n')[2].partition("\n[")[0].splitlines()
    facts = dict(line.split(" = ", 1) for line in lines if line)
    return {name: value for name, value in facts.items() if name not in DUMPED}


def facts_as_toml(given: Iterable[str]) -> dict[str, str]:
    """Return fact -> its value as TOML, of words such as `scan_layers_auto=true`. Exits on others."""
    facts = {}
    for word in given:
        name, _, value = word.partition("=")
        kind = FACTS.get(name)
        if kind is None or (kind == "bool" and value not in ("true", "false")):
            sys.exit(f"{word!r} is no fact=value. Facts: {', '.join(FACTS)}; those of type bool are true or false")
        facts[name] = value if kind == "bool" else json.dumps(value.strip('"'))
    return facts


def put_section(toml: str, version: str, text: str, *, before: str | None) -> str:
    """Put the section in place of the release's own, else in front of `before`, else at the end."""
    without = drop_section(toml, version)
    if before is None:
        return f"{without.rstrip()}\n\n{text.rstrip()}\n"
    index = without.index(f'["{before}"]')
    return without[:index] + text + without[index:]


def drop_section(toml: str, version: str) -> str:
    name = re.escape(version)
    its = rf'^\["{name}"\].*?(?=^\["(?!{name}")|\Z)'
    return re.sub(its, "", toml, flags=re.MULTILINE | re.DOTALL)


@contextmanager
def installed(version: str) -> Iterator[Mapping[str, str]]:
    """Install the release beside the dependencies of the locked one; yield the environment of processes that import
    it. Exits if the index does not have it.
    """
    python = environments.ensure("maxtext", progress=print).python
    with tempfile.TemporaryDirectory(prefix="xsft-release-") as folder:
        install = (find_uv_bin(), "pip", "install", "--quiet", "--python", str(python), "--no-deps", "--target", folder)
        output((*install, f"maxtext=={version}"), uv_environment(os.environ), hint="Is that release published?")
        if not (Path(folder) / "maxtext").is_dir():  # or the dumps would read the locked release
            sys.exit(f"The wheel of maxtext {version} has no package maxtext; change tests/catalog/dumps")
        yield {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": folder}


def dump(environment: Mapping[str, str]) -> dict[str, Any]:
    """Return what the installed release says of itself."""
    found: dict[str, Any] = printed("maxtext_facts.py", environment)
    folder = Path(environment["PYTHONPATH"])
    return {**found, "requires": required(folder), "defects": defects_in(folder / "maxtext")}


def defects_in(package: Path) -> list[str]:
    """Return the known defects whose code is in the package: release_defects.toml names a text of one of its files."""
    present = []
    for name, row in catalog_toml("release_defects.toml").items():
        file, text = row["code"]
        path = package / file
        has_text = path.is_file() and text in path.read_text()
        if has_text != row.get("repaired", False):
            present.append(name)
    return present


def earlier_pins(catalog: Path, pins_known: Mapping[str, Pins], *, default: Pins) -> str:
    """Return earlier_pins.jsonl: what the models of each release set otherwise than those of the default release.
    `known`: the models of releases that the file does not have, or has otherwise."""
    before = _model_pins(catalog)
    rows = {row.pop("release"): row for row in map(json.loads, _lines(catalog / "earlier_pins.jsonl"))}
    changed = {
        version: {name: {**before[name], **row.get(name, {})} for name in before} for version, row in rows.items()
    }
    every = {**changed, **pins_known}
    order = read_masks((catalog / "release_keys.txt").read_text()).releases
    for version in pins_known:
        others = tuple(release for release in order if release != version)
        place = place_of(version, order)
        order = (*others[:place], version, *others[place:])
    documents = [{"release": version, **_changes(every[version], default)} for version in order if version in every]
    return "".join(json.dumps(document, separators=(",", ":")) + "\n" for document in documents if len(document) > 1)


def _changes(models: Pins, default: Pins) -> dict[str, dict[str, Any]]:
    changes = {}
    for name in sorted(models.keys() & default.keys()):
        ours, theirs = models[name], default[name]
        keys = sorted(key for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key))
        values = {key: ours.get(key) for key in keys if not isinstance(ours.get(key, theirs.get(key)), list | dict)}
        values.pop("model_name", None)
        if values:
            changes[name] = values
    return changes


def _model_pins(catalog: Path) -> dict[str, dict[str, Any]]:
    return {row.pop("model"): row for row in map(json.loads, _lines(catalog / "model_pins.jsonl"))}


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def dump_default(environment: Mapping[str, str]) -> dict[str, Any]:
    """Return `dump`, and what the catalogue holds of the default release only."""
    found, unread = dump(environment), printed("maxtext_unread.py", environment)
    keys_read = [key for key in unread if key in set(found["keys"])]
    return {**found, "key_types": printed("maxtext_types.py", environment), "unread_keys": keys_read}


def printed(script: str, environment: Mapping[str, str]) -> Any:
    """Return the document that a script of tests/catalog/dumps prints in MaxText's Python."""
    argv = (str(environments.ensure("maxtext", progress=print).python), str(DUMPS / script))
    moved = f"Adapt tests/catalog/dumps/{script}; a package that is missing belongs into xsft/locks/maxtext.in"
    return json.loads(output(argv, environment, hint=moved).splitlines()[-1])


def output(argv: Sequence[str], environment: Mapping[str, str], *, hint: str) -> str:
    """Return what a process prints. Exits with the end of its standard error, and the hint, if it fails."""
    done = subprocess.run(argv, env=dict(environment), check=False, capture_output=True, text=True)
    if done.returncode:
        last_lines = "\n".join(done.stderr.splitlines()[-LINES:])
        sys.exit(f"{last_lines}\n{Path(argv[0]).name} {argv[-1]} failed with exit status {done.returncode}. {hint}")
    return done.stdout


def required(folder: Path) -> dict[str, str]:
    """Return the oldest version of each of PACKAGES that the installed wheel's extra for post-training takes."""
    (wheel,) = (requirement for requirement in distributions(path=[str(folder)]) if requirement.name == "maxtext")
    requirements = [Requirement(line) for line in wheel.requires or ()]
    extra = [
        requirement
        for requirement in requirements
        if requirement.marker and requirement.marker.evaluate({"extra": "tpu-post-train"})
    ]
    oldest = {
        requirement.name: part.version
        for requirement in extra
        for part in requirement.specifier
        if part.operator == ">="
    }
    return {name: oldest[name] for name in PACKAGES if name in oldest}


def written(
    version: str, facts_of_release: Mapping[str, Any], facts: Mapping[str, str], catalog: Path
) -> dict[str, str]:
    """The catalogue's files as they will be, by name. `facts`: fact -> its value as TOML."""
    keys = read_masks((catalog / "release_keys.txt").read_text())
    models = read_masks((catalog / "release_models.txt").read_text())
    weights = read_masks((catalog / "release_weights.txt").read_text())
    toml = (catalog / "releases.toml").read_text()
    facts = {**own_facts(toml, version), **facts}
    others = tuple(release for release in keys.releases if release != version)
    place = place_of(version, keys.releases)
    after = others[place] if place < len(others) else None
    nested = None if facts_of_release["nested"] == _last(toml, others[:place], "nested") else facts_of_release["nested"]
    if facts_of_release["requires"] != _last(toml, others[:place], "requires"):
        pairs = ", ".join(f'{name} = "{oldest}"' for name, oldest in facts_of_release["requires"].items())
        facts = {**facts, "requires": f"{{ {pairs} }}"}
    text = section(version, facts, nested)
    return {
        "release_keys.txt": masks_text(
            with_release(
                keys, version, at=place, taken=facts_of_release["keys"], elsewhere=facts_of_release["elsewhere"]
            )
        ),
        "release_models.txt": masks_text(with_release(models, version, at=place, taken=facts_of_release["models"])),
        "release_weights.txt": masks_text(
            with_release(
                weights,
                version,
                at=place,
                taken=facts_of_release["weights"]["convert"],
                elsewhere=facts_of_release["weights"]["export"],
            )
        ),
        "releases.toml": put_section(toml, version, text, before=after),
    }


def written_as_default(version: str, facts_of_release: Mapping[str, Any], root: Path) -> dict[str, str]:
    """The files that are the default release's, as they will be, by their path in the repository."""
    pins = (
        json.dumps({"model": name, **yml}, separators=(",", ":"))
        for name, yml in sorted(facts_of_release["model_ymls"].items())
    )
    catalog = root / "xsft" / "catalog"
    texts = {"xsft/catalog/model_pins.jsonl": "".join(f"{line}\n" for line in pins)}
    before = {DEFAULT: _model_pins(catalog)} if version != DEFAULT else {}
    texts["xsft/catalog/earlier_pins.jsonl"] = earlier_pins(catalog, before, default=facts_of_release["model_ymls"])
    for name in ("key_types", "unread_keys"):
        head = [line for line in (root / f"xsft/catalog/{name}.txt").read_text().splitlines() if line[0] == "#"]
        head = [re.sub(r"(MaxText |maxtext@)[0-9.]*[0-9]", rf"\g<1>{version}", line) for line in head]
        texts[f"xsft/catalog/{name}.txt"] = "".join(f"{line}\n" for line in (*head, *facts_of_release[name]))
    for path, pin in DEFAULT_PINS.items():
        texts[path], count = re.subn(pin, rf"\g<1>{version}\g<2>", (root / path).read_text(), flags=re.MULTILINE)
        if count != 1:
            raise ValueError(f"{path} names the default release in {count} lines; one is expected")
    return texts


def decisions(version: str, facts_of_release: Mapping[str, Any], catalog: Path) -> list[str]:
    """Return what a person must decide, a paragraph each, once the catalogue is written."""
    keys = read_masks((catalog / "release_keys.txt").read_text())
    before = keys.releases[keys.releases.index(version) - 1]
    old = {name for name, (takes, _knows) in keys.rows.items() if before in takes}
    rows = tomllib.loads((catalog / "models.toml").read_text())["models"]
    lacking = sorted(set(facts_of_release["models"]) - rows.keys() - {"default"})
    return [
        _listed(f"keys that {version} has and {before} has not", set(facts_of_release["keys"]) - old),
        _listed(
            "keys that went; one with a new name gets a row in renamed_keys.toml", old - set(facts_of_release["keys"])
        ),
        _listed("models without a row in models.toml", lacking),
        _listed(
            f"facts that no dump contains, as they now hold for {version}; check them in MaxText's source and give "
            "what differs as FACTS (releases.toml explains each)",
            _facts_of(version, tomllib.loads((catalog / "releases.toml").read_text())),
        ),
        _listed(
            f"defects of release_defects.toml whose code {version} has; `fixed` must agree, and its changelog and the "
            "fixes since the release before must be read for new ones",
            facts_of_release["defects"],
        ),
    ]


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """`root`: of the repository that is changed."""
    if not arguments:
        sys.exit("Name the release: make maxtext-release VERSION=0.2.6")
    version, *options = arguments
    as_default = "DEFAULT=yes" in options
    facts = facts_as_toml(word for word in options if not word.startswith("DEFAULT="))
    with installed(version) as environment:
        facts_of_release = dump_default(environment) if as_default else dump(environment)
    catalog = root / "xsft" / "catalog"
    texts = {f"xsft/catalog/{name}": text for name, text in written(version, facts_of_release, facts, catalog).items()}
    if as_default:
        texts |= written_as_default(version, facts_of_release, root)
    else:
        models_known = {version: facts_of_release["model_ymls"]}
        texts["xsft/catalog/earlier_pins.jsonl"] = earlier_pins(catalog, models_known, default=_model_pins(catalog))
    for path, text in texts.items():
        print(f"{path}: {'unchanged' if (root / path).read_text() == text else 'written'}")
        (root / path).write_text(text)
    decisions_left = decisions(version, facts_of_release, catalog)
    if as_default:
        pins = [f"{name}=={oldest}" for name, oldest in facts_of_release["requires"].items()]
        decisions_left.append(_listed("other pins of xsft/locks/maxtext.in, then make locks docs golden", pins))
        decisions_left.append("the README's tables, and each value that cites MaxText: tests/contract compare them")
    for line in decisions_left:
        print(f"decide: {line}")
    return 0


def _listed(what: str, names: Iterable[str]) -> str:
    words = " ".join(sorted(names)) or "none"
    return f"{what}:\n{textwrap.indent(textwrap.fill(words, 116, break_on_hyphens=False), '    ')}"


def _facts_of(version: str, sections: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return fact=value for each fact that no dump contains: a section's facts hold until a later one differs."""
    facts_by_release: dict[str, Any] = {}
    for release, news in sections.items():
        facts_by_release |= news
        if release == version:
            break
    return [f"{name}={json.dumps(facts_by_release[name])}" for name in FACTS if name in facts_by_release]


def _last(toml: str, releases: Sequence[str], fact: str) -> dict[str, Any]:
    """Return the nested keys of the last of these releases: each section holds until a later one differs."""
    sections = tomllib.loads(toml)
    said = [sections[release][fact] for release in releases if fact in sections[release]]
    return dict(said[-1]) if said else {}


def _named(mask: str, releases: Sequence[str]) -> frozenset[str]:
    return frozenset(release for i, release in enumerate(releases) if int(mask, 16) >> i & 1)


def _row(takes: frozenset[str], knows: frozenset[str], releases: Sequence[str]) -> str:
    masks = [sum(1 << i for i, release in enumerate(releases) if release in named) for named in (takes, knows)]
    return " ".join(f"{mask:03x}" for mask in (masks if masks[1] else masks[:1]))


def _number(version: str) -> tuple[int, ...] | None:
    return tuple(map(int, version.split("."))) if re.fullmatch(r"\d+(\.\d+)*", version) else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
