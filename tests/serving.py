"""Serves HTTP from a thread of this process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import HTTPServer

_POLL_SECONDS = 0.02


@contextmanager
def serving(server: HTTPServer) -> Iterator[None]:
    """Answer requests until the end of the context, which closes the server."""
    thread = threading.Thread(target=server.serve_forever, args=(_POLL_SECONDS,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
