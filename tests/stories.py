"""The repository's workloads, planned without the world: no clock, no machine, no bucket that answers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tests.replacing import replace
from xsft.catalog.data import SCHEME
from xsft.checks.facts import Facts
from xsft.cluster.places import load_places
from xsft.data.facts import TokenizerFacts
from xsft.data.tokenizer import read_tokenizer
from xsft.environments import render
from xsft.planning.gather import template_facts
from xsft.planning.planner import make_intent, make_plan
from xsft.planning.steps import Intent, Plan
from xsft.spec.explain import read_spec
from xsft.spec.facts import CheckpointFacts, ImageFacts
from xsft.spec.model import WorkloadSpec
from xsft.spec.resolve import resolve
from xsft.spec.yamltext import load_yaml
from xsft.workers.delivery import programs_digest

ROOT = Path(__file__).parent.parent
FILES = tuple(sorted((ROOT / "workloads").glob("*.yaml")))
NAMES = tuple(file.stem for file in FILES)


@cache
def spec_of(name: str) -> WorkloadSpec:
    return read_spec((ROOT / "workloads" / f"{name}.yaml").read_text(encoding="utf-8"))


def facts_for(spec: WorkloadSpec) -> Facts:
    """The same on every machine: the repository's places, a fixed day, a bucket that could not be asked."""
    places, file = load_places(ROOT / "workloads")
    facts = Facts(
        today="20261121",
        commit="1a2b3c4d" * 5,
        places=places,
        places_file=Path(file).name if file else None,
        image=_pushed(spec.image.name) if spec.image.name else None,
        template=template_facts(spec, file=ROOT / "workloads" / "any.yaml"),
        memory_gib=8.0,
        tokenizer=_shipped(spec.model.tokenizer),
    )
    path = resolve(spec, facts)[0].checkpoint
    unread = CheckpointFacts(path=path, status="unreadable", detail="this is a test") if path else None
    return replace(facts, checkpoint=unread)


def _shipped(tokenizer: str | None) -> TokenizerFacts | None:
    """Every machine has what ships with xsft."""
    if tokenizer is None or not tokenizer.startswith(SCHEME):
        return None
    return read_tokenizer(tokenizer, hub_cache=Path("/nowhere"))


def _pushed(name: str) -> ImageFacts:
    """Return the facts of an image pushed to the registry of places.yaml's main."""
    repository = f"us-docker.pkg.dev/my-project/xsft/{name.replace('_', '-')}"
    digest = f"sha256:{'0123456789abcdef' * 4}"
    return ImageFacts(name=name, repository=repository, digest=digest, maxtext="0.2.5", evaluate=programs_digest())


def intent_of(spec: WorkloadSpec) -> Intent:
    return make_intent(spec, facts_for(spec))


def varied(spec: WorkloadSpec, changes: Mapping[str, Any]) -> WorkloadSpec:
    """`spec` with dotted keys set, e.g. `{"train.steps": 10, "lora": {"rank": 8, "alpha": 16}}`; types are checked."""
    tree = spec.model_dump(mode="json", exclude_none=True)
    for path, value in changes.items():
        *parents, last = path.split(".", maxsplit=path.count(".") if not path.startswith("overrides.maxtext.") else 2)
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = value
    return WorkloadSpec.model_validate(tree)


def plans_of(intents: Mapping[str, Intent], *, python: Path, scratch: Path) -> dict[str, Plan]:
    """Plans by name; what xpk renders is rendered by the real one, in one process."""
    lines = tuple(dict.fromkeys(intent.xpk_argv for intent in intents.values() if intent.xpk_argv))
    texts = render.render(lines, python=python, lock_digest="tests", cache=scratch)
    rendered = {line: load_yaml(text) for line, text in zip(lines, texts, strict=True)}
    return {
        name: make_plan(intent, rendered=rendered.get(intent.xpk_argv or ()), file=f"workloads/{name}.yaml")
        for name, intent in intents.items()
    }
