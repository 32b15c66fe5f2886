"""Figures of the house, counted in its sources, and their bounds in tests/house.toml, which only fall.

    python -m tests.tools.house                      # figures beside their bounds, rooms, circles
    python -m tests.tools.house --write              # lower each bound to today's figure
    python -m tests.tools.house --write --why TEXT   # also raise what is exceeded, and note the reason

All Python that ships or runs counts: xsft/, images/ and docs/*.py, without docstrings. A room is a package or a module
directly under xsft/. An import counts wherever it stands, in a function and under TYPE_CHECKING too. A storey stands
above everything that it imports.
"""

from __future__ import annotations

import ast
import json
import re
import sys
import tempfile
import tomllib
from argparse import ArgumentParser
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from graphlib import TopologicalSorter
from io import StringIO
from math import ceil
from pathlib import Path
from typing import Any, TypeVar

from tests.tools.calls import modules_entered, three_runs
from xsft.verbs.cli import main as xsft

ROOT = Path(__file__).parents[2]
FILE = ROOT / "tests" / "house.toml"
Graph = Mapping[str, AbstractSet[str]]
Node = TypeVar("Node", bound=ast.AST)
Figures = Mapping[str, Mapping[str, float]]
"""Section -> figure -> number; in `rooms` the statements of each, in `verbs` the modules that each enters."""

VAGUE = re.compile(
    "one|found|made|told|said|wanted|given|held|known|at|there|asked|lost|left|kept|taken|sent|rest|whole|least|most|near|"
    "own|seen"
)
"""Names of variables and arguments that do not say what they hold."""
EMPTY = re.compile("items?|value|result|data|entry|obj|thing|info|it|x")
"""Names that say little. They must not take the place of the others."""
SHORT = 60
"""Lines of a module that is too small to be one."""
STEPS = {"rooms": 50, "tests": 100, "house: expression nodes": 50}
"""Bounds of these sections, and of this figure, are multiples, so that few changes touch their lines, and because
Python 3.11 parses a few nodes fewer than later ones.
"""
NO_STOREYS = 99
"""While a circle is there."""
VERBS = {
    "status": ("status", "--context", "stand-in"),
    "check --offline": ("check", "--offline", str(ROOT / "workloads" / "deepseek_ultrachat.yaml")),
}
COMPREHENSIONS: tuple[type[ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp], ...] = (
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
)


@dataclass(frozen=True, kw_only=True)
class Module:
    """What is counted of one file."""

    name: str
    room: str
    lines: int
    comments: int
    density: Counter[str]
    """What makes it long and hard to read."""
    functions: tuple[int, ...]
    """Lines of each."""
    mentioned: frozenset[tuple[str, str]]
    """Its imports: a module, and the member that is taken from it or nothing."""

    def imports(self, names: AbstractSet[str]) -> set[str]:
        """Return those of the modules `names` that it imports."""
        members = {(module, f"{module}.{member}") for module, member in self.mentioned}
        targets = {member if member in names else module for module, member in members}
        return (targets & names) - {self.name}


def read_module(path: Path, *, root: Path) -> Module:
    name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
    text = path.read_text(encoding="utf-8")
    syntax = Syntax(text)
    plain = {(alias.name, "") for node in syntax.every(ast.Import) for alias in node.names}
    members = {(str(node.module), alias.name) for node in syntax.every(ast.ImportFrom) for alias in node.names}
    return Module(
        name=name,
        room=name.split(".")[1] if "." in name else "__init__",
        lines=text.count("\n"),
        comments=sum(line.lstrip().startswith("#") for line in text.splitlines()),
        density=syntax.density(),
        functions=tuple((node.end_lineno or 0) - node.lineno + 1 for node in syntax.every(ast.FunctionDef)),
        mentioned=frozenset(plain | members),
    )


class Syntax:
    """The nodes of a text, by kind."""

    def __init__(self, text: str) -> None:
        self.nodes: dict[type[ast.AST], list[Any]] = defaultdict(list)
        for node in ast.walk(ast.parse(text)):
            self.nodes[type(node)].append(node)

    def every(self, kind: type[Node]) -> list[Node]:
        return [node for below, nodes in self.nodes.items() if issubclass(below, kind) for node in nodes]

    def names(self) -> list[str]:
        """Return the variables and arguments that are bound. Fields of classes are none of them."""
        bodies = [node.body for node in self.every(ast.ClassDef)]
        fields = {id(field.target) for body in bodies for field in body if isinstance(field, ast.AnnAssign)}
        bound = [name for name in self.every(ast.Name) if isinstance(name.ctx, ast.Store) and id(name) not in fields]
        return [name.id for name in bound] + [argument.arg for argument in self.every(ast.arg)]

    def density(self) -> Counter[str]:
        names = self.names()
        docstrings = [node for node in self.every(ast.Expr) if isinstance(node.value, ast.Constant)]
        conditional = self.every(ast.IfExp)
        assigned = [(node.targets[0], node.value) for node in self.every(ast.Assign)]
        loops = [node.generators for kind in COMPREHENSIONS for node in self.every(kind)]
        return Counter(
            {
                "statements": len(self.every(ast.stmt)) - len(docstrings),
                "expression nodes": len(self.every(ast.expr)),
                "vague names": sum(bool(VAGUE.fullmatch(name)) for name in names),
                "empty names": sum(bool(EMPTY.fullmatch(name)) for name in names),
                "conditional expressions": len(conditional),
                "nested conditional expressions": sum(
                    ast.IfExp in (type(node.body), type(node.orelse)) for node in conditional
                ),
                "tuple assignments": sum(all(isinstance(side, ast.Tuple) for side in pair) for pair in assigned),
                "filtered comprehensions of two loops": sum(
                    len(pair) > 1 and any(loop.ifs for loop in pair) for pair in loops
                ),
            }
        )


def figures(root: Path = ROOT) -> Figures:
    """Count xsft/ and what ships beside it."""
    modules = read_modules(root, (root / "xsft").rglob("*.py"))
    beside = read_modules(root, [*(root / "images").rglob("*.py"), *(root / "docs").glob("*.py")])
    total = Counter[str]()
    for module in (*modules, *beside):
        total.update(module.density)
    imports, rooms = import_graphs(modules)
    circles = circles_in(rooms)
    house = {
        "modules": len(modules),
        f"modules of at most {SHORT} lines": sum(m.lines <= SHORT and m.density["statements"] > 0 for m in modules),
        **total,
        "expression nodes a statement": round(total["expression nodes"] / total["statements"], 2),
        "statements for each comment line": ceil(total["statements"] / sum(module.comments for module in modules)),
        "longest module, lines": max(module.lines for module in modules),
        "longest function, lines": max(lines for module in modules for lines in module.functions),
        "rooms": len(rooms),
        "storeys": NO_STOREYS if circles else storeys_of(rooms),
        "circles of rooms": len(circles),
        "circles of modules": len(circles_in(imports)),
    }
    return {"house": house, "rooms": {room: statements_in(room, modules) for room in sorted(rooms)}}


def figures_of_tests(root: Path = ROOT) -> Figures:
    """Count tests/: takes as long as all the others."""
    modules = read_modules(root, (root / "tests").rglob("*.py"))
    return {
        "tests": {
            "lines": sum(module.lines for module in modules),
            "vague names": sum(module.density["vague names"] for module in modules),
        }
    }


def figures_of_verbs() -> Figures:
    """Count the modules that each of VERBS enters, on the stand-in for a cluster."""
    entered = {}
    for name, arguments in VERBS.items():
        with ExitStack() as stack:
            stack.enter_context(three_runs(Path(stack.enter_context(tempfile.TemporaryDirectory()))))
            stack.enter_context(redirect_stdout(StringIO()))
            stack.enter_context(redirect_stderr(StringIO()))
            entered[name] = len(modules_entered(partial(xsft, arguments)))
    return {"verbs": entered}


def read_modules(root: Path, paths: Iterable[Path]) -> list[Module]:
    return [read_module(path, root=root) for path in sorted(paths)]


def import_graphs(modules: Iterable[Module]) -> tuple[Graph, Graph]:
    """Return what each module imports, and what each room imports from others."""
    room_of = {module.name: module.room for module in modules}
    imports = {module.name: module.imports(room_of.keys()) for module in modules}
    rooms: dict[str, set[str]] = {room: set() for room in room_of.values() if not room.startswith("__")}
    for name, targets in imports.items():
        if room_of[name] in rooms:
            rooms[room_of[name]] |= {room_of[target] for target in targets} & rooms.keys() - {room_of[name]}
    return imports, rooms


def statements_in(room: str, modules: Iterable[Module]) -> int:
    return sum(module.density["statements"] for module in modules if module.room == room)


def circles_in(graph: Graph) -> list[list[str]]:
    """Return the sets of nodes that reach each other."""
    reached = {node: reached_from(node, graph) for node in tangled(graph)}
    circles = {tuple(sorted(other for other in reached[node] if node in reached.get(other, ()))) for node in reached}
    return [list(circle) for circle in sorted(circles) if circle]


def tangled(graph: Graph) -> set[str]:
    """Return the nodes that are left when those that import, or are imported by, none of the others are taken away."""
    inside = set(graph)
    while True:
        imported = {target for node in inside for target in graph[node]}
        fewer = {node for node in inside & imported if graph[node] & inside}
        if fewer == inside:
            return inside
        inside = fewer


def reached_from(start: str, graph: Graph) -> set[str]:
    reached: set[str] = set()
    waiting = set(graph[start])
    while waiting:
        node = waiting.pop()
        reached.add(node)
        waiting |= graph[node] - reached
    return reached


def storeys_of(rooms: Graph) -> int:
    """Return the length of the longest chain of rooms, which are in no circle."""
    heights: dict[str, int] = {}
    for room in TopologicalSorter(rooms).static_order():
        heights[room] = 1 + max((heights[below] for below in rooms[room]), default=0)
    return max(heights.values())


def exceeded(figures: Figures, bounds: Figures) -> dict[tuple[str, str], float]:
    """Return the figures above their bounds, by section and name. A new room has no bound before the next `--write`."""
    return {
        (section, name): figure
        for section, counted in figures.items()
        for name, figure in counted.items()
        if figure > bounds.get(section, {}).get(name, figure)
    }


def unexplained_rises(bounds: Figures, earlier: Figures, rises: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the bounds that are above earlier ones without a reason."""
    highest = {(rise["section"], rise["name"]): rise["to"] for rise in rises}
    risen = exceeded(bounds, earlier)
    return [f"{section}: {name}" for (section, name), bound in risen.items() if highest.get((section, name), 0) < bound]


def write_bounds(figures: Figures, *, why: str | None, file: Path = FILE) -> None:
    """Write the figures as bounds where they are lower, and those of new rooms; higher ones need a reason. Raises
    SystemExit for a rise without one.
    """
    written = tomllib.loads(file.read_text(encoding="utf-8"))
    rises = written.pop("rise", [])
    risen = exceeded(figures, written)
    if risen and not why:
        too_high = [
            f"{name} is {figure}, at most {written[section][name]}" for (section, name), figure in risen.items()
        ]
        raise SystemExit("\n".join((*too_high, "Lower them, or give the reason: --why TEXT")))
    rises += [{"section": s, "name": n, "to": rounded(s, n, figure), "why": why} for (s, n), figure in risen.items()]
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
    for section, counted in figures.items():
        lines += ["", f"[{section}]"]
        for name, figure in counted.items():
            bound = rounded(section, name, figure)
            if (section, name) not in risen:
                bound = min(bound, written.get(section, {}).get(name, bound))
            lines.append(f"{json.dumps(name)} = {bound}")
    for rise in rises:
        lines += ["", "[[rise]]", *(f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in rise.items())]
    file.write_text("\n".join((*lines, "")), encoding="utf-8")


def rounded(section: str, name: str, figure: float) -> float:
    step = STEPS.get(f"{section}: {name}", STEPS.get(section))
    return ceil(figure / step) * step if step else figure


def report(figures: Figures, bounds: Figures) -> str:
    lines = []
    for section, counted in figures.items():
        lines += ["", section]
        lines += [f"{figure:>9} of {bounds[section].get(name, '-'):>7}  {name}" for name, figure in counted.items()]
    return "\n".join(lines)


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--why")
    arguments = parser.parse_args()
    counted = {**figures(), **figures_of_verbs(), **figures_of_tests()}
    if arguments.write:
        write_bounds(counted, why=arguments.why)
    sys.stdout.write(report(counted, tomllib.loads(FILE.read_text(encoding="utf-8"))) + "\n")


if __name__ == "__main__":
    main()
