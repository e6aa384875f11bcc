"""Ports of the loopback interface: free ones, and whether a server listens on one."""

from __future__ import annotations

import random
import socket

LOOPBACK = "127.0.0.1"
_SERVERS = range(20_000, 32_000)
"""Below the ephemeral ports, so that the system assigns none of them to a client before the server binds it."""


def free_port(*, excluded: int = 0) -> int:
    """A random free port other than ``excluded``."""
    while (port := random.choice(_SERVERS)) == excluded or not is_free(port):
        pass
    return port


def is_free(port: int) -> bool:
    """Whether a server could bind this port."""
    with socket.socket() as probe:
        # As Kafka and Airflow do: ports with connections in TIME_WAIT can be bound.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def listens(port: int) -> bool:
    """Whether a server accepts connections on this port."""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=1):
            return True
    except OSError:
        return False
