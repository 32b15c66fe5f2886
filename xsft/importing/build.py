"""Turn a paste into a workload and a list of differences. Pure; the caller passes a function that reads env files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import product

from msgspec import Struct, to_builtins

from xsft.base.errors import SpecError
from xsft.base.names import ModeName
from xsft.base.problems import Problem, error
from xsft.base.secrets import is_secret_variable, redact
from xsft.base.targets import DEFAULT_TRAINER
from xsft.base.terminal_text import safe_text
from xsft.catalog import releases
from xsft.checks.facts import Facts
from xsft.importing.cluster import Tree, cluster_fields, lost_flags, mode_of, name_fields, put_field
from xsft.importing.compare import say_differences
from xsft.importing.environment import ReadEnvFile, flag_environment, workload_environment
from xsft.importing.fill import complete, fill_holes
from xsft.importing.flags import Flags, read_flags
from xsft.importing.keys import read_pairs, removed_keys, token_secret, trainer_fields, with_defaults
from xsft.importing.markdown import shell_lines
from xsft.importing.notes import Notes, PasteDifference
from xsft.importing.shell import Shell
from xsft.importing.text import commented_workload, workload_yaml
from xsft.importing.trainer import PastedTrainer, read_trainer, releases_starting
from xsft.importing.xpkline import XpkLine, find_xpk_line
from xsft.launcher.encoding import RESTARTS, at_first_start
from xsft.launcher.xpk import xpk_argv
from xsft.spec.base import Value
from xsft.spec.explain import read_spec, validate
from xsft.spec.model import WorkloadSpec
from xsft.spec.resolve import resolve
from xsft.spec.yamltext import ParsedYaml
from xsft.trainer.trainer import trainer_with

_NOT_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


class ImportedWorkload(Struct, frozen=True, kw_only=True):
    yaml: str
    """The workload's file, without the schema comment."""
    differences: tuple[PasteDifference, ...]
    problems: tuple[Problem, ...]
    """The parts of the file that the user must complete or correct."""


class _PastedLine(Struct, frozen=True, kw_only=True):
    """The parsed xpk command."""

    line: XpkLine
    mode: ModeName
    trainer: PastedTrainer
    given: Mapping[str, Value]
    base: Tree
    """Fields that do not depend on the MaxText release."""


def import_paste(
    text: str, *, line: int | None = None, read_file: ReadEnvFile = lambda _name: None
) -> ImportedWorkload:
    """Return the workload. Raises SpecError for text that bash, xpk or MaxText also could not read.

    The text may be a Markdown page. `line`: the first line of the xpk command to import, if there are several.
    """
    _require_text(text)
    shell = Shell()
    commands = shell.run(shell_lines(text.replace("\r\n", "\n")))
    notes = Notes(shell.holes)
    for name, value in shell.variables.items():
        if is_secret_variable(name, value):
            notes.remember_secret(value)
    pasted = _read_line(find_xpk_line(commands, notes, line=line), notes, read_file)
    _say_variables(shell, notes)
    tree = _closest_tree(pasted, notes)
    todo = fill_holes(tree, notes)
    spec, problems = _spec(tree, todo)
    if (known := spec or complete(tree, todo)) is not None:
        say_differences(pasted.given, resolve(known, Facts())[0], notes)
    found = (*notes.problems, *problems)
    differences = notes.differences
    whole = commented_workload(workload_yaml(tree), problems=found, differences=differences)
    return ImportedWorkload(yaml=safe_text(redact(whole)), differences=differences, problems=found)


def _require_text(text: str) -> None:
    if found := _NOT_TEXT.search(text):
        line = text.count("\n", 0, found.start()) + 1
        message = f"line {line} contains the character U+{ord(found.group()):04X}, which is not text"
        raise SpecError((error("import-text", "", message, "Paste the command as plain text."),))
    if not text.strip():
        message = "nothing to import: the paste is empty"
        raise SpecError((error("import-no-line", "", message, "Paste the line that submits the run."),))


def _read_line(line: XpkLine, notes: Notes, read_file: ReadEnvFile) -> _PastedLine:
    flags = _without_secrets(read_flags(line.verb, line.arguments), notes)
    mode = mode_of(line.verb, flags)
    command = flags.get("command")
    if not isinstance(command, str) or not command.strip():
        message = "The line has no --command, so the training command is unknown."
        raise SpecError((error("import-trainer", "", message, "Paste the whole line."),))
    container = flag_environment(flags, notes, read_file)
    trainer = read_trainer(command, container_env=container, notes=notes)
    token = token_secret(trainer.pairs, notes)
    given = read_pairs(trainer.pairs, notes)
    environment = workload_environment({**container, **dict(trainer.env)}, mode, notes)
    _say_moved(trainer, environment, notes)
    workload, run_name = flags.get("workload"), given.get("run_name")
    name = name_fields(str(workload) if workload else None, str(run_name) if run_name is not None else None, notes)
    cluster = cluster_fields(flags, mode, notes, ignored=lost_flags(mode) if line.is_xpks else {})
    for path, field in line.fields.items():
        put_field(cluster, path, field)
    if "xla_flags" in cluster:
        environment.pop("xla_flags", None)
    secrets = environment.pop("secrets", None) or token
    base = {**name, "mode": mode, **cluster, **environment, **({"secrets": secrets} if secrets else {})}
    return _PastedLine(line=line, mode=mode, trainer=trainer, given=given, base=base)


def _without_secrets(flags: Flags, notes: Notes) -> Flags:
    """Remove secrets from the flags, except --command and --env, which are scanned word by word later."""
    leaking = [f for f, v in flags.items() if f != "command" and isinstance(v, str) and notes.is_secret("", v)]
    for flag in leaking:
        notes.differ(f"--{flag}", given="a secret (not shown)", why="it looks like a token; removed")
    return {flag: value for flag, value in flags.items() if flag not in leaking}


def _say_moved(trainer: PastedTrainer, environment: Tree, notes: Notes) -> None:
    kept = environment.get("env")
    for name, _ in trainer.env:
        if isinstance(kept, dict) and name in kept:
            notes.differ(name, given="set in the command", now=f"env.{name}", why="it is set when the container starts")


def _closest_tree(pasted: _PastedLine, notes: Notes) -> Tree:
    """Return the workload whose plan equals the pasted line exactly, if xsft wrote that line; else the closest one."""
    preferred = _preferred_release(pasted)
    # A Pathways line has no restarts, so its seed cannot count them
    uncounted = tuple(map(at_first_start, pasted.line.argv))
    for version, exact, tail, repeats in _workload_candidates(pasted, preferred):
        found = _tree(pasted, pasted.given, version=version, tail=tail, exact=exact)
        tree = _with_restarts(found) if repeats else found
        if _rendered_argv(tree) in (pasted.line.argv, uncounted):
            _say_release(version, notes)
            _say_restarts(pasted, notes)
            return tree
    _say_release(preferred, notes)
    _say_order(pasted, notes)
    _say_config(pasted, preferred, notes)
    removed = removed_keys(pasted.given, preferred)
    kept = {key: value for key, value in pasted.given.items() if key not in removed}
    found = _tree(pasted, kept, version=preferred, tail=False, exact=False)
    with_defaults(found, notes)
    return found


def _workload_candidates(pasted: _PastedLine, preferred: str) -> Iterator[tuple[str, bool, bool, bool]]:
    """Yield (release, values only as written, last keys are overrides, a restart reads the same rows)."""
    ours = dict.fromkeys((preferred, *releases_starting(pasted.trainer.module)))
    yield from product(ours, (False, True), (False, True), (False, True))


def _with_restarts(tree: Tree) -> Tree:
    restarts = tree.get("restarts")
    return {**tree, "restarts": {**(restarts if isinstance(restarts, dict) else {}), "data": "repeat"}}


def _preferred_release(pasted: _PastedLine) -> str:
    """Return the release in the image's tag, else the newest one with this trainer."""
    image = pasted.base.get("image")
    ref = str(image.get("ref", "")) if isinstance(image, dict) else ""
    having = releases_starting(pasted.trainer.module)
    for version in reversed(having):
        if re.search(rf"(?<![0-9.]){re.escape(version)}(?![0-9.]*[0-9])", ref.rpartition(":")[2]):
            return version
    return having[0]


def _tree(pasted: _PastedLine, given: Mapping[str, Value], *, version: str, tail: bool, exact: bool) -> Tree:
    fields = trainer_fields(given, mode=pasted.mode, tail=tail, exact=exact)
    model, image, copied = fields.get("model"), pasted.base.get("image"), pasted.trainer.copied
    if copied and isinstance(model, dict):
        words = {**to_builtins(copied), "tokenizer_revision": copied.revision}
        model.update({key: words[key] for key in ("tokenizer_revision", "pad_token", "bos_token") if words[key]})
    name = trainer_with(pasted.trainer.module)
    trainer = {} if name == DEFAULT_TRAINER else {"trainer": name}
    return {
        **pasted.base,
        **trainer,
        **fields,
        "image": {**(image if isinstance(image, dict) else {}), "maxtext": version},
    }


def _rendered_argv(tree: Tree) -> tuple[str, ...] | None:
    try:
        spec = validate(WorkloadSpec, tree, ParsedYaml(data=tree))
        return xpk_argv(resolve(spec, Facts())[0])
    except (SpecError, ValueError):
        return None


def _say_release(version: str, notes: Notes) -> None:
    why = (
        "no flag gives the image's MaxText release; taken from the image's tag, else the newest release with this "
        "trainer"
    )
    notes.differ("image.maxtext", now=version, why=why)


def _say_config(pasted: _PastedLine, version: str, notes: Notes) -> None:
    config, release = pasted.trainer.config, releases.release(version)
    if config is None or config == release.sft_config:
        return
    if config.endswith("/sft.yml") or config == "sft.yml":
        now = release.sft_config if release.positional_yml else None
        notes.differ(config, now=now, why=f"MaxText {version} finds its sft.yml without this argument")
        return
    shown = notes.printable_text(config)
    message = f"The command uses {shown}; xsft uses MaxText's own sft.yml, so the values of that file are lost."
    fix = "Copy the values of that file into overrides.maxtext."
    notes.problems.append(error("import-config", "overrides.maxtext", message, fix))


def _counts(pasted: _PastedLine) -> bool:
    return any(RESTARTS in word for word in pasted.line.argv)


def _say_restarts(pasted: _PastedLine, notes: Notes) -> None:
    if "max-restarts" in lost_flags(pasted.mode) and _counts(pasted):
        why = "the run was restarted, but xpk drops the number of restarts under Pathways; set restarts.max"
        notes.differ("restarts.max", why=why)


def _say_order(pasted: _PastedLine, notes: Notes) -> None:
    restarts = pasted.base.get("restarts")
    if isinstance(restarts, dict) and restarts.get("max") and not _counts(pasted):
        why = "a restart would read the same rows again; xsft changes the shuffle seed"
        notes.differ("restarts.data", now="reshuffle", why=why)


def _say_variables(shell: Shell, notes: Notes) -> None:
    for name, default in shell.defaulted.items():
        if not notes.is_secret_variable(name, default):
            notes.differ(f"${name}", now=default, why="not set in the paste; its default in the command is used")
    for name in [name for name in shell.variables if name not in shell.used]:
        why = "set above the line but not used in it"
        notes.differ(f"${name}", given="set", why=why)


def _spec(tree: Tree, todo: tuple[str, ...]) -> tuple[WorkloadSpec | None, tuple[Problem, ...]]:
    """Parse the YAML that will be written; ignore problems of values that the user must still fill in."""
    try:
        return read_spec(workload_yaml(tree)), ()
    except SpecError as refused:
        others = [p for p in refused.problems if not any(f"{p.where}.".startswith(f"{path}.") for path in todo)]
        return None, tuple(others)
