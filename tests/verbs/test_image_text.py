"""Output of `xsft image` for people."""

from __future__ import annotations

from typing import Any

from xsft.verbs.image_text import image_text

PART = {"tag": "deps-1", "outcome": None, "seconds": None, "files": 2, "bytes": 1500, "largest": [], "args": {"A": "b"}}
LOCK = {"file": "images/mine.lock.json", "digest": "sha256:1", "code": "code-0", "pushed_at": "2026", "current": False}
REPORT: dict[str, Any] = {
    "action": "show",
    "image": "mine",
    "repository": None,
    "maxtext": "0.2.5",
    "maxtext_source": "pypi",
    "base": "",
    "deps": PART,
    "code": {**PART, "tag": "code-1", "largest": [{"path": "a.py", "size": 900}]},
    "ref": None,
    "pushed": None,
    "lock": None,
    "images": None,
    "problems": [],
}


def test_show_prints_what_would_be_built_and_what_the_lock_has() -> None:
    text = image_text(REPORT)
    assert "code        code-1: 2 files, 1.5 kB\n" in text
    assert "900 bytes  a.py" in text
    assert "A=b" in text
    assert "no image for no registry" in text
    assert "differs from the files here (code-0)" in image_text({**REPORT, "lock": LOCK})
    assert ": matches the files here\n" in image_text({**REPORT, "lock": {**LOCK, "current": True}})


def test_build_and_push_print_the_outcome_of_each_part() -> None:
    done = {"deps": {**PART, "outcome": "held"}, "code": {**PART, "tag": "code-1", "outcome": "built", "seconds": 1.25}}
    assert image_text({**REPORT, "action": "build", **done}) == "deps-1  here already\ncode-1  built, 1.2 s\n"
    pushed = image_text({**REPORT, "action": "push", **done, "ref": "r@sha256:1", "pushed": False, "lock": LOCK})
    assert pushed.splitlines()[2:] == [
        "r@sha256:1  nothing to push",
        "lock: images/mine.lock.json",
        "in a workload: image: {name: mine}",
    ]


def test_the_list_is_a_table_that_marks_what_is_current_and_locked() -> None:
    one = {"where": "registry", "tag": "code-1", "digest": "sha256:" + "a" * 64, "size": 2_000_000, "at": None}
    rows = [{**one, "current": True, "locked": True}, {**one, "digest": None, "current": False, "locked": False}]
    lines = image_text({**REPORT, "action": "list", "images": rows}).splitlines()
    assert lines[0].split() == ["WHERE", "TAG", "DIGEST", "SIZE", "WHEN"]
    assert lines[1].endswith("current, locked")
    assert lines[2].split() == ["registry", "code-1", "-", "2", "MB", "-"]
