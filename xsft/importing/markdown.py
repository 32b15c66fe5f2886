"""Extract the commands of a Markdown page or a notebook. Pure.

source: CommonMark 0.31 "Fenced code blocks"; MyST's `{code-block} bash` and Pandoc's `{.bash}` are recognised too.
nbformat 4 (cells, source); IPython's `!command`, `%env NAME=VALUE` and `%%bash`.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator

from xsft.base.errors import SpecError
from xsft.base.problems import error
from xsft.base.targets import DEFAULT_TRAINER
from xsft.catalog import releases
from xsft.importing.trainer import modules
from xsft.importing.values import config_arguments, read_mapping
from xsft.trainer.trainer import trainer_named

_FENCE = re.compile(r"(?P<indent>[ \t]*)(?P<fence>`{3,}|~{3,})(?P<info>[^`\n]*)")
_CONFIG = re.compile(r"^(?:base_config|use_sft|model_name|load_parameters_path)[ ]*:", re.MULTILINE)
_LINE = re.compile(r"^\s*(?:\$ )?(?:export|xpk|gcluster|python3?|#!) ?", re.MULTILINE)
_SHELLS = frozenset({"bash", "sh", "shell", "zsh", "console", "shell-session", "text"})
_LANGUAGE = re.compile(r"[a-z][\w-]*")
_COMMAND = re.compile(r"\s*(?:\$ )?(?:export |[A-Z_][A-Z0-9_]*=|xpk |gcluster |python3? \S*(?:xpk|maxtext|MaxText))")
"""Beginnings of the lines outside of code blocks that are read."""
_MAGIC = re.compile(r"^[ \t]*(?:!(?=\w)|%env +(?P<name>\w+)=(?P<text>.*)|%%(?:bash|sh)\b.*)", re.MULTILINE)


def shell_lines(text: str) -> str:
    """Return only the commands of a page or a notebook; any other text as it is.

    All other lines become empty, so that line numbers stay those of the page.
    """
    # Each form of a page is brought to text with commands, which one reader reads.
    text = _MAGIC.sub(_without_magic, _code_of_notebook(config_command(text) or text))
    lines = text.split("\n")
    if not any(map(_FENCE.match, lines)):
        return text
    for read_page in (_in_shell_blocks, _outside_blocks):
        commands = dict(read_page(lines))
        if any(map(_submits, commands.values())):
            return "\n".join(commands.get(number, "") for number in range(len(lines)))
    # Neither has a line to import: the message lists the commands of the whole text.
    return text


def config_command(text: str) -> str:
    """Return the SFT trainer's command for the keys of MaxText's own YAML; empty for any other text. Raises
    SpecError for a configuration that is no SFT.
    """
    if not _CONFIG.search(text) or _LINE.search(text) or not (keys := read_mapping(text)):
        return ""
    base = str(keys.pop("base_config", ""))
    if not (keys.pop("use_sft", False) is True or base.endswith("sft.yml")):
        message = "This MaxText configuration does not set use_sft: true, so it is no SFT."
        raise SpecError((error("import-trainer", "", message, "xsft trains SFT and LoRA: derive it from sft.yml."),))
    # A section of LoRA that is switched off changes nothing, and need not become overrides.
    lora = keys.get("lora")
    if isinstance(lora, dict) and not lora.get("enable_lora"):
        del keys["lora"]
    module = trainer_named(DEFAULT_TRAINER).module(releases.release(releases.versions()[-1]))
    return shlex.join(("python3", "-m", module, *config_arguments(keys)))


def _submits(line: str) -> bool:
    """Return whether the line may begin the command to import."""
    return "workload" in line or "gcluster job submit" in line or any(module in line for module in modules())


def _code_of_notebook(text: str) -> str:
    """Return the cells of code of a notebook; other text as it is."""
    if not text.lstrip().startswith("{"):
        return text
    try:
        cells = json.loads(text)["cells"]
        return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    except (ValueError, KeyError, TypeError, RecursionError):
        return text


def _without_magic(match: re.Match[str]) -> str:
    if match["name"] is None:
        return ""
    quoted = match["text"].replace("'", "'\\''")
    return f"export {match['name']}='{quoted}'"


def _outside_blocks(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Yield the commands between the blocks of a page, with the lines that continue them."""
    quotes = 0
    continued = False
    for number, line in enumerate(lines):
        if _FENCE.match(line):
            continued = False
        elif continued or _COMMAND.match(line):
            yield number, line
            quotes = (quotes if continued else 0) + line.count('"')
            continued = line.rstrip().endswith("\\") or quotes % 2 == 1


def _in_shell_blocks(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Yield (index, line without the fence's indentation); a block without a language counts as shell."""
    opened: re.Match[str] | None = None
    for number, line in enumerate(lines):
        fence = _FENCE.match(line)
        if opened is None:
            opened = fence
        # A shorter fence, or one with a language, is text of the block.
        elif fence and fence["fence"].startswith(opened["fence"]) and not fence["info"].strip():
            opened = None
        elif not (words := _LANGUAGE.findall(opened["info"].lower())) or not _SHELLS.isdisjoint(words):
            yield number, line.removeprefix(opened["indent"])
