"""Ports of this machine's loopback: which is free, and whether somebody answers on one."""

from __future__ import annotations

import random
import socket

LOOPBACK = "127.0.0.1"
_SERVERS = range(20_000, 32_000)
"""Below those that the system hands to whoever connects or asks for any: nobody else takes one before it is bound."""


def free_port(*, taken: int = 0) -> int:
    """A port that nobody has, and that is not ``taken``."""
    while (port := random.choice(_SERVERS)) == taken or not is_free(port):
        pass
    return port


def is_free(port: int) -> bool:
    """Whether a server could have this port."""
    with socket.socket() as probe:
        # As Kafka and Airflow do: a port whose last connections are still winding down can be had again.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def listens(port: int) -> bool:
    """Whether somebody takes connections there."""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=1):
            return True
    except OSError:
        return False
