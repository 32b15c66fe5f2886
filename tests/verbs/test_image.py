"""`xsft image`: values of its options, its registry, and its text."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.replacing import replace
from xsft.base.errors import UsageError
from xsft.verbs.cli import main
from xsft.verbs.image import ContextEntry, ImageDocument, ImageLock, ImagePart, image_text, registry_of

OPTIONS = [
    "image",
    "registry",
    "place",
    "maxtext",
    "maxtext-source",
    "tunix-source",
    "base",
    "vllm",
    "code",
    "pip-config",
]
PLACE = "{project: my-project, zone: us-east5-b, cluster: c"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XSFT_CACHE_DIR", str(tmp_path / "cache"))
    mine = tmp_path / "images" / "mine"
    mine.mkdir(parents=True)
    (mine / "Dockerfile").write_text("FROM scratch\nCOPY deps.json /usr/share/xsft/deps.json\n")
    (tmp_path / "pyproject.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("option", OPTIONS)
def test_an_empty_value_of_an_option_is_refused(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An unset shell variable: `--code "$MINE"` would else put the current folder into the image."""
    assert main(["image", "show", f"--{option}="]) == 2
    assert f"--{option}: empty value" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["build", "--accept", "image-context-secret"], "choose from"),
        (["show", "--arg", "A"], "--arg A: no `=` in it."),
        (["show", "--arg", "=1"], "--arg =1: no `=` in it."),
        (["show", "--pip-config", "no.conf"], "--pip-config no.conf: no such file."),
        (["push"], "No registry given."),
        (["list"], "`xsft image list` is withdrawn."),
    ],
)
def test_wrong_options_are_refused_before_anything_is_built(
    project: Path, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["image", *arguments, "--image=mine"]) == 2
    assert words in capsys.readouterr().err


def places(project: Path, **registries: str | None) -> Path:
    rows = (
        f"{name}: {PLACE}{f', registry: {registry}' if registry else ''}}}" for name, registry in registries.items()
    )
    (project / "places.yaml").write_text("\n".join(rows) + "\n")
    return project


def test_registry_of_is_the_places_own_or_the_only_one(project: Path) -> None:
    assert registry_of(None, start=project) is None
    places(project, main="a.dev/p", spare="a.dev/p", bare=None)
    assert registry_of("main", start=project) == "a.dev/p"
    assert registry_of(None, start=project) == "a.dev/p"
    places(project, main="a.dev/p", other="b.dev/p")
    assert registry_of(None, start=project) is None
    assert registry_of("other", start=project) == "b.dev/p"


@pytest.mark.parametrize(("name", "says"), [("mian", "Known: bare, main"), ("bare", "has no registry")])
def test_an_unknown_place_or_one_without_a_registry_is_reported(project: Path, name: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        registry_of(name, start=places(project, main="a.dev/p", bare=None))


PART = ImagePart(
    tag="deps-1",
    outcome=None,
    seconds=None,
    files=2,
    bytes=1000,
    largest=[ContextEntry(path="a", size=900)],
    args={"A": "b"},
)
LOCK = ImageLock(
    file="images/mine.lock.json", digest="sha256:1", code="code-0", maxtext="0.2.5", pushed_at="2026", commit=None,
    dirty=None, current=False,
)  # fmt: skip
SHOWN = ImageDocument(
    action="show", image="mine", repository="r/mine", maxtext="0.2.5", maxtext_source="pypi",
    base="", deps=PART, code=replace(PART, tag="code-1"), ref=None, pushed=None, sent_bytes=None, lock=None,

)  # fmt: skip


def text(document: ImageDocument) -> str:
    return "\n".join(image_text(document))


def test_show_prints_the_parts_and_what_the_lock_has() -> None:
    shown = text(SHOWN)
    assert "deps        deps-1: 2 files, 1 kB" in shown
    assert "A=b" in shown
    assert "no image for r/mine: make image push" in shown
    assert "differs from the files here (code-0)" in text(replace(SHOWN, lock=LOCK))
    assert "matches the files here" in text(replace(SHOWN, lock=replace(LOCK, current=True)))


def test_build_and_push_print_what_was_done() -> None:
    done = {"deps": replace(PART, outcome="held"), "code": replace(PART, tag="code-1", outcome="built", seconds=1.24)}
    built = "deps-1  here already\ncode-1  built, 1.2 s"
    assert text(replace(SHOWN, action="build", **done)) == built
    pushed = replace(SHOWN, action="push", ref="r@sha256:1", lock=LOCK, pushed=True, sent_bytes=12_345, **done)
    assert text(pushed).splitlines()[2:] == [
        "r@sha256:1  pushed, 12,345 bytes",
        "lock: images/mine.lock.json",
        "in a workload: image: {name: mine}",
    ]
    assert "nothing to push" in text(replace(pushed, pushed=False, sent_bytes=0))
