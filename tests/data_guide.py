"""Write the output of `xsft data` into its guide: python -m tests.data_guide. `make pictures` does it, too.

Every block of the guide that begins with a command of `show` or `inspect` holds what the command prints, through
MaxText's own pipeline.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

from xsft.verbs.cli import main as xsft

ROOT = Path(__file__).parent.parent
GUIDE = ROOT / "docs" / "guides" / "data.md"
BLOCK = re.compile(
    r"(?<=```console\n)\$ (xsft data (?:show|inspect) (?:[^\n]*\\\n)*[^\n]*)\n(.*?)(?=```)",
    re.DOTALL,
)


def main() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    GUIDE.write_text(BLOCK.sub(lambda match: f"$ {match[1]}\n{printed(match[1])}", text), encoding="utf-8")


def shown() -> dict[str, str]:
    """Command -> what the guide says that it prints."""
    return dict(BLOCK.findall(GUIDE.read_text(encoding="utf-8")))


def printed(command: str) -> str:
    """Return what the command prints in the folder of the checkout."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.chdir(ROOT):
        xsft(shlex.split(command.replace("\\\n", " "))[1:])
    return out.getvalue()


if __name__ == "__main__":
    main()
