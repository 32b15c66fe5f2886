"""The message for a program on this machine that was killed, and the next step for a trainer. Pure."""

from __future__ import annotations

TRAINER = "the trainer"
KILLED = f"{TRAINER} was killed (SIGKILL)"
"""Start of the text for a trainer; a rule of `xsft why` looks for it."""
LESS = (
    "Reduce its memory use (train.max_target_length, train.per_device_batch_size or a smaller model) or free "
    "memory, and submit it again."
)


def killed_text(program: str, *, memory_bytes: int | None, kernel: str | None) -> str:
    """Return the message for a killed program. `kernel`: the kernel's message of an out-of-memory kill, if it was
    read.
    """
    machine = f"this machine has {memory_bytes / 1e9:.1f} GB of memory" if memory_bytes else ""
    killed = f"{program} was killed (SIGKILL)"
    if kernel:
        return "; ".join(part for part in (f"{killed}: out of memory: {kernel}", machine) if part)
    usual = "by an unknown process; usually the kernel does it when memory runs out (check `sudo dmesg`)"
    return "; ".join(part for part in (f"{killed}: {usual}", machine) if part)
