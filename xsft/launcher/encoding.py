"""Encode a command line for xpk's `--command` and a value for `--env`, and compute what Kubernetes and bash make of
them. Pure.

The argv passes through xpk's templates (without quoting, with text replaced inside the finished YAML), YAML,
Kubernetes' `$()` expansion and bash, before Python receives it. Each function of this module compensates for some of
them. source: xpk 1.16.0 xpk/core/docker_container.py [get_main_container], xpk/core/docker_resources.py
[format_env_dict, parse_env_config], xpk/templates/pathways_workload_create.yaml.j2.
tests/contract/test_encoding_through_xpk.py drives all four for real.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Final, TypeAlias

from msgspec import Struct

from xsft.base.names import ModeName

EnvPairs: TypeAlias = tuple[tuple[str, str], ...]

COMMAND_LIMIT: Final = 120_000
"""Maximum bytes of one encoded command. Linux takes 131,072 bytes per argument (MAX_ARG_STRLEN), xpk's wrapper
included."""

BASH_KEEPS: Final = frozenset(
    """
    BASH BASHOPTS BASHPID BASH_ARGC BASH_ARGV BASH_ARGV0 BASH_COMMAND BASH_EXECUTION_STRING
    BASH_LINENO BASH_SOURCE BASH_SUBSHELL BASH_VERSINFO BASH_VERSION COMP_WORDBREAKS EPOCHREALTIME
    EPOCHSECONDS EUID FUNCNAME GROUPS HISTCMD IFS LINENO OLDPWD OPTERR OPTIND PPID PS1 PS4 PWD
    RANDOM SECONDS SHELLOPTS SHLVL SRANDOM UID _
    """.split()  # noqa: SIM905 (otherwise one line per name)
)
"""Names that bash 5.2 sets, drops or refuses itself, so that a value would not reach the trainer; read from bash."""

RESTARTS = "XSFT_RESTARTS"
"""Variable in the trainer's container with the number of restarts of this attempt by JobSet; if absent, none."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

# Characters that YAML forbids or folds (C0, DEL, C1 with NEL, U+2028/9, BOM, U+FFFE/F), that control a terminal, or
# that make a line look different from what runs (zero-width and bidirectional marks).
_HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufffe\uffff]")
_NOT_TEXT = re.compile("[\x00\ud800-\udfff]")
_ANSI = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_YAML = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r", "$": "$$"}


class CountedArgument(Struct, frozen=True, kw_only=True):
    """An argument `key=number` whose number grows at each restart of the JobSet."""

    key: str
    first: int
    """Value at the first start."""
    each: int
    """Increment at each restart."""

    @property
    def argument(self) -> str:
        """Return the argument as the first start receives it."""
        return f"{self.key}={self.first}"

    @property
    def word(self) -> str:
        """Return the argument as a bash word: bash does the addition, because Kubernetes expands only `$(NAME)`."""
        return f'{self.key}="$(({self.first}+{self.each}*${{{RESTARTS}:-0}}))"'


_GROWING = re.compile(rf'"\$\$?\(\((-?[0-9]+)\+[0-9]+\*\$\$?\{{{RESTARTS}:-0\}}\)\)"')


def at_first_start(command: str) -> str:
    """Return an encoded command with its counted number as at the first start."""
    return _GROWING.sub(r"\1", command)


def encode_command(
    *, argv: tuple[str, ...], env: EnvPairs, mode: ModeName, counted: CountedArgument | None = None
) -> str:
    """Return `A=B exec python3 -m …`, which bash runs so that Python gets `argv` and sees `env`, byte for byte.

    The assignments come first, as they do in the tutorials; `exec` makes SIGTERM reach Python. `counted`: the argument
    that a restart changes; at the first start it is as in `argv`. Raises ValueError if no encoding exists: NUL, half a
    surrogate pair, a name that bash keeps, a command over the limit; and for a `counted` that `argv` does not have.
    """
    if not argv or not argv[0] or argv[0].startswith("-"):
        raise ValueError("a command must start with the name of a program")
    names = [name for name, _ in env]
    for name in names:
        if problem := env_name_problem(name):
            raise ValueError(problem)
    if len(set(names)) < len(names):
        raise ValueError(f"an environment name is given twice: {', '.join(names)}")
    for text in (*argv, *(value for _, value in env)):
        _require_text(text, what="a command")
    if counted and argv.count(counted.argument) != 1:
        raise ValueError(f"{counted.argument} is not in the command exactly once")
    words = [f"{name}={_bash_word(value, mode)}" for name, value in env]
    arguments = (
        counted.word if counted and argument == counted.argument else _bash_word(argument, mode) for argument in argv
    )
    # Last, because a `$` that quoting put there ($'…') is expanded by Kubernetes like any other.
    encoded = escape_expansion(" ".join((*words, "exec", *arguments)))
    if (size := len(encoded.encode())) > COMMAND_LIMIT:
        raise ValueError(f"the command takes {size} bytes; at most {COMMAND_LIMIT} fit into one container command")
    return encoded


def encode_env_value(value: str) -> str:
    """Return VALUE for xpk's `--env=NAME=VALUE`, which xpk puts between double quotes into YAML, unescaped.

    `env:` is broken up in both modes: under Pathways xpk replaces it wherever it occurs in the container's text. Raises
    ValueError for NUL and half a surrogate pair.
    """
    _require_text(value, what="an environment value")
    return "".join(map(_yaml_character, value)).replace("env:", "env\\x3a")


def env_name_problem(name: str) -> str | None:
    """Return why a variable of this name would not reach the trainer; None if it would."""
    if not _NAME.fullmatch(name):
        return (
            f"`{name}` is not a valid environment variable name: letters, digits and underscores, not starting "
            "with a digit"
        )
    if name in BASH_KEEPS:
        return f"`{name}` is set by bash itself, so the trainer would see another value"
    if name == "date":
        return "`date` would replace the $(date) in the script that xpk wraps around the command"
    return None


def pathways_args_problem(token: str) -> str | None:
    """Return why xpk would not pass this token of `--custom-pathways-*-args` on unchanged; None if it would.

    xpk splits the flag at single spaces and writes each piece unquoted into a YAML list; Kubernetes then expands `$`.
    """
    if not re.match(r"--[A-Za-z0-9_]", token):
        return f"`{token}` must look like --name=value"
    if re.search(r"\s", token) or not token.isprintable():
        return f"`{token}` contains white space or a control character, at which xpk splits it; quotes do not help"
    if re.search(r"""['"$]""", token):
        return f"`{token}` contains a quote or `$`: quotes stay in the value, Kubernetes expands `$`"
    if token.endswith(":"):
        return f"`{token}` ends in a colon, which YAML reads as a mapping"
    return None


def escape_expansion(text: str) -> str:
    """Return `text` escaped so that `kubernetes_expand` gives it back, whatever is defined."""
    return text.replace("$", "$$")


def kubernetes_expand(text: str, env: Mapping[str, str]) -> str:
    """Return a `command`, `args` or env `value` as the kubelet expands it.

    `$(NAME)` is replaced if NAME is defined and left alone if not, `$$` becomes `$`, any other `$` stays; one pass,
    from the left. source: Kubernetes API reference, Container.command and EnvVar.value.
    """

    def replacement(match: re.Match[str]) -> str:
        name = match.group(1)
        return "$" if name is None else env.get(name, match.group(0))

    return re.sub(r"\$\$|\$\(([^)]*)\)", replacement, text)


def command_in_wrapper(script: str) -> str:
    """Return COMMAND of the script that xpk wrapped around it in a manifest; ValueError for another script."""
    shape = [line.strip() for line in script.split("\n") if line.strip()]
    position = len(_WRAPPER_BEFORE)
    command = shape[position] if len(shape) > position else ""
    ends = command.startswith("(") and command.endswith(_WRAPPER_END)
    if not ends or shape[:position] != _WRAPPER_BEFORE or shape[position + 1 :] != _WRAPPER_AFTER:
        raise ValueError("the container's script is not the one that the pinned xpk writes")
    return command[1 : -len(_WRAPPER_END)]


XPK_START: Final = "XPK Start:"
"""How the log of a container that xpk rendered begins."""

# source: xpk 1.16.0 xpk/core/docker_container.py [get_main_container], TPU, without a debug dump or side-car.
_WRAPPER_BEFORE: Final = [
    f"echo {XPK_START} $(date);",
    "_sigterm() (kill -SIGTERM $! 2>/dev/null;);",
    "trap _sigterm SIGTERM;",
]
_WRAPPER_END: Final = ") & PID=$!;"
_WRAPPER_AFTER: Final = [
    "while kill -0 $PID 2>/dev/null;",
    "do sleep 5;",
    "done;",
    "wait $PID;",
    "EXIT_CODE=$?;",
    "echo XPK End: $(date);",
    "echo EXIT_CODE=$EXIT_CODE;",
    "exit $EXIT_CODE",
]


def _require_text(text: str, *, what: str) -> None:
    if refused := _NOT_TEXT.search(text):
        raise ValueError(f"{what} cannot hold the character U+{ord(refused.group()):04X}: {text[:40]!r}")


def _bash_word(text: str, mode: ModeName) -> str:
    """Return the text quoted for bash, on one line, in characters that survive YAML."""
    hidden = _HIDDEN.search(text) is not None
    word = f"$'{''.join(map(_ansi, text))}'" if hidden else shlex.quote(text)
    match mode:
        case "mcjax":
            return word
        case "pathways":
            # `''` is nothing, both outside and inside single quotes; inside $'…' it would end the string: the colon is
            # escaped.
            return word.replace("env:", "env\\x3a" if hidden else "en''v:")


def _ansi(character: str) -> str:
    if character in _ANSI:
        return _ANSI[character]
    if not _HIDDEN.match(character):
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode())


def _yaml_character(character: str) -> str:
    """Return the character, escaped where it must be; YAML's \\x and \\u name the code point, unlike bash's \\x, which
    names a byte.
    """
    if character in _YAML or not _HIDDEN.match(character):
        return _YAML.get(character, character)
    code = ord(character)
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}"
