"""The two layouts of MaxText's post-training code: where the trainer, its configuration and the converters live. Pure.

source: the releases' own files; MaxText moved them between 2026-01-22 and 2026-03-06 (0.2.0).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Layout:
    name: str
    sft_module: str
    sft_config: str | None
    """Positional yml; None where the module finds its own (MaxText >= 0.2.1, configs/pyconfig.py _CONFIG_FILE_MAPPING)."""
    to_maxtext_module: str
    to_maxtext_config: str | None
    hf_access_token: str | None
    """Literal to pass so that an absent token stays absent.

    The legacy layout turns an omitted key into an empty `Bearer ` header; its pyconfig maps the word `none` to None.
    """
    lazy_load_flag: bool
    """Whether to_maxtext must be told to load lazily (default since 0.2.3)."""
    save_dtype_flag: bool
    """Whether to_maxtext knows --save_dtype; without it the eager path writes float32."""


LEGACY = Layout(
    name="legacy",
    sft_module="MaxText.sft.sft_trainer",
    sft_config="src/MaxText/configs/sft.yml",
    to_maxtext_module="MaxText.utils.ckpt_conversion.to_maxtext",
    to_maxtext_config="src/MaxText/configs/base.yml",
    hf_access_token="none",
    lazy_load_flag=True,
    save_dtype_flag=False,
)

CURRENT = Layout(
    name="current",
    sft_module="maxtext.trainers.post_train.sft.train_sft",
    sft_config=None,
    to_maxtext_module="maxtext.checkpoint_conversion.to_maxtext",
    to_maxtext_config=None,
    hf_access_token=None,
    lazy_load_flag=False,
    save_dtype_flag=True,
)


def layout_named(name: str) -> Layout:
    """`legacy` or `current` (catalog.releases.Release.layout)."""
    return LEGACY if name == "legacy" else CURRENT
