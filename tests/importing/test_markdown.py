"""Tutorial pages pasted as Markdown, notebooks, and a trainer's command alone."""

from __future__ import annotations

import json

import pytest

from tests.importing.pastes import CURRENT, EXPORTS, LINE
from xsft.base.errors import SpecError
from xsft.importing.build import import_paste
from xsft.importing.markdown import shell_lines
from xsft.spec.explain import read_spec
from xsft.spec.yamltext import load_yaml

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
    imported = import_paste(page(MCJAX))
    assert read_spec(imported.yaml) == read_spec(import_paste(EXPORTS + MCJAX).yaml)
    assert not [d for d in imported.differences if d.what.startswith(("print", "Don"))]


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
    assert "No line that submits a run begins in line 1;" in wrong.value.problems[0].message


@pytest.mark.parametrize("info", ["", "bash", "sh", "{code-block} bash", "{.bash .copy}", "console"])
def test_shell_blocks_of_any_language_tag_are_read(info: str) -> None:
    assert "xpk workload create" in shell_lines(f"Text\n```{info}\nxpk workload create\n```\nText\n")
    assert "Text" not in shell_lines(f"Text\n```{info}\nxpk workload create\n```\nText\n")


@pytest.mark.parametrize("text", ["xpk workload create\n", "cat <<X\n```\nno\n```\nX\n"])
def test_text_without_a_page_is_unchanged(text: str) -> None:
    assert shell_lines(text) == text


def test_commands_outside_of_the_fences_are_read_if_none_is_inside() -> None:
    text = f"It's long.\n\n```\nit's an output\n```\n\n{EXPORTS}\nThen don't wait:\n\n{MCJAX}\nThat's all.\n"
    assert read_spec(import_paste(text).yaml) == read_spec(import_paste(EXPORTS + MCJAX).yaml)


def test_cells_of_a_notebook_are_read() -> None:
    cells = [
        {"cell_type": "markdown", "source": ["It's a notebook"]},
        {"cell_type": "code", "source": ["%env TRAIN_SPLIT=train_sft it's\n", "%%bash\n", *EXPORTS.splitlines(True)]},
        {"cell_type": "code", "source": "!" + MCJAX},
    ]
    imported = import_paste(json.dumps({"cells": cells}))
    assert read_spec(imported.yaml) == read_spec(import_paste(EXPORTS + MCJAX).yaml)


@pytest.mark.parametrize(("module", "env", "mode"), [
    (CURRENT, "", "mcjax"),
    ("python3 -m MaxText.sft.sft_trainer", "JAX_PLATFORMS=proxy ", "pathways"),
])  # fmt: skip
def test_a_trainers_command_alone_is_a_workload_with_holes(module: str, env: str, mode: str) -> None:
    imported = import_paste(f"{env}{module} run_name='my run' model_name=gemma2-2b steps=5 per_device_batch_size=1\n")
    document = load_yaml(imported.yaml)
    assert (document["mode"], document["train"]["steps"]) == (mode, 5)
    assert document["tpu"] == {"type": "${TPU_TYPE}"}
    assert {problem.where for problem in imported.problems if problem.id == "import-unset"} == {
        "place.cluster", "place.project", "place.zone", "tpu.type", "image.ref",
    }  # fmt: skip


def test_the_only_line_that_trains_is_chosen() -> None:
    other = "xpk workload create --cluster=c --command='python3 -m maxtext.inference.decode'\n"
    assert read_spec(import_paste(EXPORTS + other + MCJAX).yaml) == read_spec(import_paste(EXPORTS + MCJAX).yaml)


def test_a_manifest_is_not_listed_as_commands() -> None:
    with pytest.raises(SpecError) as caught:
        import_paste("apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\n")
    assert "apiVersion" not in caught.value.problems[0].message


def test_shorter_inner_fence_does_not_close_a_block() -> None:
    text = "````sh\nxpk workload create\n```\nmore\n````\nend\n"
    assert shell_lines(text) == "\nxpk workload create\n```\nmore\n\n\n"


@pytest.mark.parametrize("prose", ["Don't skip this, it's long, and you'll need:", "On your team's cluster:", "# It's"])
def test_apostrophe_in_prose_opens_no_quotation(prose: str) -> None:
    text = f"{prose}\n\n{EXPORTS}\n{prose}\n\n{MCJAX}\n{prose}\n"
    assert read_spec(import_paste(text).yaml) == read_spec(import_paste(EXPORTS + MCJAX).yaml)
