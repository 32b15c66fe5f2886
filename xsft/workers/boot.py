"""Write the files that were sent into a new folder, and run the module among them. The text of this module is the
program of the image's Python (`python3 -c`).

Arguments: `{"module", "files", …}` as JSON (`workers.sent`), then those of the module, which finds the JSON as its
first argument too.
"""

from __future__ import annotations

import json
import runpy
import sys
import tempfile
from pathlib import Path


def main() -> None:
    sent = json.loads(sys.argv[1])
    folder = Path(tempfile.mkdtemp(prefix="xsft-"))
    for name, text in sent["files"].items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    sys.path.insert(0, str(folder))
    runpy.run_module(sent["module"], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
