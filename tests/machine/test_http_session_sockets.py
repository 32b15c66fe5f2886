from __future__ import annotations

import socket

import pytest

from xsft.base.errors import Refused
from xsft.machine.http_session import LOOPBACK, free_port


def test_free_port_returns_a_free_port() -> None:
    with socket.socket() as listening:
        listening.bind((LOOPBACK, free_port()))


def test_a_port_in_use_is_refused_with_a_fix() -> None:
    with socket.socket() as listening:
        listening.bind((LOOPBACK, 0))
        listening.listen()
        port = listening.getsockname()[1]
        with pytest.raises(Refused, match=str(port)) as caught:
            free_port(port)
    assert (caught.value.problem_id, "--port" in caught.value.fix) == ("port-in-use", True)
