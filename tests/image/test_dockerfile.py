"""What a Dockerfile can be told."""

from __future__ import annotations

from xsft.image.dockerfile import arguments


def test_arguments_and_their_first_defaults() -> None:
    text = """\
# ARG NOT=1
ARG BASE_IMAGE=python:3.12-slim
FROM ${BASE_IMAGE}
ARG BASE_IMAGE
arg A B="two words" C='x'
  ARG D=  # nothing
RUN echo ARG E=1
"""
    assert arguments(text) == {"BASE_IMAGE": "python:3.12-slim", "A": None, "B": "two words", "C": "x", "D": None}
