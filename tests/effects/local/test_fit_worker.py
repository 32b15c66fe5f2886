from __future__ import annotations

from xsft.effects.local.fit_worker import REFUSED, in_bytes


def test_what_the_compiler_says_of_a_refused_program() -> None:
    said = (
        "RESOURCE_EXHAUSTED: Ran out of memory on HBM, the total memory required for HLO temporaries (31.60G) exceeds "
        "available HBM (31.24G)."
    )
    found = REFUSED.search(said)
    assert found is not None
    assert (in_bytes(found["needed"]), in_bytes(found["limit"])) == (int(31.6 * 2**30), int(31.24 * 2**30))
