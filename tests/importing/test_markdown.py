"""Tutorial pages pasted as Markdown."""

from __future__ import annotations

import pytest

from tests.importing.pastes import CURRENT, EXPORTS, LINE
from xsft.base.errors import SpecError
from xsft.importing.build import import_paste
from xsft.importing.markdown import shell_lines
from xsft.spec.reader import read_spec

MCJAX = LINE % (CURRENT, "")
PATHWAYS = MCJAX.replace("workload create ", "workload create-pathways ")


def indented(text: str, by: str) -> str:
    return "".join(f"{by}{line}" for line in text.splitlines(keepends=True))


def page(*lines: str) -> str:
    """Prose with apostrophes and brackets that bash would stumble over, and blocks of other languages."""
    shown = "\n\nLike so (it's long):\n\n".join(f"~~~shell\n{line}~~~" for line in lines)
    exports = indented(f"```bash\n{EXPORTS}```", "   ")
    other = '```python\nprint("it\'s")\n```'
    return f"# On several hosts\n\n1. Don't skip this:\n\n{exports}\n\n{other}\n\n{shown}\n\nThat's all.\n"


def test_line_of_a_page_is_imported_as_if_pasted_alone() -> None:
    found = import_paste(page(MCJAX))
    assert read_spec(found.yaml) == read_spec(import_paste(EXPORTS + MCJAX).yaml)
    assert not [d for d in found.differences if d.what.startswith(("print", "Don"))]


def test_several_lines_are_refused_until_one_is_selected() -> None:
    text = page(MCJAX, PATHWAYS)
    with pytest.raises(SpecError) as caught:
        import_paste(text)
    (problem,) = caught.value.problems
    starts = [n for n, line in enumerate(text.splitlines(), 1) if line.startswith("xpk workload")]
    assert problem.id == "import-several"
    assert all(f"line {n}: " in problem.message for n in starts)
    modes = [read_spec(import_paste(text, line=n).yaml).mode for n in starts]
    assert modes == ["mcjax", "pathways"]
    with pytest.raises(SpecError) as wrong:
        import_paste(text, line=1)
    assert "No xpk line begins in line 1;" in wrong.value.problems[0].message


@pytest.mark.parametrize("info", ["", "bash", "sh", "{code-block} bash", "{.bash .copy}", "console"])
def test_shell_blocks_of_any_language_tag_are_read(info: str) -> None:
    assert "xpk workload create" in shell_lines(f"Text\n```{info}\nxpk workload create\n```\nText\n")
    assert "Text" not in shell_lines(f"Text\n```{info}\nxpk workload create\n```\nText\n")


@pytest.mark.parametrize("text", ["xpk workload create\n", "cat <<X\n```\nno\n```\nX\nxpk workload create\n"])
def test_text_without_fences_is_unchanged(text: str) -> None:
    assert shell_lines(text) == text


def test_shorter_inner_fence_does_not_close_a_block() -> None:
    text = "````sh\nxpk workload create\n```\nmore\n````\nend\n"
    assert shell_lines(text) == "\nxpk workload create\n```\nmore\n\n\n"
