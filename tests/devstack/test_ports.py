"""Ports of loopback, with real sockets."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from devstack.ports import LOOPBACK, free_port, is_free, listens


@pytest.fixture
def server() -> Iterator[int]:
    """The port of a listening server."""
    with socket.create_server((LOOPBACK, 0)) as listening:
        yield int(listening.getsockname()[1])


def test_the_port_of_a_server_is_not_free_and_accepts_connections(server: int) -> None:
    assert not is_free(server)
    assert listens(server)


def test_no_server_listens_on_a_free_port() -> None:
    port = free_port()
    assert is_free(port)
    assert not listens(port)
    assert free_port(excluded=port) != port
