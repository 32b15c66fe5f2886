from __future__ import annotations

from pathlib import Path

import pytest

from xsft.base.errors import Refused, UsageError
from xsft.base.reporting import Reporter
from xsft.world.new_place import PlaceRequest, add_place

REQUEST = PlaceRequest(name="lab", context="lab", output="gs://my-bucket/runs", offline=True)


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "places.yaml").write_text("mine: {context: mine}\n")
    monkeypatch.chdir(tmp_path)


def test_add_place_changes_places_yaml_and_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    new_place = add_place(REQUEST, ask=None, listener=Reporter())
    assert (new_place.name, new_place.values) == ("lab", {"context": "lab", "output": "gs://my-bucket/runs"})
    added = "lab:\n  context: lab\n  output: gs://my-bucket/runs\n"
    assert Path("places.yaml").read_text() == f"mine: {{context: mine}}\n{added}"
    assert capsys.readouterr() == ("", "")
    with pytest.raises(Refused, match="already has a place lab"):
        add_place(REQUEST, ask=None, listener=Reporter())


def test_add_place_asks_for_what_the_request_lacks() -> None:
    questions: list[str] = []

    def ask(question: str, _options: tuple[str, ...], default: str) -> str:
        questions.append(question)
        return default

    request = PlaceRequest(context="lab", offline=True, write=False)
    assert add_place(request, ask=ask, listener=Reporter()).name == "lab"
    assert questions == ["Name of the place", "Output", "Registry"]
    with pytest.raises(UsageError, match="No cluster was named, and 0 were found"):
        add_place(PlaceRequest(offline=True), ask=None, listener=Reporter())
