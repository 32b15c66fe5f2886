"""FLOPs and bytes of small programs in the text form of libtpu 0.0.44, counted by hand."""

from __future__ import annotations

import pytest

from xsft.fit.program import read_program
from xsft.fit.work import ProgramContext, StepWork, work_of

ONE = ProgramContext()
LOOP = """\
%product (a: bf16[128,64], b: bf16[28,64,256], i: s32[]) -> bf16[128,256] {
  %a = bf16[128,64]{1,0} parameter(0)
  %b = bf16[28,64,256]{2,1,0} parameter(1)
  %i = s32[] parameter(2)
  %layer = bf16[1,64,256]{2,1,0} dynamic-slice(%b, %i), dynamic_slice_sizes={1,64,256}
  %flat = bf16[64,256]{1,0} bitcast(%layer)
  ROOT %c = bf16[128,256]{1,0} convolution(%a, %flat), dim_labels=bf_io->bf
}

%condition (p: (s32[], bf16[28,64,256])) -> pred[] {
  %limit = s32[] constant(28)
  %p = (s32[], bf16[28,64,256]{2,1,0}) parameter(0)
  %at = s32[] get-tuple-element(%p), index=0
  ROOT %less = pred[] compare(%at, %limit), direction=LT
}

%body (p: (s32[], bf16[28,64,256])) -> (s32[], bf16[28,64,256]) {
  %p = (s32[], bf16[28,64,256]{2,1,0}) parameter(0)
  %at = s32[] get-tuple-element(%p), index=0
  %weights = bf16[28,64,256]{2,1,0} get-tuple-element(%p), index=1
  %input = bf16[128,64]{1,0:T(8,128)S(1)} get-tuple-element(%p), index=2
  %made = bf16[128,256]{1,0} fusion(%input, %weights, %at), kind=kOutput, calls=%product
}

ENTRY %main (w: bf16[28,64,256]) -> bf16[128,256] {
  %w = bf16[28,64,256]{2,1,0} parameter(0)
  %loop = (s32[], bf16[28,64,256]{2,1,0}) while(%w), condition=%condition, body=%body
}
"""


def work(text: str, context: ProgramContext = ONE) -> StepWork:
    return work_of(read_program(text), context)


def entry(*lines: str) -> StepWork:
    return work("ENTRY %main () -> f32[] {\n" + "".join(f"  {line}\n" for line in lines) + "}\n")


def test_loop_counts_each_iteration_and_reads_one_layer_each_time() -> None:
    found = work(LOOP)
    assert found.flops == 28 * 2 * 128 * 64 * 256
    assert found.hbm_bytes == 28 * (64 * 256 * 2 + 128 * 256 * 2 + 4)  # layer, result, index; the input is on the chip
    assert found.unknown_loops == 0


def test_a_loop_without_a_constant_counts_once_and_is_reported() -> None:
    found = work(LOOP.replace("constant(28)", "parameter(1)"))
    assert (found.flops, found.unknown_loops) == (2 * 128 * 64 * 256, 1)


@pytest.mark.parametrize(
    ("left", "right", "made", "attributes", "products"),
    [
        ("[1024,64]", "[64,32]", "[1024,32]", "dim_labels=bf_io->bf", 1024 * 64 * 32),
        # heads as a spatial dimension: each output position meets one position of the window
        ("[1024,1024,1]", "[16,1024,128]", "[1024,16,128]",
         "window={size=16 pad=15_15 rhs_reversal=1}, dim_labels=bf0_i0o->b0f", None),
        ("[16,1024,128]", "[16,128,1024]", "[1024,1024,1]",
         "window={size=16}, dim_labels=0bf_0io->bf0", 16 * 1024 * 128 * 1024),
    ],
)  # fmt: skip
def test_convolution_flops_count_its_products(
    left: str, right: str, made: str, attributes: str, products: int | None
) -> None:
    if products is None:  # [tokens, width] by [width, heads, head_dim], as in qwen3-0.6b
        right, products = "[1024,16,128]", 1024 * 1024 * 16 * 128
    found = entry(
        f"%a = bf16{left}{{0}} parameter(0)",
        f"%b = bf16{right}{{0}} parameter(1)",
        f"%c = bf16{made}{{0}} convolution(%a, %b), {attributes}",
    )
    assert found.flops == 2 * products


def test_eight_bit_products_count_half_the_flops() -> None:
    lines = ("%a = s8[128,64]{1,0} parameter(0)", "%b = s8[64,256]{1,0} parameter(1)")
    found = entry(*lines, "%c = s32[128,256]{1,0} dot(%a, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}")
    assert found.flops == 128 * 64 * 256


@pytest.mark.parametrize(
    ("opcode", "received"),
    [("all-gather", 3.0), ("all-reduce", 2 * 3 / 4), ("reduce-scatter", 3 / 4), ("all-to-all", 3 / 4)],
)
def test_collective_bytes_are_those_a_ring_of_four_receives(opcode: str, received: float) -> None:
    found = entry("%a = f32[256]{0} parameter(0)", f"%b = f32[256]{{0}} {opcode}(%a), replica_groups={{{{0,1,2,3}}}}")
    assert found.ici_bytes == 1024 * received
    assert found.dcn_bytes == 0


def test_host_transfers_between_slices_count_as_dcn_bytes() -> None:
    text = """\
ENTRY %main () -> f32[] {
  %r = (f32[512]{0}, u32[], token[]) recv(%t), is_host_transfer=true, \
frontend_attributes={_xla_host_transfer_handler_name="xla_megascale_runtime",_xla_megascale_transfer_type="KIND"}
}
"""
    two = ProgramContext(num_slices=2)
    assert work(text.replace("KIND", "ALL_GATHER"), two).dcn_bytes == 1024
    assert work(text.replace("KIND", "ALL_REDUCE"), two).dcn_bytes == 2048
    assert work(text, ONE).dcn_bytes == 0


def test_update_in_place_counts_only_the_update() -> None:
    found = entry(
        "%big = f32[28,1024]{1,0} parameter(0)",
        "%small = f32[1,1024]{1,0} parameter(1)",
        "%new = f32[28,1024]{1,0} dynamic-update-slice(%big, %small)",
    )
    assert found.hbm_bytes == 2 * 4096


def test_transfer_to_the_chip_counts_the_moved_bytes() -> None:
    found = entry(
        "%w = f32[4096]{0} parameter(0)",
        "%s = (f32[4096]{0}, f32[1024]{0:T(8)S(1)}, s32[]) slice-start(%w), slice={[0:1024]}",
        "%c = (f32[4096]{0:S(1)}, f32[4096]{0}, u32[]) copy-start(%w)",
    )
    assert found.hbm_bytes == 4096 + 4 * 4096


def test_an_unknown_kernel_is_named() -> None:
    found = entry(
        "%a = f32[8]{0} parameter(0)", '%magic.7 = f32[8]{0} custom-call(%a), custom_call_target="tpu_custom_call"'
    )
    assert (found.unknown_kernels, found.flops) == (("magic",), 0)
