from __future__ import annotations

from xsft.trainers.explain import MAX_CHARACTERS, reason

RULER = "E1121 11:57:01 140 pyconfig.py:394] " + "=" * 80


def test_unknown_key_is_reported_without_the_900_known_keys() -> None:
    known = ", ".join(f"'key_{n}'" for n in range(900))
    lines = (
        RULER,
        f"E1121 x] MAXTEXT CONFIG ERROR: 'stepz' not in {known}.",
        RULER,
        "Traceback",
        f"ValueError: 'stepz' not in {known}",
    )
    assert reason(lines) == "MaxText does not know the key 'stepz'"


def test_a_pydantic_message_is_joined_from_its_lines() -> None:
    lines = (
        "E1121 x] MAXTEXT CONFIG ERROR: 1 validation error for MaxTextConfig",
        "steps",
        "  Input should be a valid integer [type=int_parsing, input_value='abc', input_type=str]",
        "    For further information visit https://errors.pydantic.dev/2.14/v/int_parsing",
        RULER,
        "Traceback (most recent call last):",
    )
    assert reason(lines) == (
        "MaxText refused its configuration: 1 validation error for MaxTextConfig steps "
        "Input should be a valid integer [type=int_parsing, input_value='abc', input_type=str]"
    )


def test_the_last_exception_is_the_cause() -> None:
    lines = (
        "KeyError: 'a'",
        "During handling of the above exception …",
        "ValueError: No valid Orbax checkpoint found at '/x'.",
        "I1121 x] bye",
    )
    assert reason(lines) == "ValueError: No valid Orbax checkpoint found at '/x'."


def test_exception_ignored_by_python_is_no_cause() -> None:
    ignored = ("Exception ignored in atexit callback: <f>", "Traceback …", "RuntimeError: can't create new thread")
    assert reason(("KeyError: 'model_params'", *ignored)) == "KeyError: 'model_params'"
    assert reason(ignored) is None


def test_module_qualified_exception_is_a_cause() -> None:
    assert reason(("jaxlib._jax.XlaRuntimeError: RESOURCE_EXHAUSTED: out of memory",)) == (
        "jaxlib._jax.XlaRuntimeError: RESOURCE_EXHAUSTED: out of memory"
    )


def test_nan_loss_outranks_the_exit_that_it_causes() -> None:
    assert (
        reason(("I1 x] Aborting training due to NaN loss.", "SystemExit: 1")) == "MaxText stopped because of NaN loss"
    )


def test_end_of_the_data_is_a_cause() -> None:
    assert (
        reason(("I1 x] Exception in load_next_train_batch: out", "I1 x] Train loop finished in: 1.0 seconds"))
        == "the data ended"
    )


def test_log_without_errors_has_no_cause() -> None:
    assert reason(("completed step: 1, loss: 2.0", "")) is None


def test_a_long_message_is_cut() -> None:
    found = reason(("ValueError: " + "x" * 10_000,))
    assert found is not None
    assert (len(found), found[-1]) == (MAX_CHARACTERS, "…")


def test_an_exception_after_the_data_ended_is_the_cause() -> None:
    ended = "I1121 x] Exception in load_next_train_batch: "
    assert reason((ended,)) == "the data ended"
    assert reason((ended, "ValueError: cannot save")) == "ValueError: cannot save"
