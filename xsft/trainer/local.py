"""The environment of a trainer on this machine. Pure.

The rest (PATH, a private HF_HOME and TMPDIR) depends on the machine and is added by `launch.local_machine`.
"""

from __future__ import annotations

from xsft.spec.paths import FILE_FORMATS, is_local
from xsft.spec.resolve import Run

PASSED_ON = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "LD_LIBRARY_PATH")
"""Variables of the user's environment that MaxText gets. Never HF_TOKEN: MaxText writes it into TensorBoard's files."""
OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}


def local_env(run: Run) -> dict[str, str]:
    """Return the variables for JAX on the CPU, and for no network if the run reads only files."""
    return {"JAX_PLATFORMS": "cpu", **(OFFLINE if reads_only_files(run) else {})}


def reads_only_files(run: Run) -> bool:
    """Return whether data, tokenizer and checkpoint are all paths of this machine."""
    data, model = run.spec.data, run.spec.model
    rows_are_files = is_local(data.hf_path) or (
        data.hf_path in FILE_FORMATS and is_local(run.located(data.hf_train_files or ""))
    )
    return (
        rows_are_files
        and is_local(model.tokenizer)
        and model.hf is None
        and not (run.checkpoint or "").startswith("gs://")
    )
