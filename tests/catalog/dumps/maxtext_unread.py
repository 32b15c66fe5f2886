"""Run by MaxText's own Python: its keys that no code reads which the SFT trainer can reach, as
xsft/catalog/unread_keys.txt has them.

A function counts as reached if its name stands in another that is reached, whatever it belongs to: too many count, so
no key that is read is listed.
"""

from __future__ import annotations

import ast
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

SFT = "trainers/post_train/sft/train_sft.py"
LOOPS = {"train", "train_loop", "train_step", "eval_step", "run", "main", "initialize"}
"""Of pre-training, of which SFT takes the loss function only."""
ROOT, TUNIX = (Path(next(iter(find_spec(name).submodule_search_locations))) for name in ("maxtext", "tunix"))  # type: ignore[union-attr,arg-type]


def words(tree: ast.AST) -> set[str]:
    """Names in the code, and words in its texts: keys are also read by getattr."""
    names = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.keyword(arg=str(name)):
                names.add(name)
            case ast.Constant(value=str(text)) if len(text) < 80:
                names.update(re.findall(r"\w+", text))
            case ast.alias(name=name):
                names.add(name.rpartition(".")[2])
            case _:
                pass
    return names


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))


def modules() -> dict[str, ast.Module]:
    """Modules that the trainer imports, and what these import."""
    trees: dict[str, ast.Module] = {}
    waiting = [SFT]
    while waiting:
        file = waiting.pop()
        path = ROOT / file
        if file in trees or not path.is_file():
            continue
        trees[file] = ast.parse(path.read_text(encoding="utf-8"))
        for name in imported(trees[file]):
            if name.startswith("maxtext."):
                stem = name.removeprefix("maxtext.").replace(".", "/")
                waiting += [f"{stem}.py", f"{stem}/__init__.py"]
    return trees


def unread(keys: set[str]) -> list[str]:
    functions: dict[str, list[set[str]]] = defaultdict(list)
    waiting: set[str] = set()
    for file, tree in modules().items():
        skipped = LOOPS if file == "trainers/pre_train/train.py" else set()
        settings = file.startswith("configs/")
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name not in skipped:
                if settings:
                    waiting |= words(node)
                functions[node.name].append(words(node))
            elif isinstance(node, ast.ClassDef):
                parts = [part for part in node.body if not isinstance(part, ast.FunctionDef) or part.name[:2] == "__"]
                functions[node.name] += [words(part) for part in parts if not settings]
        outside = [
            node
            for node in tree.body
            if not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom)
        ]
        waiting |= {word for node in outside for word in words(node) if not settings}
    waiting |= words(ast.parse((ROOT / SFT).read_text(encoding="utf-8")))
    waiting |= {
        word for file in (TUNIX / "sft").glob("*.py") for word in words(ast.parse(file.read_text(encoding="utf-8")))
    }
    waiting |= set(re.findall(r"\$\{(\w+)\}", (ROOT / "configs" / "base.yml").read_text(encoding="utf-8")))
    reached: set[str] = set()
    while waiting:
        name = waiting.pop()
        reached.add(name)
        waiting |= {word for found in functions.get(name, ()) for word in found if word not in reached}
    return sorted(keys - reached)


if __name__ == "__main__":
    settings = ast.parse((ROOT / "configs" / "types.py").read_text(encoding="utf-8"))
    keys = {
        part.target.id
        for node in settings.body
        if isinstance(node, ast.ClassDef)
        for part in node.body
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
    }
    print(json.dumps(unread(keys)))
