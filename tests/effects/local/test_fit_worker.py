from __future__ import annotations

from xsft.effects.local.fit_worker import REFUSED, in_bytes, largest_buffers

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


def test_buffers_of_the_entry_and_of_loops_are_found_and_none_of_a_fusion() -> None:
    assert largest_buffers(PROGRAM) == [
        {"bytes": 1048576, "shape": "bf16[512,1024]", "count": 2, "layer": ""},
        {"bytes": 32768, "shape": "f32[8,1024]", "count": 1, "layer": ""},
    ]
    assert largest_buffers("") == []


def test_what_the_compiler_says_of_a_refused_program() -> None:
    said = (
        "RESOURCE_EXHAUSTED: Ran out of memory on HBM, the total memory required for HLO temporaries (31.60G) exceeds "
        "available HBM (31.24G)."
    )
    found = REFUSED.search(said)
    assert found is not None
    assert (in_bytes(found["needed"]), in_bytes(found["limit"])) == (int(31.6 * 2**30), int(31.24 * 2**30))
