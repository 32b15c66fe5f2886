from __future__ import annotations

import io

import pytest

from xsft.verbs.document import confirm


@pytest.mark.parametrize(
    ("answer", "meant"),
    [("y\n", True), ("YES\n", True), (" y \n", True), ("\n", False), ("", False), ("n\n", False), ("yep\n", False)],
    ids=["y", "YES", "y between blanks", "empty line", "end of input", "n", "yep"],
)
def test_confirm_accepts_only_y_and_yes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answer: str, meant: bool
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))
    assert confirm("Cancel it? [y/N] ") is meant
    assert capsys.readouterr() == ("", "Cancel it? [y/N] ")
