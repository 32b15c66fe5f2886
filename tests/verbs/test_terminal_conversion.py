from __future__ import annotations

from xsft.verbs.terminal import ConversionDisplay
from xsft.weights.conversion_plan import ArraysDone, BytesDone, ConversionPhase, conversion_event, download_text

GB = 10**9


def test_rate_and_time_left_are_reported_every_ten_seconds() -> None:
    said: list[str] = []
    now = [0.0]
    display = ConversionDisplay(said.append, every_s=10, now=lambda: now[0])
    display.on_event(ConversionPhase(name="saving"))
    for second in range(31):
        now[0] = float(second)
        display.on_event(BytesDone(done=second * GB // 10, of=16 * GB, at=now[0]))
    assert said == [
        "saving",
        "saving 1 GB of about 16 GB, 100 MB/s, 2:30 left",
        "saving 2 GB of about 16 GB, 100 MB/s, 2:20 left",
        "saving 3 GB of about 16 GB, 100 MB/s, 2:10 left",
    ]


def test_arrays_and_downloads_have_a_rate_and_a_time_left_too() -> None:
    said: list[str] = []
    now = [0.0]
    display = ConversionDisplay(said.append, every_s=10, now=lambda: now[0])
    for second in range(11):
        now[0] = float(second)
        display.on_event(ArraysDone(done=second, of=30))
        display.on_event(BytesDone(doing="downloading", done=second * GB, of=20 * GB, at=now[0]))
    assert said == ["transforming 10 of 30 arrays, 1/s, 0:20 left"]
    now[0] = 20.0
    display.on_event(BytesDone(doing="downloading", done=15 * GB, of=20 * GB, at=20))
    assert said[1].startswith("downloading 15 GB of about 20 GB, ")


def test_no_time_left_is_shown_for_an_unknown_size_or_without_progress() -> None:
    said: list[str] = []
    display = ConversionDisplay(said.append, every_s=0, now=lambda: 0)
    for at, done in ((0, 0), (1, 0), (2, 5000), (3, 10_000)):
        display.on_event(BytesDone(done=done, of=None, at=at))
    assert said == ["saving 10 kB, 5 kB/s"]


def test_lines_of_the_converter_are_shown() -> None:
    """Printed by to_maxtext of MaxText 0.2.5."""
    lines = {
        "INFO:absl:Lazy loading ENABLED. Initializing LazyHFLoader for: /m...": ConversionPhase(name="loading"),
        "Transforming weights:  46%|####6     | 6/13 [00:00<00:00, 24.1param/s, RAM: 0.5]": ArraysDone(done=6, of=13),
        "INFO:absl:Starting checkpoint save (loading weights just-in-time)...": ConversionPhase(name="saving"),
        "INFO:absl:Overall Elapse: 0.37 min": None,
    }
    assert {line: conversion_event(line) for line in lines} == lines


BAR = "model-00001-of-00004.safetensors:  12%|#2        | 600M/4.98G [00:12<01:27, 50.3MB/s]"


def test_a_pods_log_gives_download_and_phases() -> None:
    said: list[str] = []
    now = [0.0]
    display = ConversionDisplay(said.append, every_s=10, now=lambda: now[0])
    display.on_line(f"config.json: 100%|####| 1k/1k [00:00<00:00, 1MB/s]\r{BAR}")
    now[0] = 10.0
    display.on_line(BAR)
    display.on_line("INFO:absl:Starting checkpoint save (loading weights just-in-time)...")
    assert said == [
        "downloading model-00001-of-00004.safetensors: 600M of 4.98G, 50.3MB/s, 01:27 left",
        "saving",
    ]
    assert download_text("completed step: 3") is None
