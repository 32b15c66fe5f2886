"""The text of a compiled program, in the form that libtpu 0.0.44 writes."""

from __future__ import annotations

from xsft.fit.program import ProgramBuffer, largest_buffers

PROGRAM = """\
HloModule jit_train_step, is_scheduled=true

%fused_computation.1 (param_0: f32[8,1024]) -> f32[8,1024] {
  ROOT %inside = f32[9999,9999]{1,0:T(8,128)} add(%param_0, %param_0), metadata={op_name="never written"}
}

%body.2 (arg: (s32[], bf16[512,1024])) -> (s32[], bf16[512,1024]) {
  %layer = bf16[512,1024]{1,0:T(8,128)(2,1)} fusion(%arg), kind=kLoop, metadata={op_name="jit(train_step)/decoder/mlp"}
  %cached = bf16[512,2048]{1,0:T(8,128)(2,1)S(1)} copy(%layer)
}

ENTRY %main.3 (p0: f32[4096,1024]) -> f32[8,1024] {
  %p0 = f32[4096,1024]{1,0:T(8,128)} parameter(0)
  %loop = (s32[], bf16[512,1024]) while(%p0), condition=%cond.9, body=%body.2
  %other = bf16[512,1024]{1,0:T(8,128)(2,1)} fusion(%p0), kind=kLoop
  ROOT %out = f32[8,1024]{1,0:T(8,128)} fusion(%loop), kind=kLoop, calls=%fused_computation.1
}
"""


def test_largest_buffers_include_loops_but_no_fusion() -> None:
    assert largest_buffers(PROGRAM) == (
        ProgramBuffer(bytes=1048576, shape="bf16[512,1024]", count=2, layer="jit(train_step)/decoder/mlp"),
        ProgramBuffer(bytes=32768, shape="f32[8,1024]", count=1, layer=""),
    )
    assert largest_buffers("") == ()


def test_attribute_of_several_lines_is_no_buffer() -> None:
    text = """\
ENTRY %main (p0: f32[8]) -> f32[8] {
  %kernel = f32[8]{0} custom-call(%p0), attributes={kernel_metadata={
"xprof_metadata":"{\\"block_q\\": 512}"
}}, metadata={op_name="a/b"}
  ROOT %out = bf16[4,2]{1,0:T(8,128)(2,1)S(1)} copy(%kernel)
}
"""
    assert [buffer.shape for buffer in largest_buffers(text)] == ["f32[8]"]
