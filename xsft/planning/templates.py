"""The template file of a workload, read once together with the workload: what is planned is what is submitted."""

from __future__ import annotations

from pathlib import Path

from xsft.base.errors import SpecError
from xsft.base.problems import error
from xsft.machine.files import ContentKind, read_content
from xsft.planning.gather import workload_folder
from xsft.spec.facts import TemplateFacts
from xsft.spec.model import WorkloadSpec
from xsft.spec.template import SUFFIXES, WHERE, template_name_problem

MAX_TEMPLATE_BYTES = 64 * 1024
"""Chat templates on the hub take up to 20 kB; a container's command holds 120,000 bytes (launchers.encoding)."""
TEMPLATE = ContentKind(
    noun="template",
    max_bytes=MAX_TEMPLATE_BYTES,
    suffixes=SUFFIXES,
    where="Check the path; it starts from the workload's folder.",
    make="Write the template, or remove data.chat_template.",
)


def template_facts(spec: WorkloadSpec, *, file: str | Path) -> TemplateFacts | None:
    """Return the file that `data.chat_template` names, relative to the folder of the workload `file`; None if it names
    none.
    """
    name = spec.data.chat_template
    if name is None:
        return None
    if refused := template_name_problem(name):
        return TemplateFacts(problem=refused)
    try:
        return TemplateFacts(text=read_content(workload_folder(file) / name, TEMPLATE))
    except SpecError as unread:
        (found,) = unread.problems
        return TemplateFacts(problem=error(found.id, WHERE, found.message, found.fix))
