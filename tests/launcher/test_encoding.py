"""The encoding's own laws. What the real xpk and bash make of it: tests/contract/test_encoding_through_xpk.py."""

from __future__ import annotations

import shlex
import subprocess

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.launcher.decoding import decode_command
from xsft.base.names import ModeName
from xsft.launcher.encoding import (
    BASH_KEEPS,
    COMMAND_LIMIT,
    RESTARTS,
    CountedArgument,
    command_in_wrapper,
    encode_command,
    encode_env_value,
    env_name_problem,
    escape_expansion,
    kubernetes_expand,
    pathways_args_problem,
)
from xsft.spec.yamltext import load_yaml

MODES: tuple[ModeName, ...] = ("mcjax", "pathways")
# The pieces that mean something to somebody on the way, and any other text between them.
PIECES = st.sampled_from(
    [
        *"\\\n\r\t\x01\x1b\x1e\x7f\x85\u2028\ufeff %#&|`~!*?)'\"é😀",
        *("env:", "en", "v:", "$", "$$", "$(", "$(FOO)", "$(date)", "$HOME", "${A}", "{}", "{args.workload}"),
        *("{{ x }}", ": ", "- ", "\n\n", " " * 18, "\\n", "\\x41", "&& exit", ") & PID=$!;", "EOF"),
    ]
)
ANY = st.characters(exclude_categories=["Cs"], exclude_characters="\x00")
TEXT = st.lists(PIECES | st.text(ANY, max_size=8), max_size=6).map("".join)
PROGRAM = st.sampled_from(["python3", "bash", "/opt/py thon"])
ARGV = st.tuples(PROGRAM, st.lists(TEXT, max_size=5)).map(lambda parts: (parts[0], *parts[1]))
LETTERS = st.sampled_from("ABCXYZabcxyz_")
NAMES = st.builds(lambda first, rest: first + rest, LETTERS, st.text(alphabet="ABCXYZabcxyz_019", max_size=8)).filter(
    lambda name: not env_name_problem(name)
)
ENV = st.dictionaries(NAMES, TEXT, max_size=4).map(lambda pairs: tuple(pairs.items()))


@given(argv=ARGV, env=ENV, mode=st.sampled_from(MODES))
@example(argv=("python3", "\x1env:"), env=(), mode="pathways")
@example(argv=("python3", "exec", "A=B"), env=(("env", ":env:"),), mode="pathways")
def test_decoding_undoes_encoding(argv: tuple[str, ...], env: tuple[tuple[str, str], ...], mode: ModeName) -> None:
    assert decode_command(encode_command(argv=argv, env=env, mode=mode)) == (env, argv)


COUNTED = st.builds(
    CountedArgument,
    key=st.from_regex(r"[a-z_]{1,20}", fullmatch=True),
    first=st.integers(0, 2**40),
    each=st.integers(1, 999),
)


@given(argv=ARGV, env=ENV, mode=st.sampled_from(MODES), counted=COUNTED, at=st.integers(1, 6))
def test_a_counted_argument_decodes_to_what_the_first_start_receives(
    argv: tuple[str, ...], env: tuple[tuple[str, str], ...], mode: ModeName, counted: CountedArgument, at: int
) -> None:
    argv = (*argv[:at], counted.argument, *argv[at:])
    if argv.count(counted.argument) > 1:
        return
    encoded = encode_command(argv=argv, env=env, mode=mode, counted=counted)
    assert decode_command(encoded) == (env, argv)
    assert encoded != encode_command(argv=argv, env=env, mode=mode)


@pytest.mark.parametrize("argv", [("python3", "x"), ("python3", "seed=1", "seed=1"), ("python3", "seed=2")])
def test_a_counted_argument_must_occur_once_in_the_command(argv: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="seed=1 is not in the command exactly once"):
        encode_command(argv=argv, env=(), mode="mcjax", counted=CountedArgument(key="seed", first=1, each=1))


@pytest.mark.parametrize(
    ("restarts", "seed"), [(None, 7), ("", 7), ("0", 7), ("1", 10), ("12", 43), ("1000", 3007), ("x; exit 9", None)]
)
@pytest.mark.parametrize("mode", MODES)
def test_bash_computes_the_counted_argument_of_each_restart(
    mode: ModeName, restarts: str | None, seed: int | None
) -> None:
    """The kubelet leaves the sum alone, and one argument comes out; what is no number starts nothing."""
    counted = CountedArgument(key="seed", first=7, each=3)
    argv = ("/bin/echo", "a b", counted.argument, "$(XSFT_RESTARTS)")
    env = {} if restarts is None else {RESTARTS: restarts}
    line = kubernetes_expand(encode_command(argv=argv, env=(), mode=mode, counted=counted), env)
    done = subprocess.run(("bash", "-c", f"({line})"), env=env, capture_output=True, text=True, check=False)
    if seed is None:
        assert (done.returncode, done.stdout) == (1, "")
    else:
        assert (done.returncode, done.stdout) == (0, f"a b seed={seed} $(XSFT_RESTARTS)\n"), done.stderr


@given(argv=ARGV, env=ENV, mode=st.sampled_from(MODES))
def test_an_encoded_line_is_unchanged_by_yaml_and_readable(
    argv: tuple[str, ...], env: tuple[tuple[str, str], ...], mode: ModeName
) -> None:
    encoded = encode_command(argv=argv, env=env, mode=mode)
    assert encoded.isprintable() or not any(
        ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 or c in "\u2028\u2029" for c in encoded
    )
    assert len(encoded.splitlines()) == 1
    assert load_yaml(f"- |\n  ({encoded}) & PID=$!;\n") == [f"({encoded}) & PID=$!;\n"]
    assert mode == "mcjax" or "env:" not in encoded


@given(
    argv=ARGV, env=ENV, mode=st.sampled_from(MODES), container=st.dictionaries(NAMES | st.just("FOO"), TEXT, max_size=3)
)
def test_an_encoded_line_has_nothing_that_kubernetes_expands(
    argv: tuple[str, ...], env: tuple[tuple[str, str], ...], mode: ModeName, container: dict[str, str]
) -> None:
    encoded = encode_command(argv=argv, env=env, mode=mode)
    assert kubernetes_expand(encoded, container) == encoded.replace("$$", "$")


@given(text=st.text(max_size=60))
def test_decoding_any_text_returns_or_refuses_it(text: str) -> None:
    try:
        env, argv = decode_command(text)
    except ValueError:
        return
    assert text in {encode_command(argv=argv, env=env, mode=mode) for mode in MODES}


@pytest.mark.parametrize(
    "line",
    [
        "python3 x",
        "exec",
        "exec python3 $HOME",
        "exec python3 $$HOME",
        "exec python3  two",
        "exec python3 x; exit 0",
        "A=1 A=2 exec python3",
        'exec python3 "x"',
        "exec python3 'x",
        "exec python3 'plain'",
        "exec -a name python3",
        "exec python3 x && true",
    ],
)
def test_a_line_that_xsft_did_not_write_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"exec|write|single|program|twice"):
        decode_command(line)


def test_an_ordinary_command_is_encoded_as_in_the_tutorial() -> None:
    env = (("JAX_PLATFORMS", "proxy"), ("JAX_BACKEND_TARGET", "grpc://127.0.0.1:29000"))
    argv = ("python3", "-m", "maxtext.trainers.post_train.sft.train_sft", "steps=10", "train_data_columns=['messages']")
    assert encode_command(argv=argv, env=env, mode="pathways") == (
        "JAX_PLATFORMS=proxy JAX_BACKEND_TARGET=grpc://127.0.0.1:29000 exec python3 -m "
        """maxtext.trainers.post_train.sft.train_sft steps=10 'train_data_columns=['"'"'messages'"'"']'"""
    )


@given(argv=ARGV)
def test_without_hidden_characters_any_posix_shell_reads_the_line(argv: tuple[str, ...]) -> None:
    encoded = encode_command(argv=argv, env=(), mode="mcjax")
    if "$$'" not in encoded:
        assert tuple(shlex.split(encoded.replace("$$", "$"))) == ("exec", *argv)


@pytest.mark.parametrize(
    ("argument", "mcjax", "pathways"),
    [
        ("path=/my_env:/x", "path=/my_env:/x", "path=/my_en''v:/x"),
        ("a b env:", "'a b env:'", "'a b en''v:'"),
        ("env:\n", r"$$'env:\n'", r"$$'env\x3a\n'"),
        ("\u2028", r"$$'\xe2\x80\xa8'", r"$$'\xe2\x80\xa8'"),
        ("cost: $5", "'cost: $$5'", "'cost: $$5'"),
        ("", "''", "''"),
    ],
)
def test_hard_arguments_have_the_documented_encoding(argument: str, mcjax: str, pathways: str) -> None:
    assert encode_command(argv=("python3", argument), env=(), mode="mcjax") == f"exec python3 {mcjax}"
    assert encode_command(argv=("python3", argument), env=(), mode="pathways") == f"exec python3 {pathways}"


@pytest.mark.parametrize("text", ["a\x00b", "\ud800", "x\udfff"])
def test_an_argument_that_no_process_can_receive_is_refused(text: str) -> None:
    for argv, env in ((("python3", text), ()), (("python3",), (("A", text),))):
        with pytest.raises(ValueError, match=r"U\+(0000|D800|DFFF)"):
            encode_command(argv=argv, env=env, mode="mcjax")
    with pytest.raises(ValueError, match=r"U\+(0000|D800|DFFF)"):
        encode_env_value(text)


@pytest.mark.parametrize("argv", [(), ("",), ("-a", "x")], ids=["no words", "empty word", "option first"])
def test_a_command_without_a_program_is_refused(argv: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="name of a program"):
        encode_command(argv=argv, env=(), mode="mcjax")


def test_a_command_that_linux_would_not_start_is_refused() -> None:
    long = "x" * (COMMAND_LIMIT - len("exec python3 "))
    assert len(encode_command(argv=("python3", long), env=(), mode="mcjax")) == COMMAND_LIMIT
    with pytest.raises(ValueError, match=f"{COMMAND_LIMIT + 1} bytes; at most {COMMAND_LIMIT}"):
        encode_command(argv=("python3", long + "x"), env=(), mode="mcjax")


@pytest.mark.parametrize("name", ["", "1A", "A-B", "A B", "Ä", "A=", "A\n", "UID", "PWD", "_", "date"])
def test_environment_names_whose_value_would_be_lost_are_refused(name: str) -> None:
    assert f"`{name}`" in str(env_name_problem(name))
    with pytest.raises(ValueError, match=r"environment variable name|bash|date"):
        encode_command(argv=("python3",), env=((name, "x"),), mode="mcjax")


@pytest.mark.parametrize("name", ["A", "_a", "JAX_PLATFORMS", "PATH", "LIBTPU_INIT_ARGS", "DATE"])
def test_usual_environment_names_are_accepted(name: str) -> None:
    assert env_name_problem(name) is None
    assert name not in BASH_KEEPS


def test_an_environment_name_given_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="given twice: A, A"):
        encode_command(argv=("python3",), env=(("A", "1"), ("A", "2")), mode="mcjax")


@given(value=TEXT)
@example(value="\x1env:\x85")
def test_an_environment_value_is_unchanged_by_yaml_and_kubernetes(value: str) -> None:
    encoded = encode_env_value(value)
    loaded = load_yaml(f'value: "{encoded}"')["value"]
    assert kubernetes_expand(loaded, {"FOO": "expanded"}) == value
    assert "env:" not in encoded
    assert len(encoded.splitlines()) <= 1


@given(text=TEXT, env=st.dictionaries(TEXT, TEXT, max_size=3))
def test_an_escaped_value_expands_to_itself(text: str, env: dict[str, str]) -> None:
    assert kubernetes_expand(escape_expansion(text), env) == text


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(A)", "1"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$(B) $(A", "$(B) $(A"),
        ("$A $ $", "$A $ $"),
        ("$(A)$(A)$", "11$"),
        ("$($$", "$($"),
        ("$($$)", "$($$)"),
        ("$()", "$()"),
        ("$(A$(A)", "$(A$(A)"),
        ("$(C)", "$(A)"),
        ("$(a\nb)", "$(a\nb)"),
    ],
)
def test_expansion_is_that_of_the_kubernetes_documentation(text: str, expanded: str) -> None:
    """source: Kubernetes API reference, Container.command."""
    assert kubernetes_expand(text, {"A": "1", "C": "$(A)"}) == expanded


WRAPPER = """\
echo XPK Start: $(date);
_sigterm() (kill -SIGTERM $! 2>/dev/null;);
trap _sigterm SIGTERM;

(%s) & PID=$!;
while kill -0 $PID 2>/dev/null;
    do sleep 5;
done;
wait $PID;
EXIT_CODE=$?;

echo XPK End: $(date);
echo EXIT_CODE=$EXIT_CODE;


exit $EXIT_CODE
"""


@given(argv=ARGV, env=ENV, mode=st.sampled_from(MODES))
@example(argv=("python3", ") & PID=$!;"), env=(), mode="mcjax")
def test_the_command_is_found_in_xpks_wrapper(
    argv: tuple[str, ...], env: tuple[tuple[str, str], ...], mode: ModeName
) -> None:
    encoded = encode_command(argv=argv, env=env, mode=mode)
    assert command_in_wrapper(WRAPPER % encoded) == encoded


@pytest.mark.parametrize(
    "script",
    [
        "",
        "python3 x",
        WRAPPER % "a\nb",
        WRAPPER.replace("trap _sigterm SIGTERM;", "") % "a",
        WRAPPER.replace("exit $EXIT_CODE", "exit 0") % "a",
        WRAPPER.replace("wait $PID;", "wait $PID; rm x;") % "a",
        (WRAPPER % "a") + "echo more\n",
        WRAPPER.replace("(%s)", "%s") % "a",
    ],
    ids=[
        "empty",
        "command only",
        "two lines",
        "no trap",
        "other exit status",
        "another command",
        "a line at the end",
        "no subshell",
    ],
)
def test_a_script_that_is_not_xpks_wrapper_is_refused(script: str) -> None:
    with pytest.raises(ValueError, match="pinned xpk"):
        command_in_wrapper(script)


@pytest.mark.parametrize(
    ("token", "why"),
    [
        ("", "--name=value"),
        ("-v=1", "--name=value"),
        ("--", "--name=value"),
        ("{a}", "--name=value"),
        ("--a=x y", "white space"),
        ("--a=\u00a0", "white space"),
        ("--a=\x1b", "white space"),
        ("--a='x'", "quote"),
        ('--a="x"', "quote"),
        ("--a=$(B)", "quote"),
        ("--a:", "colon"),
    ],
)
def test_pathways_arguments_that_xpk_would_change_are_refused(token: str, why: str) -> None:
    assert why in str(pathways_args_problem(token))


@given(value=st.text(ANY, max_size=12))
@example(value=":")
@example(value="{a: [b]}")
@example(value="#&*!|>%@`,?")
def test_an_accepted_pathways_argument_is_one_string_in_yaml(value: str) -> None:
    token = f"--name={value}"
    if pathways_args_problem(token) is None:
        pieces = f"--first=1 {token} --last=2".split(" ")
        listed = load_yaml("args:\n" + "".join(f"  - {piece}\n" for piece in pieces))
        assert listed == {"args": ["--first=1", token, "--last=2"]}
        assert kubernetes_expand(token, {"FOO": "x"}) == token
