"""Choice of an image's registry."""

from __future__ import annotations

from pathlib import Path

import pytest

from xsft.base.errors import UsageError
from xsft.effects.images.repository import registry_of

PLACE = "{project: my-project, zone: us-east5-b, cluster: c"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "pyproject.toml").write_text("")
    return tmp_path


def places(project: Path, **registries: str | None) -> Path:
    rows = (f"{name}: {PLACE}{f', registry: {found}' if found else ''}}}" for name, found in registries.items())
    (project / "places.yaml").write_text("\n".join(rows) + "\n")
    return project


def test_registry_of_is_the_places_own_or_the_only_one(project: Path) -> None:
    places(project, main="a.dev/p", spare="a.dev/p", bare=None)
    assert registry_of("main", start=project) == "a.dev/p"
    assert registry_of(None, start=project) == "a.dev/p"
    places(project, main="a.dev/p", other="b.dev/p")
    assert registry_of(None, start=project) is None
    assert registry_of("other", start=project) == "b.dev/p"


def test_registry_of_is_none_without_places(project: Path) -> None:
    assert registry_of(None, start=project) is None


@pytest.mark.parametrize(("name", "says"), [("mian", "Known: bare, main"), ("bare", "has no registry")])
def test_an_unknown_place_or_one_without_a_registry_is_reported(project: Path, name: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        registry_of(name, start=places(project, main="a.dev/p", bare=None))
