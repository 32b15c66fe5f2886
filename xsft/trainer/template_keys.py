"""A template as keys of MaxText's input pipeline. Pure."""

from __future__ import annotations

from xsft.spec.base import Value
from xsft.spec.template import Template

QUESTION_FORMATTER = "maxtext.input_pipeline.instruction_data_processing.math_qa_formatting"
"""Function of MaxText that puts texts around questions and answers."""

QUESTION_TEXTS = "formatting_func_kwargs.template_config"
"""Key of those texts: one key each, nested as MaxText's command line nests `lora.lora_rank`."""


def template_keys(template: Template) -> dict[str, Value]:
    """Return the template's keys by content, not by path: MaxText looks for a path in its own package, and trains
    without a file it does not find.

    source: maxtext@0.2.5 input_pipeline/instruction_data_processing.py load_chat_template_from_file.
    """
    if not template.questions:
        return {"chat_template": template.jinja}
    texts = {f"{QUESTION_TEXTS}.{key}": text for key, text in template.questions.items()}
    return {"chat_template": template.jinja, "formatting_func_path": QUESTION_FORMATTER, **texts}
