"""Cache, batching, fall-back and messages, with a small program in the place of xpk's interpreter.

What the real xpk renders is in tests/contract/test_xpk_render.py.
"""

from __future__ import annotations

import json
import os
import stat
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xsft.base.errors import EnvironmentMissing, SpecError, XsftError
from xsft.environments.render import render

pytestmark = pytest.mark.loopback

Argv = tuple[str, ...]
Interpreter = Callable[..., Path]

# Plays `python -X utf8 -I ENTRY PROGRAM QUESTION ANSWER` and `… -I -m xpk.main workload …`; logs what it saw.
FAKE = """\
#!{python}
import json, os, stat, sys
args = sys.argv[5:]
plain = args[0] == "xpk.main"
scratch = os.environ["TMPDIR"]
with open({log!r}, "a") as log:
    print(json.dumps(dict(
        kind="plain" if plain else "lean", flags=sys.argv[1:4], env=dict(os.environ), cwd=os.getcwd(),
        mode=stat.S_IMODE(os.stat(scratch).st_mode), jobs=len(json.load(open(args[1]))["jobs"]) if not plain else 1,
        stdin=sys.stdin.read(), argv=args[1:],
    )), file=log)
def manifest(argv):
    return "manifest of " + " ".join(argv) + " é\\n"
if plain:
    argv = [a for a in args[1:] if not a.startswith(("--dry-run", "--output-manifest-file="))]
    path = args[-1].partition("=")[2]
    {plain}
else:
    jobs = json.load(open(args[1]))["jobs"]
    {lean}
"""
LEAN = (
    "[open(job['manifest'], 'w').write(manifest(job['argv'])) for job in jobs];"
    "json.dump([0] * len(jobs), open(args[2], 'w'))"
)
PLAIN = "open(path, 'w').write(manifest(argv)); print('[XPK] done')"


@pytest.fixture
def interpreter(tmp_path: Path) -> Interpreter:
    def make(*, lean: str = LEAN, plain: str = PLAIN) -> Path:
        program = tmp_path / "python"
        text = FAKE.format(python=sys.executable, log=str(tmp_path / "log"), lean=lean, plain=plain)
        program.write_text(text)
        program.chmod(0o755)
        return program

    return make


def _log(tmp_path: Path) -> list[dict[str, Any]]:
    log = tmp_path / "log"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def _line(name: str, verb: str = "create") -> Argv:
    return ("xpk", "workload", verb, "--cluster=c", f"--workload={name}")


def _manifest(argv: Argv) -> str:
    return f"manifest of {' '.join(argv[1:])} é\n"


def _render(*argvs: Argv, python: Path, cache: Path, lock: str = "lock") -> tuple[str, ...]:
    return render(argvs, python=python, lock_digest=lock, cache=cache)


def test_manifests_are_in_the_order_of_the_lines(interpreter: Interpreter, tmp_path: Path) -> None:
    lines = (_line("b"), _line("a", "create-pathways"), _line("b"), _line("c"))
    assert _render(*lines, python=interpreter(), cache=tmp_path / "cache") == tuple(map(_manifest, lines))


def test_one_process_renders_100_lines(interpreter: Interpreter, tmp_path: Path) -> None:
    _render(*(_line(f"w{i}") for i in range(100)), python=interpreter(), cache=tmp_path / "cache")
    assert [(entry["kind"], entry["jobs"]) for entry in _log(tmp_path)] == [("lean", 100)]


def test_cached_lines_start_no_process(interpreter: Interpreter, tmp_path: Path) -> None:
    python, cache = interpreter(), tmp_path / "cache"
    first = _render(_line("a"), _line("b"), python=python, cache=cache)
    assert _render(_line("b"), _line("a"), python=python, cache=cache) == first[::-1]
    assert _render(_line("a"), python=tmp_path / "gone", cache=cache) == first[:1]
    assert len(_log(tmp_path)) == 1


def test_only_lines_missing_from_the_cache_are_rendered(interpreter: Interpreter, tmp_path: Path) -> None:
    python, cache = interpreter(), tmp_path / "cache"
    _render(_line("a"), python=python, cache=cache)
    _render(_line("a"), _line("b"), _line("b"), python=python, cache=cache)
    assert [entry["jobs"] for entry in _log(tmp_path)] == [1, 1]


def test_rendering_no_lines_starts_no_process(tmp_path: Path) -> None:
    assert _render(python=tmp_path / "gone", cache=tmp_path / "cache") == ()


@pytest.mark.early
def test_the_cache_key_contains_the_lock(interpreter: Interpreter, tmp_path: Path) -> None:
    python, cache = interpreter(), tmp_path / "cache"
    for lock in ("one", "two", "one"):
        _render(_line("a"), python=python, cache=cache, lock=lock)
    assert len(_log(tmp_path)) == 2


@settings(max_examples=10)
@given(data=st.data())
def test_a_damaged_cache_entry_is_rendered_again(interpreter: Interpreter, tmp_path: Path, data: st.DataObject) -> None:
    python = interpreter()
    with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
        _render(_line("a"), python=python, cache=Path(folder))
        (entry,) = (Path(folder) / "renders").iterdir()
        good = entry.read_bytes()
        position = data.draw(st.integers(0, len(good) - 1))
        damaged = data.draw(
            st.sampled_from(
                [good[:position], good[:position] + bytes([good[position] ^ 1]) + good[position + 1 :], good + b"x"]
            )
        )
        entry.write_bytes(damaged)
        assert _render(_line("a"), python=python, cache=Path(folder)) == (_manifest(_line("a")),)
        assert entry.read_bytes() == good


def test_cache_entries_are_complete_and_readable_only_by_the_user(interpreter: Interpreter, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    _render(_line("a"), _line("b"), python=interpreter(), cache=cache)
    entries = list((cache / "renders").iterdir())
    assert len(entries) == 2
    assert all(entry.suffix == ".yaml" and not entry.name.startswith(".") for entry in entries)
    assert all(stat.S_IMODE(entry.stat().st_mode) == 0o600 for entry in entries)


def test_old_cache_entries_are_removed_when_one_is_added(interpreter: Interpreter, tmp_path: Path) -> None:
    _render(_line("old"), python=interpreter(), cache=tmp_path / "cache")
    (old,) = (tmp_path / "cache" / "renders").iterdir()
    os.utime(old, (0, 0))
    (old.parent / "notes.txt").touch()
    os.utime(old.parent / "notes.txt", (0, 0))
    for number in range(20):  # what cannot be removed hides nothing
        (old.parent / f"{number}.yaml").mkdir()
        os.utime(old.parent / f"{number}.yaml", (0, 0))
    _render(_line("new"), python=interpreter(), cache=tmp_path / "cache")
    assert not old.exists()
    assert (old.parent / "notes.txt").exists(), "not ours"
    assert sum(entry.is_file() for entry in old.parent.glob("*.yaml")) == 1


def test_an_unwritable_cache_is_no_error(interpreter: Interpreter, tmp_path: Path) -> None:
    occupied = tmp_path / "cache"
    occupied.write_text("a file where the folder should be")
    assert _render(_line("a"), python=interpreter(), cache=occupied) == (_manifest(_line("a")),)


@pytest.mark.early
def test_xpk_runs_in_a_private_environment_and_folder(
    interpreter: Interpreter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile = {"XPK_TESTER": "true", "SUB_SLICING_ENABLED": "true", "KUBECONFIG": "/mine", "PYTHONPATH": "/mine"}
    for name, value in hostile.items():
        monkeypatch.setenv(name, value)
    lean = "json.dump([1] * len(jobs), open(args[2], 'w'))"
    _render(_line("a"), python=interpreter(lean=lean), cache=tmp_path / "cache")
    for call in _log(tmp_path):
        scratch = call["cwd"]
        assert call["flags"] == ["-X", "utf8", "-I"]
        assert call["mode"] == 0o700
        assert call["stdin"] == ""
        expected = {
            "HOME": scratch,
            "TMPDIR": scratch,
            "KUBECONFIG": f"{scratch}/kubeconfig",
            "TELEMETRY_ENABLED": "false",
            "DEPENDENCY_AUTO_DOWNLOAD": "false",
            "XPK_TESTER": "false",
        }
        assert expected.items() <= call["env"].items()
        # LC_CTYPE: Python's own, when it starts in the C locale; the loader's path is passed on where one is set.
        assert set(call["env"]) <= {*expected, "PATH", "LANG", "LC_CTYPE", "LD_LIBRARY_PATH", "__CF_USER_TEXT_ENCODING"}
        assert not Path(scratch).exists()
    assert [call["kind"] for call in _log(tmp_path)] == ["lean", "plain"]


@pytest.mark.parametrize(
    "lean",
    [
        "sys.exit(1)",
        "os.kill(os.getpid(), 9)",
        "pass",
        "json.dump([0] * len(jobs), open(args[2], 'w'))",
        "json.dump([None] * len(jobs), open(args[2], 'w'))",
        "open(args[2], 'w').write('[0')",
        "json.dump([], open(args[2], 'w'))",
        "json.dump({}, open(args[2], 'w'))",
    ],
)
def test_a_failed_worker_falls_back_to_the_command_line(interpreter: Interpreter, tmp_path: Path, lean: str) -> None:
    lines = (_line("a"), _line("b"))
    assert _render(*lines, python=interpreter(lean=lean), cache=tmp_path / "cache") == tuple(map(_manifest, lines))
    assert [call["kind"] for call in _log(tmp_path)] == ["lean", "plain", "plain"]


def test_manifests_that_the_worker_rendered_are_kept_if_others_fail(interpreter: Interpreter, tmp_path: Path) -> None:
    lean = LEAN.replace("[0] * len(jobs)", "[0, None, 0]")
    lines = (_line("a"), _line("b"), _line("c"))
    assert _render(*lines, python=interpreter(lean=lean), cache=tmp_path / "cache") == tuple(map(_manifest, lines))
    assert [call["kind"] for call in _log(tmp_path)] == ["lean", "plain"]


REFUSE = "json.dump([2] * len(jobs), open(args[2], 'w'))"


@pytest.mark.parametrize(
    ("plain", "words"),
    [
        ("print('[XPK] Starting'); print('[XPK] Too big.'); sys.exit(1)", "Starting | Too big."),
        (
            "print('usage: xpk a\\n  b\\nxpk: error: no type', file=sys.stderr); sys.exit(2)",
            ": xpk: error: no type",
        ),
        ("print('[XPK] hello'); raise ValueError('what broke')", ": ValueError: what broke"),
    ],
)
def test_a_refused_line_is_reported_with_xpks_message(
    interpreter: Interpreter, tmp_path: Path, plain: str, words: str
) -> None:
    python, cache = interpreter(lean=REFUSE, plain=plain), tmp_path / "cache"
    with pytest.raises(SpecError) as caught:
        _render(_line("first"), _line("second"), python=python, cache=cache)
    assert [problem.id for problem in caught.value.problems] == ["xpk-refused"] * 2
    assert caught.value.problems[0].message.endswith(words)
    assert "first" in caught.value.problems[0].message
    assert "second" in caught.value.problems[1].message
    assert not list(cache.rglob("*.yaml"))


@pytest.mark.parametrize(
    "plain",
    ["sys.exit(99)", "os.kill(os.getpid(), 9)", "raise ImportError('encodings')", "sys.exit(1)", "pass"],
)
def test_an_environment_that_cannot_run_xpk_is_named(interpreter: Interpreter, tmp_path: Path, plain: str) -> None:
    with pytest.raises(EnvironmentMissing, match="xpk cannot run in") as caught:
        _render(_line("a"), python=interpreter(lean="sys.exit(1)", plain=plain), cache=tmp_path / "cache")
    assert "xsft setup" in caught.value.fix


def test_a_missing_interpreter_is_a_missing_environment(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentMissing, match="could not be started"):
        _render(_line("a"), python=tmp_path / "gone", cache=tmp_path / "cache")


def test_output_of_xpk_within_the_manifest_is_not_shown(interpreter: Interpreter, tmp_path: Path) -> None:
    shown = "print('[XPK] Temp:\\nvalue: private\\n[XPK] No zone.')"
    plain = f"open(path, 'w').write('value: private\\n'); {shown}; sys.exit(1)"
    with pytest.raises(SpecError) as caught:
        _render(_line("a"), python=interpreter(lean=REFUSE, plain=plain), cache=tmp_path / "cache")
    assert "private" not in caught.value.problems[0].message
    assert "No zone." in caught.value.problems[0].message


def test_an_unwritable_temporary_folder_is_reported(
    interpreter: Interpreter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = interpreter()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(EnvironmentMissing, match="could not be written") as caught:
        _render(_line("a"), python=python, cache=tmp_path / "cache")
    assert "TMPDIR" in caught.value.fix


@pytest.mark.parametrize(
    "argv",
    [
        (),
        ("xpk", "workload", "delete", "--workload=a"),
        ("xpk", "cluster", "create"),
        (*_line("a"), "--quiet"),
        (*_line("a"), "--qui"),
        (*_line("a"), "--dry-run"),
        (*_line("a"), "--no-dry-run"),
        (*_line("a"), "--output-manifest-file=/x"),
        (*_line("a"), "--out=/x"),
        (*_line("a"), "loose"),
        (*_line("a"), "-tgps"),
    ],
)
def test_a_line_that_is_not_for_rendering_is_refused_without_a_process(
    interpreter: Interpreter, tmp_path: Path, argv: Argv
) -> None:
    with pytest.raises(XsftError, match=r"not a line|does not belong"):
        _render(_line("a"), argv, python=interpreter(), cache=tmp_path / "cache")
    assert _log(tmp_path) == []


def test_rendering_leaves_nothing_in_the_temporary_folder(
    interpreter: Interpreter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private = tmp_path / "tmp"
    private.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(private))
    for lean in (LEAN, "sys.exit(1)"):
        _render(_line(lean[:3]), python=interpreter(lean=lean), cache=tmp_path / "cache")
    assert os.listdir(private) == []
