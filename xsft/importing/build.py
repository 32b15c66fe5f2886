"""Turn a paste into a workload and a list of differences. Pure; the caller passes a function that reads env files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import product
from types import MappingProxyType

from msgspec import Struct

from xsft.base.errors import SpecError
from xsft.base.names import ModeName
from xsft.base.problems import Problem, error
from xsft.base.secrets import is_secret_variable, redact
from xsft.base.targets import DEFAULT_TRAINER
from xsft.base.terminal_text import safe_text
from xsft.catalog import releases
from xsft.checks.facts import Facts
from xsft.importing.cluster import Tree, cluster_fields, lost_flags, mode_of, name_fields, put_field, read_flags
from xsft.importing.environment import ReadEnvFile, flag_environment, workload_environment
from xsft.importing.keys import read_pairs, removed_keys, say_differences, token_secret, trainer_fields, with_defaults
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
STAND_INS: Mapping[str, object] = MappingProxyType(
    {
        "name": "name",
        "model.name": "default",
        "tpu.type": "v6e-8",
        "data.hf_path": "json",
        "data.columns": ["messages"],
        "train.steps": 1,
        "train.per_device_batch_size": 1,
        "lora.rank": 1,
        "lora.alpha": 1,
        "eval.interval": 1,
    }
)
"""Values for fields without a default, for comparison; they are never written to the file."""


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
    arguments: Mapping[str, Value]
    """The trainer's keys with their values."""
    base: Tree
    """Fields that do not depend on the MaxText release."""

    @property
    def counts_restarts(self) -> bool:
        """Return whether the command counts its restarts, as xsft writes it, for another order of the rows."""
        return any(RESTARTS in word for word in self.line.argv)


def import_paste(
    text: str, *, line: int | None = None, read_file: ReadEnvFile = lambda _name: None
) -> ImportedWorkload:
    """Return the workload. Raises SpecError for text that bash, xpk or MaxText also could not read.

    The text may be a Markdown page. `line`: the first line of the xpk command to import, if there are several.
    """
    if no_text := _NOT_TEXT.search(text):
        number = text.count("\n", 0, no_text.start()) + 1
        message = f"line {number} contains the character U+{ord(no_text.group()):04X}, which is not text"
        raise SpecError((error("import-text", "", message, "Paste the command as plain text."),))
    if not text.strip():
        message = "nothing to import: the paste is empty"
        raise SpecError((error("import-no-line", "", message, "Paste the line that submits the run."),))
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
    compared = spec or complete(tree, todo)
    if compared is not None:
        say_differences(pasted.arguments, resolve(compared, Facts())[0], notes)
    problems = (*notes.problems, *problems)
    whole = commented_workload(workload_yaml(tree), problems=problems, differences=notes.differences)
    return ImportedWorkload(yaml=safe_text(redact(whole)), differences=notes.differences, problems=problems)


def _read_line(line: XpkLine, notes: Notes, read_file: ReadEnvFile) -> _PastedLine:
    flags = dict(read_flags(line.verb, line.arguments))
    # The words of --command and --env are scanned one by one, later.
    leaking = [f for f, v in flags.items() if f != "command" and isinstance(v, str) and notes.is_secret("", v)]
    for flag in leaking:
        notes.differ(f"--{flag}", given="a secret (not shown)", why="it looks like a token; removed")
        del flags[flag]
    mode = mode_of(line.verb, flags)
    command = flags.get("command", "")
    if not command.strip():
        message = "The line has no --command, so the training command is unknown."
        raise SpecError((error("import-trainer", "", message, "Paste the whole line."),))
    container = flag_environment(flags, notes, read_file)
    trainer = read_trainer(command, container_env=container, notes=notes)
    token = token_secret(trainer.pairs, notes)
    arguments = read_pairs(trainer.pairs, notes)
    environment = workload_environment({**container, **dict(trainer.env)}, mode, notes)
    for name, _ in trainer.env:
        if name in environment.get("env", {}):
            notes.differ(name, given="set in the command", now=f"env.{name}", why="it is set when the container starts")
    run_name = arguments.get("run_name")
    names = name_fields(flags.get("workload") or None, None if run_name is None else str(run_name) or None, notes)
    cluster = cluster_fields(flags, mode, notes, ignored=lost_flags(mode) if line.is_xpks else {})
    for path, field in line.fields.items():
        put_field(cluster, path, field)
    if "xla_flags" in cluster:
        environment.pop("xla_flags", None)
    base = {**names, "mode": mode, **cluster, **({"secrets": token} if token else {}), **environment}
    return _PastedLine(line=line, mode=mode, trainer=trainer, arguments=arguments, base=base)


def _closest_tree(pasted: _PastedLine, notes: Notes) -> Tree:
    """Return the workload whose plan equals the pasted line exactly, if xsft wrote that line; else the closest one."""
    preferred = _preferred_release(pasted)
    # A Pathways line has no restarts, so its seed cannot count them
    uncounted = tuple(map(at_first_start, pasted.line.argv))
    candidates = dict.fromkeys((preferred, *releases_starting(pasted.trainer.module)))
    for version, exact, tail, repeats in product(candidates, (False, True), (False, True), (False, True)):
        tree = _tree(pasted, pasted.arguments, version=version, tail=tail, exact=exact)
        if repeats:
            tree["restarts"] = {**tree.get("restarts", {}), "data": "repeat"}
        if _rendered_argv(tree) in (pasted.line.argv, uncounted):
            _say_release(version, notes)
            if "max-restarts" in lost_flags(pasted.mode) and pasted.counts_restarts:
                why = "the run was restarted, but xpk drops the number of restarts under Pathways; set restarts.max"
                notes.differ("restarts.max", why=why)
            return tree
    _say_release(preferred, notes)
    if pasted.base.get("restarts", {}).get("max") and not pasted.counts_restarts:
        why = "a restart would read the same rows again; xsft changes the shuffle seed"
        notes.differ("restarts.data", now="reshuffle", why=why)
    _say_config(pasted, preferred, notes)
    removed = removed_keys(pasted.arguments, preferred)
    accepted = {key: value for key, value in pasted.arguments.items() if key not in removed}
    tree = _tree(pasted, accepted, version=preferred, tail=False, exact=False)
    with_defaults(tree, notes)
    return tree


def _preferred_release(pasted: _PastedLine) -> str:
    """Return the release in the image's tag, else the newest one with this trainer."""
    tag = str(pasted.base.get("image", {}).get("ref", "")).rpartition(":")[2]
    having = releases_starting(pasted.trainer.module)
    for version in reversed(having):
        if re.search(rf"(?<![0-9.]){re.escape(version)}(?![0-9.]*[0-9])", tag):
            return version
    return having[0]


def _tree(pasted: _PastedLine, arguments: Mapping[str, Value], *, version: str, tail: bool, exact: bool) -> Tree:
    fields = trainer_fields(arguments, mode=pasted.mode, tail=tail, exact=exact)
    copied = pasted.trainer.copied
    if copied and "model" in fields:
        words = {
            "tokenizer_revision": copied.revision,
            "pad_token": copied.pad_token,
            "bos_token": copied.bos_token,
        }
        fields["model"] |= {key: text for key, text in words.items() if text}
    name = trainer_with(pasted.trainer.module)
    trainer = {} if name == DEFAULT_TRAINER else {"trainer": name}
    return {**pasted.base, **trainer, **fields, "image": {**pasted.base.get("image", {}), "maxtext": version}}


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
    config = pasted.trainer.config
    release = releases.release(version)
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


def _say_variables(shell: Shell, notes: Notes) -> None:
    for name, default in shell.defaulted.items():
        if not notes.is_secret_variable(name, default):
            notes.differ(f"${name}", now=default, why="not set in the paste; its default in the command is used")
    for name in shell.variables:
        if name not in shell.used:
            notes.differ(f"${name}", given="set", why="set above the line but not used in it")


def fill_holes(tree: Tree, notes: Notes) -> tuple[str, ...]:
    """Label every hole in place; return the key paths that the user must fill."""
    paths_by_label: dict[str, list[str]] = {}
    tree.update(_label_holes(tree, "", notes, paths_by_label))  # type: ignore[call-overload]
    for label, paths in paths_by_label.items():
        placeholder, _, why = label.partition(" ")
        fix = "Write its value there, or export it above the line and import again."
        message = f"{placeholder} is in {', '.join(paths)}: {why}."
        notes.problems.append(error("import-unset", paths[0], message, fix))
    return tuple(path for paths in paths_by_label.values() for path in paths)


def _label_holes(node: object, path: str, notes: Notes, paths_by_label: dict[str, list[str]]) -> object:
    if isinstance(node, dict):
        below = {key: f"{path}.{key}" if path else key for key in node}
        return {
            notes.holes.label_holes(key): _label_holes(child, below[key], notes, paths_by_label)
            for key, child in node.items()
        }
    if isinstance(node, list):
        return [_label_holes(child, path, notes, paths_by_label) for child in node]
    if not isinstance(node, str):
        return node
    for hole in notes.holes.holes_in(node):
        why = f"the paste does not set {hole.text}"
        if hole.kind == "command":
            why = f"import does not run {notes.printable_text(hole.text)}"
        paths_by_label.setdefault(f"{hole.label} {why}", []).append(path)
    return notes.holes.label_holes(node)


def _spec(tree: Tree, todo: Sequence[str]) -> tuple[WorkloadSpec | None, tuple[Problem, ...]]:
    """Parse the YAML that will be written; ignore problems of values that the user must still fill in."""
    try:
        return read_spec(workload_yaml(tree)), ()
    except SpecError as refused:
        others = [p for p in refused.problems if not any(f"{p.where}.".startswith(f"{path}.") for path in todo)]
        return None, tuple(others)


def complete(tree: Tree, todo: Sequence[str]) -> WorkloadSpec | None:
    """Return the workload without unfilled fields; None if it is invalid without them."""
    reduced = _with_stand_ins(tree, "", frozenset(todo))
    try:
        return validate(WorkloadSpec, reduced, ParsedYaml(data=reduced))
    except (SpecError, ValueError):
        return None


def _with_stand_ins(section: Tree, parent: str, todo: frozenset[str]) -> Tree:
    """Return a copy in which stand-ins fill required fields; other fields with holes are removed."""
    copy: Tree = {}
    for key, value in section.items():
        path = f"{parent}.{key}" if parent else key
        if path in todo:
            if path in STAND_INS:
                copy[key] = STAND_INS[path]
        elif isinstance(value, dict):
            copy[key] = _with_stand_ins(value, path, todo)
        else:
            copy[key] = value
    return copy
