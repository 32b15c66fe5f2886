"""Measures weights in the pods of a training's slices, one process per host; the first one writes the result. Sent to
the image's Python, which has no xsft, with `measure_worker` and the modules of `xsft.pod`.

Arguments: a JSON document with the `notes`, and the path of the result, `{"digest", "worker", "finished_at", …}`. The
notes are a job of `measure_worker`, and under `noted` what the result repeats.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from xsft.evaluation.measure_worker import ending, evaluated, say
from xsft.pod.place import place_of
from xsft.pod.work import now


def main(job: dict[str, Any], into: str) -> None:
    found = evaluated(job)
    import jax  # type: ignore[import-not-found]

    if jax.process_index() != 0:
        return
    written = place_of(into).create(into, json.dumps({**found, **job["noted"], "finished_at": now()}))
    say(f"wrote {into}" if written else f"{into} exists already, of the same inputs; it stays")


if __name__ == "__main__":
    ending(lambda: main(json.loads(sys.argv[1])["notes"], sys.argv[2]))
