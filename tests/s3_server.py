"""A real S3 server in a folder of its own, for tests of buckets."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from devstack import s3_server
from devstack.s3_server import REGION, S3Process
from tidegate.errors import SetupError

__all__ = ["REGION", "S3Process", "s3_process"]


@contextmanager
def s3_process() -> Iterator[S3Process]:
    """A running server. Skips the test where `make s3-server` has not built one: it was not run then, and has not passed."""
    try:
        program = s3_server.built()
    except SetupError as error:
        pytest.skip(error.message)
    folder = Path(tempfile.mkdtemp(prefix="tidegate-s3-"))
    try:
        server = S3Process(program, folder)
        server.start()
        try:
            yield server
        finally:
            server.kill()
    finally:
        shutil.rmtree(folder)
