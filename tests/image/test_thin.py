"""Files that the base image already holds are left out of the build context, and no others."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.image.materials import file, recipe
from tests.replacing import replace
from xsft.image.model import BuildStep, ContextFile
from xsft.image.thin import left_out, list_installed_files, step_without_files

CONTENT = st.sampled_from([b"1", b"2"])
TREE = st.dictionaries(st.sampled_from(["__init__.py", "a.py", "sub/b.py"]), CONTENT)


def step(tree: dict[str, bytes]) -> BuildStep:
    laid = tuple(file(f"maxtext/maxtext/{path}", content) for path, content in tree.items())
    return replace(recipe().code, files=(*recipe().code.files, *laid))


@given(TREE, TREE)
def test_sent_and_installed_files_make_the_whole_tree(tree: dict[str, bytes], installed: dict[str, bytes]) -> None:
    made = step(tree)
    known = {path: file(path, content).sha256 for path, content in installed.items()}
    gone = left_out(made, "maxtext", known)
    sent = step_without_files(made, gone, instead=ContextFile(path="maxtext/as-installed.txt", kind="file"))
    listed = [line.partition(" ")[2] for line in list_installed_files(gone, "maxtext").splitlines()]
    rest = {f.path.removeprefix("maxtext/maxtext/") for f in sent.files if f.path.startswith("maxtext/maxtext/")}
    assert rest | set(listed) == set(tree)
    assert rest & set(listed) == set()
    assert all(tree[path] == installed[path] for path in listed)
    assert ("__init__.py" in tree) == ("__init__.py" in rest)
    assert {f.path for f in made.files} - {f.path for f in sent.files} == {f.path for f in gone}


def test_only_the_tree_of_the_package_is_thinned() -> None:
    known = {f.path: f.sha256 for f in recipe().code.files}
    assert left_out(step({}), "maxtext", known) == ()
