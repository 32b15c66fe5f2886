"""Records of submissions and local runs: types, JSON, removal of secrets. Pure; `record_files` stores them.
docs/reference/records.md has the format.
"""

LOCAL_RECORD = "run.json"

CONVERSION_KEY, EVALUATION_KEY, EXPORT_KEY = "conversion", "evaluation", "export"
"""Keys under `spec` of the record of a run on this machine that trains nothing; a training's record has none."""

FOLDER = "xsft"
"""Folder of xsft's own files in a run's folder."""


def records_folder(output: str, run_name: str) -> str:
    return f"{output.rstrip('/')}/{run_name}/{FOLDER}"


def attempt_stem(output: str, run_name: str, number: int) -> str:
    """Return the path of an attempt's record, without its end: `.json`, or `.<outcome>.json` for what was added."""
    return f"{records_folder(output, run_name)}/attempt-{number}"
