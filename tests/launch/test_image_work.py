from __future__ import annotations

from pathlib import Path

import pytest

from xsft.base.errors import UsageError
from xsft.image.progress import BuildEvent
from xsft.launch.image_work import ImageRequest, work_for


class Unseen:
    def say(self, line: str) -> None: ...

    def event(self, event: BuildEvent) -> None: ...


@pytest.fixture(autouse=True)
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "images" / "mine").mkdir(parents=True)
    (tmp_path / "images" / "mine" / "Dockerfile").write_text("FROM python:3.12\n")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"args": ("A",)}, "--arg A: no `=` in it."),
        ({"args": ("=1",)}, "--arg =1: no `=` in it."),
        ({"pip_config": "no.conf"}, "--pip-config no.conf: no such file."),
    ],
)
def test_wrong_options_are_refused_before_anything_is_built(changes: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError) as refused:
        work_for(ImageRequest(image="mine", registry="r.example/x", needs_base=True, **changes), display=Unseen())
    assert refused.value.message == words
