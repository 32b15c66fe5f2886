from __future__ import annotations

from xsft.fit.reserved_memory import StartNow, TooLittleMemory, WaitForOthers, admission, needed_gib


def test_memory_for_a_compilation_depends_on_the_model() -> None:
    assert (needed_gib(params_b=8.0), needed_gib(params_b=671.0), needed_gib(params_b=None)) == (4.0, 7.0, 4.0)


def test_machine_of_6_gb_compiles_only_a_dense_model() -> None:
    assert admission(free_gib=5.2, needed=4.0, others=()) == StartNow()
    assert admission(free_gib=5.2, needed=7.0, others=()) == TooLittleMemory(reason="5.2 GiB of memory free, 7 needed")


def test_a_second_compilation_starts_where_it_fits_and_waits_elsewhere() -> None:
    assert admission(free_gib=8.0, needed=4.0, others=(4.0,)) == StartNow()
    found = admission(free_gib=7.0, needed=4.0, others=(4.0,))
    assert isinstance(found, WaitForOthers)
    assert found.reason == "7.0 GiB of memory free, 4 needed, and 1 other compilation may take 4 GiB"
