"""Check the archive of programs that the image carries, and run the module among them. The text of this module is the
program of the image's Python (`python3 -c`).

Arguments: `{"module", "archive", "sha256", …}` as JSON (`workers.sent`), then those of the module, which finds the JSON
as its first argument too.
"""

from __future__ import annotations

import hashlib
import json
import runpy
import sys
from pathlib import Path


def main() -> None:
    sent = json.loads(sys.argv[1])
    archive = Path(sent["archive"])
    digest = hashlib.sha256(archive.read_bytes()).hexdigest() if archive.is_file() else None
    if digest != sent["sha256"]:
        held = f"has sha256 {digest}" if digest else "is missing"
        sys.exit(
            f"xsft: The image's {archive} {held}; the plan expects sha256 {sent['sha256']}. "
            "Push the image again and rerun."
        )
    sys.path.insert(0, str(archive))
    runpy.run_module(sent["module"], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
