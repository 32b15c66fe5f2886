from __future__ import annotations

from xsft.actions.weights.convert_on_cluster import ConverterLog
from xsft.conversion.progress import download_text
from xsft.screen.convert_progress import ConversionDisplay

BAR = "model-00001-of-00004.safetensors:  12%|#2        | 600M/4.98G [00:12<01:27, 50.3MB/s]"


def test_a_pods_log_gives_download_and_phases() -> None:
    said: list[str] = []
    now = [0.0]
    log = ConverterLog(ConversionDisplay(said.append, every_s=10, now=lambda: now[0]).on_line)
    log.write(f"config.json: 100%|####| 1k/1k [00:00<00:00, 1MB/s]\n{BAR}\n")
    now[0] = 10.0
    log.write(f"{BAR}\nINFO:absl:Starting checkpoint save (loading weights just-in-time)...\n")
    assert said == [
        "downloading model-00001-of-00004.safetensors: 600M of 4.98G, 50.3MB/s, 01:27 left",
        "saving",
    ]
    assert download_text("completed step: 3") is None
