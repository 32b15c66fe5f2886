"""The command line from outside: exit statuses, one clear message per problem, no traceback, one JSON document."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.inprocess import xsft
from tests.verbs.terminals import seen
from xsft.base.errors import Unreachable
from xsft.machine.signals import goes_on, when_interrupted
from xsft.verbs.cli import GROUPS, VERBS, main, report_failure

GOOD = """\
name: good
mode: mcjax
place: {project: my-project, zone: us-east5-b, cluster: my-cluster, output: gs://my-bucket/runs}
tpu: {type: v6e-8}
image: {ref: "us-docker.pkg.dev/my-project/xsft/train:1", maxtext: "0.2.5"}
model: {name: qwen3-0.6b, tokenizer: Qwen/Qwen3-0.6B, hf: {repo: Qwen/Qwen3-0.6B}}
data: {hf_path: HuggingFaceH4/ultrachat_200k, train_split: train_sft, columns: [messages]}
train: {steps: 100, per_device_batch_size: 1}
"""


def process(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """`xsft` as a process of its own, where that is what is tested; else `tests.inprocess.xsft`."""
    argv = (sys.executable, "-m", "xsft", *arguments)
    return subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False, timeout=300)


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    path = tmp_path / "good.yaml"
    path.write_text(GOOD)
    return path


def changed(text: str, *replacements: tuple[str, str]) -> str:
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new)
    return text


BAD = {
    "misspelled key": (("train: {steps", "train: {stpes"), "unknown-key", "Did you mean steps?"),
    "wrong type": (("steps: 100", "steps: lots"), "wrong-type", "train.steps"),
    "steps unset": (("steps: 100, ", ""), "missing-key", "train.steps"),
    "unknown TPU type": (("v6e-8}", "v6e-257}"), "tpu-unknown", "v6e-256"),
    "unknown model": (("name: qwen3-0.6b", "name: qwen3-06b"), "model-unknown", "qwen3-0.6b"),
    "name over the limit": (("name: good", f"name: {'a' * 41}"), "out-of-range", "40"),
    "zero slices": (("type: v6e-8}", "type: v6e-8, num_slices: 0}"), "out-of-range", "num_slices"),
    "not a bucket": (("output: gs://my-bucket/runs", "output: my-bucket/runs"), "wrong-form", "gs://"),
    "columns no template takes": (("columns: [messages]", "columns: [text]"), "columns", "messages"),
    "checkpoint and hf": (
        ("{name: qwen3", "{checkpoint: gs://my-bucket/0/items, name: qwen3"),
        "checkpoint-and-hf",
        "hf",
    ),
    "duplicate key": (("mode: mcjax\n", "mode: mcjax\nmode: pathways\n"), "yaml-duplicate-key", "mode"),
    "tab": (("mode: mcjax\n", "mode:\n\tmcjax\n"), "yaml-tab", "tab"),
    "unknown MaxText key": (("mode: mcjax\n", "overrides: {maxtext: {stepz: 1}}\n"), "maxtext-key-unknown", "stepz"),
    "elastic": (("mode: mcjax\n", "pathways: {elastic_slices: 1}\n"), "refused-elastic", "elastic"),
}


@pytest.mark.parametrize("case", BAD)
def test_check_exits_2_for_a_bad_workload_and_names_the_problem(case: str, workload: Path) -> None:
    replacement, problem_id, word = BAD[case]
    workload.write_text(changed(GOOD, replacement))
    done = xsft("check", "--json", str(workload))
    document = json.loads(done.stdout)
    of_id = [p for p in document["problems"] if p["id"] == problem_id]
    assert done.returncode == 2
    assert of_id, document["problems"]
    assert of_id[0]["severity"] == "error"
    assert of_id[0]["file"] == str(workload)
    assert word in of_id[0]["where"] + of_id[0]["message"] + of_id[0]["fix"]
    assert of_id[0]["fix"]
    assert "Traceback" not in done.stderr


NOT_WORKLOADS = {
    "missing": lambda folder: folder / "nosuch.yaml",
    "directory": lambda folder: folder,
    "empty": lambda folder: written(folder / "empty.yaml", b""),
    "not YAML": lambda folder: written(folder / "x.yaml", b"a: [b\nc: }"),
    "binary": lambda folder: written(folder / "x.yaml", bytes(range(256))),
    "a list": lambda folder: written(folder / "x.yaml", b"- a\n- b\n"),
    "an alias bomb": lambda folder: written(folder / "x.yaml", b"a: &a [1]\nb: &b [*a, *a]\nc: [*b, *b]\n"),
    "100 MB": lambda folder: sparse(folder / "big.yaml", 100_000_000),
}


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def sparse(path: Path, size: int) -> Path:
    with path.open("wb") as file:
        file.truncate(size)
    return path


@pytest.mark.parametrize("verb", ["plan", "check", "submit"])
@pytest.mark.parametrize("case", NOT_WORKLOADS)
def test_a_file_that_is_no_workload_is_reported(verb: str, case: str, tmp_path: Path) -> None:
    done = xsft(verb, str(NOT_WORKLOADS[case](tmp_path)))
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert "  fix: " in done.stderr
    assert "Traceback" not in done.stderr


def test_check_reports_the_problems_of_all_files(workload: Path, tmp_path: Path) -> None:
    other = written(
        tmp_path / "other.yaml", GOOD.replace("steps: 100", "steps: 0").replace("v6e-8}", "v7x-1}").encode()
    )
    broken = written(tmp_path / "broken.yaml", b"a: b: c")
    done = xsft("check", "--json", str(workload), str(other), str(broken), str(tmp_path / "nosuch.yaml"))
    files = {p["file"] for p in json.loads(done.stdout)["problems"] if p["severity"] == "error"}
    assert done.returncode == 2
    assert files == {str(other), str(broken), str(tmp_path / "nosuch.yaml")}


@pytest.mark.loopback
def test_the_process_prints_and_exits_as_its_function_does(workload: Path, tmp_path: Path) -> None:
    for arguments in (("check", "--json", str(workload)), ("check", str(tmp_path / "nosuch.yaml")), ("nosuchverb",)):
        inside, outside = xsft(*arguments), process(*arguments)
        assert (outside.returncode, outside.stdout, outside.stderr) == (inside.returncode, inside.stdout, inside.stderr)


def test_check_exits_0_for_a_good_workload(workload: Path) -> None:
    done = xsft("check", "--json", str(workload))
    document = json.loads(done.stdout)
    assert [p for p in document["problems"] if p["severity"] == "error"] == []
    assert document["ok"] is True
    assert done.returncode == 0


@pytest.mark.loopback
def test_check_reads_a_workload_from_standard_input() -> None:
    done = process("check", "-", stdin=GOOD)
    assert done.returncode == 0, done.stderr


def test_errors_under_json_are_one_document(tmp_path: Path) -> None:
    done = xsft("submit", "--json", str(tmp_path / "nosuch.yaml"))
    document = json.loads(done.stdout)
    assert document["schema"] == "xsft.submit/1"
    assert document["exit_status"] == done.returncode == 2
    assert document["problems"][0]["id"] == "file-missing"


@pytest.mark.parametrize("arguments", [("checkpoint", "inspect"), ("init",), ("check",)], ids=" ".join)
def test_a_name_that_no_file_can_have_is_reported(arguments: tuple[str, ...]) -> None:
    done = xsft(*arguments, "a" * 300)
    assert done.returncode == 2, done.stderr
    assert "File name too long" in done.stderr
    assert "fix: " in done.stderr


@pytest.mark.parametrize(
    ("arguments", "helps"),
    [
        (("nosuchverb",), "xsft"),
        (("plan",), "xsft plan"),
        (("plan", "--nosuch", "x"), "xsft plan"),
        (("--nosuch", "plan", "x"), "xsft plan"),
        (("completion", "korn"), "xsft completion"),
    ],
)
def test_usage_errors_name_the_help_of_the_verb(arguments: tuple[str, ...], helps: str) -> None:
    done = xsft(*arguments)
    assert done.returncode == 2
    assert "error: " in done.stderr
    assert f"see `{helps} --help`" in done.stderr


def test_the_help_has_each_verb_once_in_six_groups_with_at_most_eight_words() -> None:
    help_text = xsft("--help")
    assert help_text.stdout == xsft("help").stdout
    lines = help_text.stdout.splitlines()
    assert [line.rstrip(":") for line in lines if line.rstrip(":") in GROUPS] == list(GROUPS)
    shown = {line.split()[0]: line.split()[1:] for line in lines if line.startswith("  ")}
    assert shown.keys() == VERBS.keys()
    assert [verb for verb, words in shown.items() if len(words) > 8] == []
    assert xsft("help", "wait").stdout == xsft("wait", "--help").stdout


def test_a_misspelt_verb_is_asked_about_first() -> None:
    assert xsft("statsu").stderr.splitlines()[0].startswith("error: Did you mean status? 'statsu' is not a verb")
    assert "Did you mean" not in xsft("qqqqqq").stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "tcsh"])
def test_completion_knows_every_verb(shell: str) -> None:
    done = xsft("completion", shell)
    assert done.returncode == 0
    assert all(verb in done.stdout for verb in VERBS)


@pytest.mark.loopback
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="NOT RUN: no /dev/full here")
def test_a_full_disk_on_stdout_exits_3_without_a_traceback(workload: Path) -> None:
    with Path("/dev/full").open("w") as full:
        argv = (sys.executable, "-m", "xsft", "check", "--json", str(workload))
        done = subprocess.run(argv, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 3
    assert "Traceback" not in done.stderr
    assert "No space left" in done.stderr


@pytest.mark.loopback
def test_a_closed_pipe_exits_141_without_a_message() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    argv = (sys.executable, "-m", "xsft", "init", "-")
    done = subprocess.run(argv, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=300, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("arguments", [("plan", "--json"), ("plan", "--json", "--nope", "x.yaml"), ("plann", "--json")])
def test_a_usage_error_under_json_is_a_document(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert document["schema"] == f"xsft.{arguments[0]}/1"
    assert [p["id"] for p in document["problems"]] == ["usage"]
    assert document["exit_status"] == 2
    assert "--help" in captured.err


def test_plan_refuses_a_literal_secret_and_does_not_echo_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    token = "hf_" + "x" * 34
    file = tmp_path / "leaky.yaml"
    file.write_text(GOOD + f"env: {{GREETING: {token}}}\n")
    assert main(["plan", str(file)]) == 2
    captured = capsys.readouterr()
    assert "[secret-literal]" in captured.err
    assert captured.out == ""
    assert token not in captured.err


@pytest.mark.loopback
def test_ctrl_c_at_any_moment_exits_130(workload: Path) -> None:
    for delay_s in (0.05, 0.1, 0.2, 0.4):
        argv = (sys.executable, "-m", "xsft", "check", *([str(workload)] * 400))
        running = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            running.wait(delay_s)
        except subprocess.TimeoutExpired:
            running.send_signal(signal.SIGINT)
        _, messages = running.communicate(timeout=300)
        pythons_own_start = f"{os.sep}xsft{os.sep}" not in messages and "KeyboardInterrupt" in messages
        assert running.returncode in (130, 0, -signal.SIGINT) or pythons_own_start, messages
        assert "in run\n" not in messages, "a traceback from inside xsft"


def test_ctrl_c_reports_that_the_run_continues_and_how_to_follow_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_args: object) -> int:
        with when_interrupted("outer"), when_interrupted(goes_on("gemma", where="--place lab")):
            raise KeyboardInterrupt

    monkeypatch.setattr("xsft.verbs.doctor.run", interrupted)
    assert main(("doctor",)) == 130
    first, second = capsys.readouterr().err.splitlines()
    assert first == "interrupted"
    assert "is unaffected and continues" in second
    for verb in ("wait gemma --place lab", "logs gemma -f --place lab", "cancel gemma --place lab"):
        assert f"`xsft {verb}`" in second


def test_a_secret_in_a_workload_is_refused_and_not_echoed(workload: Path) -> None:
    token = "hf" + "_" + "aB3" * 12
    workload.write_text(changed(GOOD, ("mode: mcjax\n", f"env: {{NOTE: {token}}}\n")))
    for arguments in (("check",), ("plan",), ("plan", "--json"), ("check", "--set", f"env.OTHER={token}")):
        done = xsft(arguments[0], str(workload), *arguments[1:])
        assert done.returncode == 2
        assert token not in done.stdout + done.stderr


def test_a_package_that_is_not_installed_is_a_missing_environment(capfd: pytest.CaptureFixture[str]) -> None:
    assert report_failure(ModuleNotFoundError("No module named 'other'", name="other"), ("check",)) == 3
    err = capfd.readouterr().err
    assert "the Python package other is not installed." in err
    assert "run make setup" in err
    assert report_failure(ModuleNotFoundError("No module named 'xsft.other'", name="xsft.other"), ("check",)) == 1


@given(text=st.text(max_size=300))
def test_any_text_ends_with_a_documented_status(text: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "any.yaml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    assert main(("check", str(path))) == 2
    assert "a bug in xsft" not in capfd.readouterr().err


@given(
    key=st.sampled_from(
        [line.split(":")[0] for line in GOOD.splitlines()]
        + [
            "train.steps",
            "tpu.type",
            "tpu.num_slices",
            "data.columns",
            "model.checkpoint",
            "env.A",
            "xla_flags",
            "name",
        ]
        + [
            "overrides.maxtext.attention",
            "parallelism.ici.fsdp",
            "restarts.on_exit_codes",
            "place.cluster",
            "image.ref",
        ]
    ),
    value=st.one_of(
        st.text(max_size=40), st.sampled_from(["", "[]", "{}", "[a, b]", "-1", "1e400", "true", "~", "[[[", "a: b"])
    ),
)
def test_any_setting_ends_with_a_documented_status(
    key: str, value: str, workload: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    status = main(("check", str(workload), "--set", f"{key}={value}"))
    assert status in (0, 2)
    assert "a bug in xsft" not in capfd.readouterr().err


@pytest.mark.parametrize(
    "arguments", [("import",), ("import", "--json"), ("submit", "-"), ("plan", "-"), ("check", "-")]
)
def test_a_closed_standard_input_is_read_as_empty(arguments: tuple[str, ...]) -> None:
    done = xsft(*arguments, stdin=None)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "standard input is empty" in done.stdout + done.stderr


@pytest.mark.loopback
def test_a_process_without_a_standard_input_reads_it_as_empty() -> None:
    argv = ("sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-m", "xsft", "import")
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "standard input is empty" in done.stdout + done.stderr


@pytest.mark.parametrize(
    "words", ["{} --json", "submit {} --json", "submit {}", "plan a/{}.yaml", "import -o {}/x", "{}"]
)
def test_a_token_in_place_of_an_option_is_not_echoed(words: str) -> None:
    token = "hf" + "_" + "aB3" * 12
    done = xsft(*words.format(token).split())
    assert done.returncode in (2, 3)
    assert token not in done.stdout + done.stderr


FOREIGN = "\x1b[2J\x1b[Hall checks passed\x9b1m\u202e\u2066"
ACTING = {*"\x1b\x9b\u202e\u2066"}


@pytest.mark.parametrize("verb", [("check",), ("check", "--json"), ("plan",), ("submit", "--json"), ("import",)])
def test_control_characters_of_a_workload_do_not_reach_the_terminal(
    verb: tuple[str, ...], workload: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    quoted = json.dumps(FOREIGN)
    texts = (f"{quoted}: 1\n", f"mode: {quoted}\n", f"env: {{{quoted}: {quoted}}}\n", f"queue: [{quoted}]\n", FOREIGN)
    for text in texts:
        workload.write_text(changed(GOOD, ("mode: mcjax\n", text)))
        for more in ((), (FOREIGN,), ("--set", f"queue={FOREIGN}"), ("--set", f"{FOREIGN}=1")):
            assert main((verb[0], str(workload), *verb[1:], *more)) == 2
    assert main((FOREIGN, *verb)) == 2
    assert not ACTING & {*"".join(capsys.readouterr())}


def test_control_characters_of_a_server_do_not_reach_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(_args: object) -> int:
        raise Unreachable(f"GET https://user:hunter2@host/: {FOREIGN}", fix=FOREIGN)

    monkeypatch.setattr("xsft.verbs.doctor.run", refused)
    assert main(("doctor", "--json")) == 5
    out, err = capsys.readouterr()
    assert json.loads(out)["problems"][0]["fix"] == FOREIGN
    assert not ACTING & {*out, *err}
    assert "hunter2" not in out + err


def test_an_old_name_gives_the_document_of_the_present_one(tmp_path: Path) -> None:
    file = tmp_path / "good.yaml"
    file.write_text(GOOD)
    old = xsft("submit", str(file), "--dry-run", "--json")
    new = xsft("plan", str(file), "--json")
    assert (old.returncode, old.stdout) == (new.returncode, new.stdout)
    assert "is now `xsft plan FILE`" in old.stderr
    assert "is now `xsft status RUN --receipt`" in xsft("receipt", "nothing").stderr
    assert "receipt" not in xsft("--help").stdout


def test_help_has_colours_only_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    colours = {name: seen("--help", env=env).colours for name, env in {"no": {"NO_COLOR": "1"}, "yes": {}}.items()}
    assert colours["no"] == 0
    assert colours["yes"] > 2 * len(VERBS)
    assert "\x1b" not in process("--help").stdout


@pytest.mark.parametrize(
    ("action", "foreign"),
    [
        (("checkpoint", "convert"), "--dtype"),
        (("checkpoint", "inspect"), "--on-tpu"),
        (("data", "inspect"), "--shards"),
        (("image", "show"), "--create"),
        (("place", "show"), "--yes"),
    ],
)
def test_the_help_of_an_action_has_no_options_of_another(action: tuple[str, ...], foreign: str) -> None:
    verb = action[0]
    assert foreign not in xsft(*action, "--help").stdout
    assert xsft(*action, foreign, "x").returncode == 2
    done = xsft(verb, "--json", action[1], *(["nope.yaml"] if verb != "image" else ["--image", "nope"]))
    assert json.loads(done.stdout)["schema"] == f"xsft.{verb}/1", "options may stand before the action"


def test_the_value_of_an_option_may_be_the_name_of_an_action() -> None:
    done = xsft("data", "--find", "inspect", "show", "nope.yaml")
    assert (done.returncode, "nope.yaml does not exist" in done.stderr) == (2, True)
    done = xsft("place", "--namespace", "create", "show", "nowhere")
    assert "unrecognized" not in done.stderr
