"""A project whose lake and landing zone are buckets in memory, behind the store of real ones, which counts what a server would be asked."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.status.sample_project import SampleProject
from tests.store.memory_buckets import MemoryBuckets


@contextmanager
def bucket_project() -> Iterator[tuple[SampleProject, MemoryBuckets]]:
    """The sample project of tests, and its buckets."""
    buckets = MemoryBuckets()

    class InMemory(SampleProject):
        stores = buckets

    with tempfile.TemporaryDirectory() as folder:
        yield InMemory(Path(folder), TIDEGATE_LAKE="s3://bucket/lake", TIDEGATE_LANDING="s3://bucket/landing"), buckets
