"""The template file of a workload, read once together with the workload: what is planned is what is submitted."""

from __future__ import annotations

from pathlib import Path

from xsft.effects.facts.gather import workload_folder
from xsft.effects.machine.files import read_template_text
from xsft.errors import SpecError
from xsft.facts import TemplateFacts
from xsft.problems import error
from xsft.spec.model import WorkloadSpec
from xsft.spec.template import WHERE, template_name_problem


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
        return TemplateFacts(text=read_template_text(workload_folder(file) / name))
    except SpecError as unread:
        (found,) = unread.problems
        return TemplateFacts(problem=error(found.id, WHERE, found.message, found.fix))
