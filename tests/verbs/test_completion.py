"""Completion: of verbs by the script, of runs by the index on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.inprocess import xsft
from xsft.records.index import IndexEntry, keep_entry
from xsft.verbs.completion import place_names, run_names
from xsft.verbs.machine_arguments import SHELLS

RUN_VERBS = ("status", "why", "logs", "wait", "cancel", "compare")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A state folder with some runs, and `xsft` on a PATH of its own."""
    for name in ("gemma-one", "gemma-two", "qwen", "gemma-one", "$(touch bad)", "a b", "", "-x"):
        keep_entry(tmp_path / "runs", IndexEntry(run_name=name, target="xpk", output=f"gs://{len(name)}/r"))
    program = tmp_path / "bin" / "xsft"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m xsft "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return tmp_path


def test_run_names_are_read_from_the_index_of_this_machine(home: Path) -> None:
    assert run_names(home / "runs") == ("gemma-one", "gemma-two", "qwen")
    assert run_names(home / "nothing") == ()


def told(home: Path, *argv: str) -> str:
    done = subprocess.run(
        (home / "bin" / "xsft", *argv), env=environment(home), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def environment(home: Path) -> dict[str, str]:
    return {**os.environ, "XSFT_STATE_DIR": str(home), "PATH": f"{home / 'bin'}:{os.environ['PATH']}"}


def test_completion_prints_a_run_name_per_line(home: Path) -> None:
    assert told(home, "completion", "runs") == "gemma-one\ngemma-two\nqwen\n"


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_of_every_shell_asks_xsft_for_run_names(shell: str) -> None:
    assert "xsft completion runs" in xsft("completion", shell).stdout


@pytest.fixture
def canned(home: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Has the `xsft` on PATH print what `xsft completion …` would now, without its start of half a second."""
    monkeypatch.chdir(home)
    monkeypatch.setenv("XSFT_STATE_DIR", str(home))
    (home / "bin" / "xsft").write_text(f'#!/bin/sh\nexec cat "{home}/$1-$2"\n', encoding="utf-8")

    def keep_answers() -> None:
        for subject in ("bash", "runs", "places"):
            (home / f"completion-{subject}").write_text(xsft("completion", subject).stdout, encoding="utf-8")

    return keep_answers


def completed(home: Path, words: Sequence[str]) -> list[str]:
    """Return what bash offers for the last of these words."""
    script = """\
eval "$(xsft completion bash)"
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*"
complete -p xsft >/dev/null || exit 9
name=$(complete -p xsft); name=${name##*-F }; name=${name%% *}
"$name" xsft "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""
    argv = ("bash", "--norc", "-c", script, "bash", *words)
    done = subprocess.run(argv, env=environment(home), cwd=home, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.loopback
@pytest.mark.skipif(shutil.which("bash") is None, reason="NOT RUN: no bash here")
def test_bash_completes_a_run_name_from_xsft(home: Path) -> None:
    assert completed(home, ("xsft", "status", "gem")) == ["gemma-one", "gemma-two"]
    assert not (home / "bad").exists()


@pytest.mark.loopback
@pytest.mark.skipif(shutil.which("bash") is None, reason="NOT RUN: no bash here")
@pytest.mark.parametrize("verb", RUN_VERBS)
def test_bash_offers_the_runs_where_a_verb_takes_one(home: Path, canned: Callable[[], None], verb: str) -> None:
    canned()
    assert completed(home, ("xsft", verb, "gem")) == ["gemma-one", "gemma-two"]
    assert not (home / "bad").exists()


PLACES_YAML = "lab: {context: lab}\nmain: {context: main}\nmarket: {context: m}\n$(touch bad): {context: x}\n"


@pytest.mark.loopback
@pytest.mark.skipif(shutil.which("bash") is None, reason="NOT RUN: no bash here")
@pytest.mark.parametrize("verb", [("status",), ("why", "gemma"), ("image", "push")])
def test_bash_offers_the_places_where_one_is_named(
    home: Path, canned: Callable[[], None], verb: tuple[str, ...]
) -> None:
    (home / "pyproject.toml").touch()
    canned()
    assert completed(home, ("xsft", *verb, "--place", "")) == []
    (home / "places.yaml").write_text(PLACES_YAML, encoding="utf-8")
    canned()
    assert completed(home, ("xsft", *verb, "--place", "ma")) == ["main", "market"]
    assert completed(home, ("xsft", *verb, "--place", "")) == ["lab", "main", "market"]
    assert not (home / "bad").exists()


@pytest.mark.parametrize("text", ["a: [", "- a", "", "\x00"])
def test_completion_offers_no_place_if_places_yaml_is_invalid(tmp_path: Path, text: str) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "places.yaml").write_text(text, encoding="utf-8")
    assert place_names(tmp_path) == ()


@pytest.mark.skipif(shutil.which("bash") is None, reason="NOT RUN: no bash here")
def test_bash_offers_files_and_verbs_elsewhere(home: Path, canned: Callable[[], None]) -> None:
    canned()
    assert "gemma-one" not in completed(home, ("xsft", "check", "gem"))
    assert completed(home, ("xsft", "stat")) == ["status"]
