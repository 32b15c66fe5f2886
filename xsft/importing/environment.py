"""Environment variables of a pasted line: `--env`, `--env-file`, assignments before the command. Pure.

source: xpk@1.16.0 core/docker_resources.py (parse_env_config, format_env_dict).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import yaml

from xsft.base.names import ModeName
from xsft.base.problems import error
from xsft.importing.cluster import Flags
from xsft.importing.notes import Notes
from xsft.launcher.encoding import kubernetes_expand
from xsft.spec.modes import mode_rules
from xsft.spec.yamltext import load_yaml
from xsft.trainer.trainer import HF_TOKEN_DIRECTORY

ReadEnvFile = Callable[[str], str | None]
"""Return the text of an env file, or None if it cannot be read."""

HUB_TOKENS = frozenset({"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HUGGINGFACE_TOKEN", "HF_HUB_TOKEN"})
STAND_IN_SECRET = {"secret": "hf-token", "key": "token"}
WHY_REFERENCE = (
    "a token on the line can be read in the JobSet, in `ps` and in logs. The Secret's name is a guess: create that "
    "Secret in the run's namespace, or change secrets.hf_token"
)
DEBUG_LOGS = {
    "TPU_STDERR_LOG_LEVEL": "0",
    "TPU_MIN_LOG_LEVEL": "0",
    "TF_CPP_MIN_LOG_LEVEL": "0",
    "TPU_VMODULE": "real_program_continuator=1",
}
"""Variables that --enable-debug-logs exports; source: xpk@1.16.0 core/docker_container.py."""

_PAIR = re.compile(r"(^[a-zA-Z_][a-zA-Z0-9_]*?)(?:=(.*))?$", re.MULTILINE)
_MOUNTED = re.compile(re.escape(HF_TOKEN_DIRECTORY) + r"/([-._a-zA-Z0-9]+)")


def flag_environment(flags: Flags, notes: Notes, read_file: ReadEnvFile) -> dict[str, str]:
    """Return the variables that xpk sets in the container, as YAML and Kubernetes parse them."""
    env: dict[str, str] = dict(DEBUG_LOGS) if flags.get("enable-debug-logs") else {}
    for name, value in (*_pairs_of_file(flags, notes, read_file), *_pairs_of_options(flags.get("env", []), notes)):
        # Popped, so that the variable stands where its last value does.
        if env.pop(name, None) is not None:
            notes.differ(name, why="it is given twice; the last one wins, as in xpk")
        env[name] = _value_in_container(name, value, env, notes)
    return env


def workload_environment(env: Mapping[str, str], mode: ModeName, notes: Notes) -> dict[str, Any]:
    """Return `env`, `xla_flags` and `secrets` of the workload."""
    variables: dict[str, str] = {}
    secrets: dict[str, object] = {}
    for name, value in env.items():
        if name in HUB_TOKENS:
            secrets = secrets or {"hf_token": STAND_IN_SECRET}
            notes.differ(name, given="a token (not shown)", now="secrets.hf_token", why=WHY_REFERENCE)
        elif name == "HF_TOKEN_PATH" and (mounted := _MOUNTED.fullmatch(value)):
            secrets = {"hf_token": {"secret": STAND_IN_SECRET["secret"], "key": mounted[1]}}
            why = "the file is mounted from a Kubernetes Secret whose name is not on the line; hf-token is a guess"
            notes.differ(name, given=value, now="secrets.hf_token", why=why)
        elif name in mode_rules(mode).reserved_env:
            now = dict(mode_rules(mode).trainer_env).get(name)
            if now != value:
                why = f"{mode} mode sets it; Kubernetes refuses a second value"
                notes.differ(name, given=value, now=now, why=why)
        elif _is_kept(name, value, notes):
            variables[name] = value
    flags = _take_compiler_flags(variables, mode)
    sections: dict[str, object] = {"env": variables, "xla_flags": flags, "secrets": secrets}
    return {section: content for section, content in sections.items() if content}


def _is_kept(name: str, value: str, notes: Notes) -> bool:
    if notes.is_secret_variable(name, value):
        why = "everyone who can read the JobSet could read this secret; xsft passes only the Hugging Face token"
        notes.differ(name, given="a secret (not shown)", why=why)
        return False
    if notes.holes.holes_in(value):
        message = f"{name} is {notes.printable_text(value)}, which is unknown from the paste; removed."
        fix = f"Write its value under env.{name}, or put the export above the line and import again."
        notes.problems.append(error("import-unset", f"env.{name}", message, fix))
        return False
    return True


def _take_compiler_flags(env: dict[str, str], mode: ModeName) -> list[str]:
    """Take LIBTPU_INIT_ARGS out of the environment as flags, if it holds only flags that xsft would render at the same
    place.
    """
    match mode:
        case "pathways":  # there they are arguments of the proxy
            return []
        case "mcjax":
            flags = env.get("LIBTPU_INIT_ARGS", "").split(" ")
            is_last = list(env)[-1:] == ["LIBTPU_INIT_ARGS"]
            if not is_last or not all(re.match(r"--[A-Za-z0-9_]", flag) for flag in flags):
                return []
            del env["LIBTPU_INIT_ARGS"]
            return flags


def _pairs_of_options(options: Iterable[str], notes: Notes) -> Iterable[tuple[str, str]]:
    for text in options:
        match = _PAIR.match(text)
        if match is None or match.group(2) is None:
            message = f"--env takes NAME=VALUE; xpk would reject {notes.printable_text(text.partition('=')[0])}."
            notes.problems.append(error("import-env", "env", message, "Write it under env in the workload."))
            continue
        if match.end() < len(text):
            notes.differ(
                f"--env {match.group(1)}",
                why="xpk cuts the value at its first line break, and xsft import does the same",
            )
        yield match.group(1), match.group(2)


def _pairs_of_file(flags: Flags, notes: Notes, read_file: ReadEnvFile) -> Iterable[tuple[str, str]]:
    name = flags.get("env-file")
    if name is None:
        return
    text = read_file(name)
    if text is None:
        shown = notes.printable_text(name)
        message = f"The file of --env-file, {shown}, cannot be read here; its variables are not imported."
        notes.problems.append(error("import-env", "env", message, "Write them under env in the workload."))
        return
    for variable, value in _PAIR.findall(text.replace("\r\n", "\n")):
        # A line without `=` takes the value from the environment of the one who runs xpk.
        inherited = re.search(rf"^{variable}$", text, re.MULTILINE) is not None and value == ""
        yield variable, notes.holes.mark("variable", variable) if inherited else value


def _value_in_container(name: str, value: str, env: Mapping[str, str], notes: Notes) -> str:
    """Return the value in the container: xpk writes it unescaped between double quotes into YAML, and Kubernetes
    expands `$(NAME)`.
    """
    if notes.holes.holes_in(value):
        return value
    try:
        parsed = load_yaml(f'"{value}"')
    except (yaml.YAMLError, ValueError):
        parsed = None
    if not isinstance(parsed, str):
        notes.differ(
            f"--env {name}", why="xpk writes this value into its manifest unquoted, which breaks it; now quoted"
        )
        return value
    return kubernetes_expand(parsed, env)
