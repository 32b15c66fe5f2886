"""Messages of the worker, and the errors that they mean."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from xsft.base.errors import EnvironmentMissing, SpecError, Unreachable
from xsft.launch.local_machine import Machine
from xsft.launch.prepare_data import Follower, failure, progress_line, work

SHARD = {"split": "train", "name": "train-0.parquet", "rows": 3, "bytes": 9, "sha256": "ab"}


def test_shards_and_rows_are_reported_and_other_lines_skipped() -> None:
    lines: list[str] = []
    follower = Follower(say=lines.append, verb="wrote", total=10)
    for line in (
        "a warning",
        json.dumps({"rows": 5, "seconds": 2.0}),
        json.dumps({"fetched": 3_000_000, "seconds": 2.0}),
        json.dumps({"shard": SHARD}),
        "[1]",
        '{"other": 1}',
    ):
        follower.line(line)
    assert [shard.rows for shard in follower.shards] == [3]
    assert lines == ["wrote 5 of 10 rows, 2/s, 2 s left", "fetched 3.0 MB, 1.5 MB/s"]


def test_progress_has_a_rate_and_the_time_left() -> None:
    assert progress_line("wrote", 1000, total=4000, seconds=2) == "wrote 1,000 of 4,000 rows, 500/s, 6 s left"
    assert progress_line("checked", 1000, total=None, seconds=2) == "checked 1,000 rows, 500/s"


@pytest.mark.parametrize(
    ("words", "kind", "fix"),
    [
        ("OSError: [Errno 28] No space left on device", EnvironmentMissing, "--to"),
        ("ConnectionError: Couldn't reach 'org/x' on the Hub", Unreachable, "network"),
        ("GatedRepoError: 403 Client Error", SpecError, "hf auth login"),
        ("ArrowInvalid: Parquet magic bytes not found in footer.", SpecError, "file"),
    ],
)
def test_failure_maps_an_error_of_the_worker_to_a_problem_with_a_fix(
    words: str, kind: type[Exception], fix: str
) -> None:
    cause = failure(words)
    assert isinstance(cause, kind)
    (problem,) = cause.problems
    assert words in problem.message
    assert fix in problem.fix


def asked(folder: Path, script: str, *, online: bool = False) -> object:
    """Return the result of `work` for a worker whose interpreter is this script; it may print `env`."""
    python = folder / "python"
    python.write_text(
        f"#!{sys.executable}\nimport json, os, sys\nenv, answer = dict(os.environ), sys.argv[-1]\n{script}\n"
    )
    python.chmod(0o755)
    (folder / "token").touch()
    env = {
        "PATH": "/usr/bin:/bin",
        "HF_TOKEN": "secret",
        "HF_TOKEN_PATH": str(folder / "token"),
        "HF_ENDPOINT": "http://x",
    }
    machine = Machine(python=python, env=env, cache=folder / "cache")
    follower = Follower(say=print, verb="checked", total=None)
    return work({"action": "count"}, machine=machine, scratch=folder, follower=follower, online=online)


def test_a_token_in_an_error_of_the_worker_is_hidden(tmp_path: Path) -> None:
    token = "hf_" + "a1B2c3D4" * 5
    with pytest.raises(SpecError) as refused:
        asked(tmp_path, f"open(answer, 'w').write(json.dumps({{'error': 'HTTPError: Bearer {token} refused'}}))")
    assert token not in str(refused.value)
    assert "HTTPError" in str(refused.value)


def test_a_dead_worker_is_reported_with_its_exit_status_and_last_line(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentMissing, match="status 3: no module named datasets"):
        asked(tmp_path, "print('no module named datasets'); sys.exit(3)")


def test_the_worker_gets_the_token_file_only_for_data_on_the_hub(tmp_path: Path) -> None:
    script = "open(answer, 'w').write(json.dumps({'env': env}))"
    offline, online = (asked(tmp_path, script, online=flag)["env"] for flag in (False, True))  # type: ignore[index]
    assert offline["HF_HUB_OFFLINE"] == "1"
    assert {"HF_TOKEN", "HF_TOKEN_PATH", "HF_ENDPOINT"} & offline.keys() == set()
    assert online["HF_TOKEN_PATH"] == str(tmp_path / "token")
    assert "HF_TOKEN" not in online
    assert "HF_HUB_OFFLINE" not in online


def test_escape_sequences_in_an_error_of_the_worker_are_removed(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as refused:
        asked(tmp_path, "open(answer, 'w').write(json.dumps({'error': 'KeyError: there are \\x1b[2J'}))")
    assert "\x1b" not in str(refused.value)
