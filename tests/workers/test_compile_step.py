from __future__ import annotations

from xsft.workers.compile_step import REFUSED, in_bytes


def test_needed_and_available_memory_are_read_from_the_compilers_error() -> None:
    error_text = (
        "RESOURCE_EXHAUSTED: Ran out of memory on HBM, the total memory required for HLO temporaries (31.60G) exceeds "
        "available HBM (31.24G)."
    )
    match = REFUSED.search(error_text)
    assert match is not None
    assert (in_bytes(match["needed"]), in_bytes(match["limit"])) == (int(31.6 * 2**30), int(31.24 * 2**30))
