"""Write what docs/reference/ derives from the code, and the schemas of the JSON documents; `--check` compares instead.

Run by `make docs` and `make check`. Each page says where its content is changed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from xsft.base import errors
from xsft.catalog import models
from xsft.catalog.data import toml
from xsft.catalog.fit import row_keys
from xsft.catalog.tokenizers import SpecialTokens, row_tokens, special_tokens
from xsft.checks.special_tokens import masked_tokens, trained_tokens
from xsft.runs.cause_rule import REASONS
from xsft.runs.causes import rule_table
from xsft.spec import reference
from xsft.spec.reference import workload_page
from xsft.verbs.cli import VERBS, actions_of, parser
from xsft.verbs.documents import DOCUMENTS, published_schema

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "docs" / "reference"
FAILURES = ROOT / "docs" / "failures.toml"
CHECKS = ROOT / "docs" / "checks.toml"
BOX_WIDTH = 118
BOX_HEIGHT = 34
GAP = 12
"""Sizes in the picture of the rooms, in pixels."""
BOX = {"width": str(BOX_WIDTH), "height": str(BOX_HEIGHT), "rx": "5", "fill": "#eef3fb", "stroke": "#4a6fa5"}
TEXT = {"font-family": "sans-serif", "font-size": "14", "text-anchor": "middle"}


def main(arguments: list[str]) -> int:
    stale = {file: text for file, text in pages().items() if not file.exists() or file.read_text("utf-8") != text}
    if "--check" in arguments:
        for file in stale:
            sys.stderr.write(f"{file.relative_to(ROOT)} is not what the code says; run `make docs`\n")
        return 1 if stale else 0
    for file, text in stale.items():
        file.write_text(text, encoding="utf-8")
    return 0


def pages() -> dict[Path, str]:
    schemas = {name: json.dumps(published_schema(name), indent=1, ensure_ascii=False) for name in DOCUMENTS}
    return {
        REFERENCE / "workload.md": workload_page(),
        REFERENCE / "workload.schema.json": reference.schema_text(),
        REFERENCE / "cli.md": cli_page(),
        REFERENCE / "exit-status.md": exit_status_page(),
        REFERENCE / "machine-interface.md": machine_interface_page(),
        REFERENCE / "tokenizers.md": tokenizers_page(),
        REFERENCE / "fit.md": fit_page(),
        FAILURES.with_suffix(".md"): failures_page(),
        CHECKS.with_suffix(".md"): checks_page(),
        REFERENCE / "reasons.md": reasons_page(),
        REFERENCE / "causes.md": causes_page(),
        REFERENCE / "rooms.md": rooms_page(),
        ROOT / "docs" / "pictures" / "rooms.svg": rooms_picture(),
        **{ROOT / "xsft" / "schemas" / f"{name}.json": f"{text}\n" for name, text in schemas.items()},
    }


def storeys() -> list[list[str]]:
    """Return the rooms of each storey, the highest first, by the contract of import-linter in pyproject.toml."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    return [[room.strip("() ") for room in row.split("|")] for row in layers]


def rooms_page() -> str:
    return table_page(
        "Rooms",
        source="pyproject.toml",
        about="[Architecture](../architecture.md) has their picture.",
        columns="storey | room | what it holds",
        rows=room_rows(),
    )


def room_rows() -> Iterator[str]:
    rows = storeys()
    for number, rooms in zip(range(len(rows), 0, -1), rows, strict=True):
        for room in rooms:
            summary = (import_module(f"xsft.{room}").__doc__ or "").partition("\n")[0]
            yield table_row(str(number), f"[`{room}`](../../xsft/{room})", summary)


def rooms_picture() -> str:
    """Return an SVG with a row of boxes for each storey: a room may import every room below its own row."""
    rows = storeys()
    width = max(map(len, rows)) * (BOX_WIDTH + GAP) + GAP
    height = len(rows) * (BOX_HEIGHT + GAP) + GAP
    svg = ET.Element("svg", TEXT, xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {width} {height}")
    for level, rooms in enumerate(rows):
        top = GAP + level * (BOX_HEIGHT + GAP)
        left = (width - len(rooms) * (BOX_WIDTH + GAP) + GAP) // 2
        for position, room in enumerate(rooms):
            x = left + position * (BOX_WIDTH + GAP)
            ET.SubElement(svg, "rect", BOX, x=str(x), y=str(top))
            ET.SubElement(svg, "text", x=str(x + BOX_WIDTH // 2), y=str(top + 22)).text = room
    return ET.tostring(svg, encoding="unicode") + "\n"


CLI_HEAD = """\
# Command line

Generated from the parser by `make docs`; do not edit. `python -m xsft` is the same as `xsft`. Options cannot be
abbreviated.

Results (plans, tables, one JSON document) are printed on stdout; progress and messages on stderr. Every verb ends with
a documented [exit status](exit-status.md). The page [machine interface](machine-interface.md) describes the `--json`
documents. Colours and animations appear only on terminals, and not if `NO_COLOR` is set.
"""


def cli_page() -> str:
    lines = [CLI_HEAD]
    parsers = subparsers()
    for verb, about in VERBS.items():
        sub = parsers[verb]
        lines += [f"## xsft {verb}", "", f"{about[0].upper()}{about[1:]}.", ""]
        actions = actions_of(sub)
        tables = {name: tuple(argument_rows(action)) for name, action in actions.items()}
        rows = next(iter(tables.values()), tuple(argument_rows(sub)))
        shared = tuple(row for row in rows if all(row in table for table in tables.values()))
        lines += ["| argument | |", "|---|---|", *shared, ""]
        for name, action in actions.items():
            lines += [f"### xsft {verb} {name}", "", f"{action.description}", ""]
            own = [row for row in tables[name] if row not in shared]
            lines += ["| argument | |", "|---|---|", *own, ""] if own else []
            lines += [str(action.epilog), ""] if action.epilog else []
        lines += [str(sub.epilog), ""] if sub.epilog else []
    return "\n".join(lines).rstrip() + "\n"


FIT_HEAD = """\
# Compiled runs

Generated from [xsft/catalog/fit.toml](../../xsft/catalog/fit.toml) by `make docs`; do not edit. `make fit` compiles all
rows and all cluster workloads again, and compares the results. [Does it fit?](../guides/fit.md) explains the verdicts.

The rows are for MaxText {maxtext}. `peak` and `sum` are GiB per chip; on v6e the compiler allows {limit}. For `no`, the
peak is the memory that the step would need. A row applies to a run with exactly these keys, and MaxText's defaults for
all others. `CPU-s` is the time to compile on two cores, if it was recorded.

| model | TPU | keys | verdict | peak | sum | CPU-s |
|---|---|---|---|---|---|---|
"""


def fit_page() -> str:
    known = toml("fit.toml")
    head = FIT_HEAD.format(maxtext=known["maxtext"], limit=known["limit_gib"])
    return head + "".join(f"| {' | '.join(_fit_cells(row))} |\n" for row in known["rows"])


def _fit_cells(row: Mapping[str, Any]) -> Iterator[str]:
    keys = {key: value for key, value in row_keys(row).items() if key != "lora.lora_module_path"}
    yield f"`{row['model']}`"
    yield f"{row['tpu']} × {row['slices']}"
    yield " ".join(f"{key}={value}" for key, value in keys.items())
    yield row["verdict"] + (" (pre-training step)" if row.get("step") == "pretrain" else "")
    yield from (f"{row[name]:.2f}" if name in row else "" for name in ("peak", "sum"))
    yield str(row.get("cpu_s", ""))


def subparsers() -> dict[str, argparse.ArgumentParser]:
    top = parser()
    (verbs,) = (action for action in top._actions if isinstance(action, argparse._SubParsersAction))
    return dict(verbs.choices)


def argument_rows(sub: argparse.ArgumentParser) -> Iterator[str]:
    for action in sub._actions:
        if isinstance(action, argparse._HelpAction) or action.help == argparse.SUPPRESS:
            continue
        about = (action.help or "").replace("%(default)s", str(action.default))
        yield f"| `{cell(argument_name(action))}` | {cell(about)} |"


def cell(text: str) -> str:
    """Return the text for a cell of a table, where `|` ends the cell, also in code."""
    return text.replace("|", "\\|")


def argument_name(action: argparse.Action) -> str:
    value = action.metavar or ("{" + ",".join(map(str, action.choices)) + "}" if action.choices else action.dest)
    if not action.option_strings:
        return {"+": f"{value}…", "*": f"[{value}…]", "?": f"[{value}]"}.get(str(action.nargs), str(value))
    name = ", ".join(action.option_strings)
    return name if action.nargs == 0 else f"{name} {value}"


EXIT_HEAD = """\
# Exit status

Generated from [xsft/base/errors.py](../../xsft/base/errors.py) by `make docs`; do not edit.

| status | class | meaning |
|---|---|---|
| 0 | | ok; warnings do not change it |
| 1 | `XsftError` and any other exception | a bug in xsft |
"""
EXIT_TAIL = """\
| 130 | | interrupted by the user (Ctrl-C) |
| 141 | | broken pipe: the reader has closed it (`xsft plan … \\| head`) |

`xsft diff` ends with 0 even if the workloads differ; see `same` in its `--json` document.
"""


def exit_status_page() -> str:
    rows = [f"| {cls.exit_status} | `{cls.__name__}` | {meaning_of(cls)} |\n" for cls in error_classes()]
    return EXIT_HEAD + "".join(rows) + EXIT_TAIL


def error_classes() -> list[type[errors.XsftError]]:
    """Return every class but the root."""
    classes = (cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, errors.XsftError))
    return [cls for cls in classes if cls is not errors.XsftError]


def meaning_of(cls: type[errors.XsftError]) -> str:
    """Return the class's line in the tree of the module's docstring."""
    line = next(line for line in (errors.__doc__ or "").splitlines() if f" {cls.__name__} " in line)
    return line.partition(f"{cls.__name__} ")[2].strip().partition(" ")[2].strip()


TOKENIZERS_HEAD = """\
# Tokenizers

Generated from [xsft/catalog/tokenizers.toml](../../xsft/catalog/tokenizers.toml), which has the sources, by
`make docs`; do not edit. [Chat format](../guides/chat-format.md) explains the consequences for a run.

- trained: special tokens after an answer that MaxText trains
- masked: special tokens that MaxText never trains
- repeated: text that the chat template writes before every round of a conversation in training, but only once at
  inference

## Models, with the tokenizer that MaxText selects

"""


def tokenizers_page() -> str:
    rows = toml("tokenizers.toml")["special_tokens"]
    by_model = (table_row(f"`{name}`", *model_cells(name)) for name in models.names())
    by_tokenizer = (table_row(code(row["repos"]), *token_cells(row_tokens(row))) for row in rows)
    columns = "tokenizer | trained | masked | repeated"
    tables = table(f"model | {columns}", by_model), table(columns, by_tokenizer)
    return TOKENIZERS_HEAD + "\n## Known tokenizers\n\n".join(tables)


def table(columns: str, rows: Iterable[str]) -> str:
    """Return a table; `columns` has their titles with ` | ` between them."""
    return f"| {columns} |\n{'|---' * (columns.count('|') + 1)}|\n{''.join(rows)}"


def table_row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |\n"


def model_cells(name: str) -> tuple[str, ...]:
    repo = models.model(name).hf_id
    return (f"`{repo}`" if repo else "the workload's", *token_cells(special_tokens(repo) if repo else None))


def token_cells(tokens: SpecialTokens | None) -> tuple[str, str, str]:
    if tokens is None:
        return "unknown", "unknown", "unknown"
    kept = "unknown" if tokens.ends is None else code(trained_tokens(tokens)) or "**none**"
    lost = ", ".join(f"{code([token])} ({why.partition(',')[0]})" for token, why in masked_tokens(tokens).items())
    return (
        kept,
        lost or "none",
        "unknown" if tokens.repeats is None else cell(tokens.repeats).replace("<", "&lt;") or "nothing",
    )


def code(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words).replace("|", "\\|")


def table_page(title: str, *, source: str, about: str, columns: str, rows: Iterable[str]) -> str:
    origin = f"Generated from [{source}](../../{source}) by `make docs`; do not edit."
    return f"# {title}\n\n{origin} {about}\n\n{table(columns, rows)}"


def reasons_page() -> str:
    rows = (table_row(anchored(reason.slug), code(reason.states), reason.meaning) for reason in REASONS)
    return table_page(
        "Reasons of states",
        source="xsft/runs/reasons.toml",
        about="[States](../states.md) explains the states. New reasons may be added; these keep their meaning.",
        columns="reason | states | meaning",
        rows=rows,
    )


def causes_page() -> str:
    return table_page(
        "Causes",
        source="xsft/runs/rules.toml",
        about="[Why](../why.md) explains how the cause is found.",
        columns="id | group | cause",
        rows=cause_rows(),
    )


def cause_rows() -> Iterator[str]:
    sections = {name: group["section"] for name, group in rule_table()["group"].items()}
    for rule in (*rule_table()["rule"], *rule_table()["also"]):
        if "about" in rule:
            yield table_row(anchored(rule["id"]), rule.get("section") or sections[rule["group"]], rule["about"])


def anchored(slug: str) -> str:
    """Return the word as a target of links."""
    return f'<a id="{slug}"></a>`{slug}`'


CHECKS_HEAD = """\
# Checks

Generated from [checks.toml](checks.toml) by `make docs`; do not edit.

xsft reports mistakes before a slice is used, as *problems*: an `id` that never changes, a severity, the key path in the
workload, a message and the next step. `xsft plan`, `xsft check` and `xsft submit` find the same problems. `plan` prints
all of them. `check` and `submit` print errors and warnings; `check --notes` also prints notes.

- **error**: the run would fail, lose something, or silently do something else. Nothing is submitted. An error can be
  accepted only if its row below says so.
- **warning**: damage is likely. To accept it, write `checks: {ID: "reason"}` into the workload; the warning becomes a
  note with your reason.
- **note**: information.

A check reports a problem only if it is certain. It reports nothing about what it does not know, such as a model outside
the catalogue.

## Problems by id
"""


def checks_page() -> str:
    return CHECKS_HEAD + "".join(map(ids_section, tomllib.loads(CHECKS.read_text("utf-8"))["section"]))


def ids_section(section: Mapping[str, Any]) -> str:
    """Return a table with a link target for each id."""
    rows = (table_row(anchored(slug), kind, cell(text)) for slug, (kind, text) in section["ids"].items())
    return f"\n### {section['title']}\n\n{section.get('about', '')}{table(section['columns'], rows)}"


FAILURES_HEAD = """\
# Failures of others

Generated from [failures.toml](failures.toml) by `make docs`; do not edit.

This page lists mistakes that users of MaxText, xpk, Tunix, JobSet, Kueue, Orbax, datasets, TRL and axolotl reported,
most of them after a slice was used. For each it names the [problem](checks.md) that xsft reports before a submission. A
test makes each mistake ([tests/failures/](../tests/failures/)). `missed`: xsft reports nothing before the run starts.
`after start`: only the started run can show the failure.

"""


def failures_page() -> str:
    rows = [(kind, row) for kind, named in tomllib.loads(FAILURES.read_text("utf-8")).items() for row in named.values()]
    reported = sum("id" in row for _, row in rows)
    blind = [row["blind"] for _, row in rows if "blind" in row]
    head = (
        f"{FAILURES_HEAD}xsft reports {reported} of {len(rows)} before a submission. {len(blind)} of them were added to"
        f" the list before they were tried with xsft; it reported {blind.count('reported')} of these at that time.\n\n"
    )
    cells = (table_row(kind, f"[{row['what']}]({row['link']})", *outcome_cells(row)) for kind, row in rows)
    return head + table("class | failure | reported as | data read | cost", cells)


def outcome_cells(row: Mapping[str, str]) -> tuple[str, str, str]:
    if "id" in row:
        return f"[`{row['id']}`](checks.md#{row['id']})", row["found"], row["cost"]
    return row["outcome"], "", ""


INTERFACE_HEAD = """\
# Machine interface

Generated from [xsft/verbs/documents.py](../../xsft/verbs/documents.py) by `make docs`; do not edit.

With `--json`, a verb prints exactly one JSON document on stdout. Everything else goes to stderr.

**Versions.** `schema` contains the verb and a version. New fields may be added within a version, so ignore fields that
you do not know. If a field is removed or changes its meaning, the version increases. The `id` of a problem is stable.

**Schemas.** The JSON Schema of each document states every field with its type, unit and meaning. The schemas are also
in the installed package.

**Errors.** If a verb fails, its document contains `problems` and `exit_status` instead (`error`, below). The
process ends with that [exit status](exit-status.md).

```sh
xsft check workloads/qwen3_gsm8k.yaml --json
```

```json
{"schema": "xsft.check/1", "ok": false, "exit_status": 2, "problems": [
  {"file": "workloads/qwen3_gsm8k.yaml", "id": "unknown-key", "severity": "error", "where": "train.stpes",
   "message": "…", "fix": "…"}]}
```

In Python, the same values are typed: [Python](../api.md).
"""


def machine_interface_page() -> str:
    described = {name: " ".join(published_schema(name)["description"].split()) for name in DOCUMENTS}
    links = (table_row(f"[`{name}`](../../xsft/schemas/{name}.json)", cell(text)) for name, text in described.items())
    return f"{INTERFACE_HEAD}\n{table('schema | printed by', links)}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
