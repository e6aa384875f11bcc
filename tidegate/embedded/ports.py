"""Ports of this machine's loopback: which is free, and whether somebody answers on one."""

from __future__ import annotations

import socket

LOOPBACK = "127.0.0.1"


def free_port(*, taken: int = 0) -> int:
    """A port that nobody has, and that is not ``taken``."""
    port = taken
    while port == taken:
        with socket.socket() as probe:
            probe.bind((LOOPBACK, 0))
            port = int(probe.getsockname()[1])
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
