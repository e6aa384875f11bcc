"""Ports of loopback, with real sockets."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tidegate.embedded.ports import LOOPBACK, free_port, is_free, listens


@pytest.fixture
def server() -> Iterator[int]:
    """The port of somebody who listens."""
    with socket.create_server((LOOPBACK, 0)) as listening:
        yield int(listening.getsockname()[1])


def test_a_port_that_somebody_has_is_not_free_and_answers(server: int) -> None:
    assert not is_free(server)
    assert listens(server)


def test_a_free_port_can_be_had_and_nobody_answers_there() -> None:
    port = free_port()
    assert is_free(port)
    assert not listens(port)
    assert free_port(taken=port) != port
