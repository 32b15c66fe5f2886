"""FLOPs of kernels from their shapes; the shapes are those of qwen3-0.6b at 1,024 tokens."""

from __future__ import annotations

from xsft.fit.kernels import kernel_flops
from xsft.fit.program import ArrayType


def array(kind: str, *shape: int) -> ArrayType:
    return ArrayType(type=kind, shape=shape, on_chip=False)


HEADS, LENGTH, WIDTH = 16, 1024, 128
MASK = array("s8", 1, 2, 2)
QKV = (array("bf16", HEADS, LENGTH, WIDTH), array("bf16", 8, LENGTH, WIDTH), array("bf16", 8, LENGTH, WIDTH))
PRODUCT = 2 * HEADS * LENGTH * LENGTH / 2 * WIDTH
"""FLOPs of one product over the causal pairs."""


def attention(name: str, *, mask: ArrayType = MASK, text: str = "") -> float | None:
    return kernel_flops(name, operands=(mask, *QKV), text=text, routed_rows=None)


def test_splash_attention_flops_count_the_products_of_each_kernel() -> None:
    assert attention("splash_mha_fwd_segmented_residuals") == 2 * PRODUCT
    assert attention("splash_mha_dq_segmented_no_residuals") == 3 * PRODUCT
    assert attention("splash_mha_dkv_segmented_no_residuals") == 4 * PRODUCT
    fused = r"{\"use_fused_bwd_kernel\": true}"
    assert attention("splash_mha_dkv_segmented_no_residuals", text=fused) == 5 * PRODUCT


def test_local_mask_reduces_attention_flops() -> None:
    local = attention("splash_mha_fwd", mask=array("s8", 1, 8, 2))
    assert local == 2 * 2 * HEADS * LENGTH * (LENGTH / 8) * WIDTH


def test_grouped_matmul_flops_count_the_routed_rows() -> None:
    operands = (array("bf16", 4096, 512), array("bf16", 8, 512, 256))
    assert kernel_flops("gmm.3", operands=operands, text="", routed_rows=1024) == 2 * 1024 * 512 * 256
    transposed = (array("bf16", 512, 4096), array("bf16", 4096, 256))
    assert kernel_flops("tgmm", operands=transposed, text="", routed_rows=1024) == 2 * 1024 * 512 * 256


def test_flops_of_another_kernel_are_unknown() -> None:
    assert kernel_flops("ragged_paged", operands=QKV, text="", routed_rows=None) is None
    assert kernel_flops("splash_mha_fwd", operands=(), text="", routed_rows=None) is None
