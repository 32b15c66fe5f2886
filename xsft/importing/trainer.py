"""Parse the trainer's command in `--command`: module, configuration file, `key=value` arguments, surrounding commands.
Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from types import MappingProxyType

from msgspec import Struct

from xsft.base.errors import SpecError
from xsft.base.problems import error
from xsft.base.targets import DEFAULT_TRAINER, trainers
from xsft.catalog import releases
from xsft.importing.notes import Notes
from xsft.importing.shell import Shell, SimpleCommand
from xsft.launcher.encoding import at_first_start, kubernetes_expand
from xsft.trainer.arguments import yaml_value
from xsft.trainer.tokenizer_copy import TokenizerCopy, split_copying
from xsft.trainer.trainer import trainer_named, trainer_with

SIGTERM_WHY = "bash would not forward SIGTERM, so a preempted run would not shut down cleanly; removed"
PURPOSES: Mapping[str, str] = MappingProxyType(
    {
        "to_maxtext": "It converts weights: write model.hf into a workload, and `xsft checkpoint convert` does it.",
        "to_huggingface": "It exports a checkpoint: `xsft checkpoint export` does it.",
        "_rl": "It is reinforcement learning; xsft trains only SFT and LoRA, which usually come before it.",
        "dpo": "It is preference tuning; xsft trains only SFT and LoRA.",
        "distill": "It is distillation; xsft trains only SFT and LoRA.",
        "pre_train": "It is pre-training; xsft trains only SFT and LoRA.",
        "MaxText.train": "It is pre-training; xsft trains only SFT and LoRA.",
        "decode": "It generates text: `xsft sample` and `xsft serve` do it.",
    }
)
"""Part of a program's name -> what it does."""
_PYTHON = re.compile(r"python[0-9.]*")
_CONFIG = re.compile(r"[^=]*\.yml")


class PastedTrainer(Struct, frozen=True, kw_only=True):
    """A trainer's command, as bash in the container would start it."""

    module: str
    config: str | None
    """The configuration file, if one is the first argument."""
    pairs: tuple[tuple[str, str], ...]
    """`key=value` arguments in order, as given."""
    env: tuple[tuple[str, str], ...]
    """Assignments and exports before the command."""
    copied: TokenizerCopy | None = None
    """The copy of the tokenizer that xsft's own command makes; `tokenizer_path` is then the original."""


def read_trainer(command: str, *, container_env: Mapping[str, str], notes: Notes) -> PastedTrainer:
    """Parse the command. Raises SpecError if no registered trainer is in it."""
    shell = Shell(container_env, notes.holes)
    # A counted seed, as xsft writes it, is its first value here.
    commands = shell.run(at_first_start(kubernetes_expand(command, container_env)))
    started = [i for i, simple in enumerate(commands) if _module(simple.argv)]
    if not started:
        heads = ", ".join(dict.fromkeys(head(simple, notes) for simple in commands[:5])) or "nothing"
        message = f"--command starts {heads}; none is a trainer that xsft knows."
        fix = f"Paste a line whose command runs python3 -m {' or '.join(modules())}."
        raise SpecError((error("import-trainer", "", message, fix),))
    # A preparation may start Python before the trainer does.
    index = next((i for i in started if starts_trainer(commands[i].argv)), started[0])
    module, arguments = _module(commands[index].argv) or ("", ())
    if module not in modules():
        shown = notes.printable_text(module)
        message = f"The command starts {shown}, which is no SFT trainer. {purpose(module)}".strip()
        raise SpecError((error("import-trainer", "", message, f"Use {' or '.join(modules())}."),))
    _say_around(commands, index, notes)
    if not command.lstrip().startswith("exec ") and " exec " not in command:
        why = "bash would not forward SIGTERM, so a preempted run would not shut down cleanly"
        notes.differ("exec", given="python3 …", now="exec python3 …", why=why)
    config, pairs = _split_arguments(arguments, notes)
    copied, _ = split_copying(commands[index].argv[1:])
    if copied:
        tokenizer = yaml_value(copied.tokenizer)
        pairs = [(key, tokenizer if key == "tokenizer_path" else value) for key, value in pairs]
    env = (*shell.exports(), *commands[index].env)
    return PastedTrainer(module=module, config=config, pairs=tuple(pairs), env=env, copied=copied)


def modules() -> tuple[str, ...]:
    """Return the modules of the registered trainers."""
    return tuple(sorted(module for name in trainers() for module in trainer_named(name).MODULES))


def releases_starting(module: str) -> tuple[str, ...]:
    """Return the MaxText releases in which this module trains, the newest first."""
    trainer = trainer_named(trainer_with(module) or DEFAULT_TRAINER)
    return tuple(v for v in reversed(releases.versions()) if trainer.module(releases.release(v)) == module)


def _module(argv: tuple[str, ...]) -> tuple[str, tuple[str, ...]] | None:
    """Return (module, arguments) of `python3 [-u] -m MODULE …` or `python3 path/to/module.py …`."""
    if not argv or not _PYTHON.fullmatch(PurePosixPath(argv[0]).name):
        return None
    _, words = split_copying(argv[1:])
    for index, word in enumerate(words):
        if word == "-m":
            return (words[index + 1], words[index + 2 :]) if index + 1 < len(words) else None
        if word.endswith(".py"):
            dotted = word.removesuffix(".py").strip("./").replace("/", ".")
            return next((module for module in modules() if dotted.endswith(module)), dotted), words[index + 1 :]
        if not word.startswith("-"):
            return None
    return None


def starts_trainer(argv: tuple[str, ...]) -> bool:
    module = _module(argv)
    return module is not None and module[0] in modules()


def purpose(program: str) -> str:
    """Return what a program of MaxText does that is no SFT, and what xsft has for it; empty if that is unknown."""
    return next((text for part, text in PURPOSES.items() if part in program), "")


def head(command: SimpleCommand, notes: Notes) -> str:
    """Return the start of a command without most arguments, which may contain secrets."""
    name = PurePosixPath(command.argv[0]).name
    module = _module(command.argv)
    return notes.printable_text(f"{name} -m {module[0]}" if module else name)


def _say_around(commands: list[SimpleCommand], index: int, notes: Notes) -> None:
    for simple in commands[:index]:
        why = "only the trainer runs in the container; install what it needs in the image"
        notes.differ(head(simple, notes), given="before the trainer", why=why)
    for simple in commands[index + 1 :]:
        notes.differ(head(simple, notes), given=f"after the trainer ({simple.before or 'next line'})", why=SIGTERM_WHY)
    if commands[index].redirected:
        notes.differ("redirection", given="> …", why="xsft reads the pod's log; removed")
    if commands[index].after == "&":
        notes.differ("&", given="in the background", why="the container ends when its command ends; removed")


def _split_arguments(arguments: tuple[str, ...], notes: Notes) -> tuple[str | None, list[tuple[str, str]]]:
    """Return the configuration file, if one is the first argument, and the `key=value` pairs."""
    config = arguments[0] if arguments and _CONFIG.fullmatch(arguments[0]) else None
    pairs: list[tuple[str, str]] = []
    for word in arguments[1:] if config else arguments:
        name, equals, value = word.partition("=")
        if equals:
            pairs.append((name, value))
        elif pairs and pairs[-1][1].startswith("[") and "]" not in pairs[-1][1]:
            name, begun = pairs.pop()
            pairs.append((name, f"{begun} {word}"))
            notes.differ(name, why="bash split this list at spaces, which MaxText would reject; joined again")
        else:
            message = "The trainer's command has an argument without `=` (not shown: it may be a secret); removed."
            notes.problems.append(
                error("import-argument", "", message, "MaxText takes key=value; correct the command.")
            )
    return config, pairs
