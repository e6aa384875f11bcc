"""Counts the requests that this process sends to object stores, by method and kind of object: ``GET log``.

Those of Spark are counted by the JVM that sends them (``jvm/io/tidegate/s3/SentRequests.java``), with the same kinds. Those of delta-rs,
and of Python workers of Spark, which read landed files, are not counted.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from obstore import ListResult, ObjectMeta
    from obstore.store import S3Store

_PAGE = 1000
"""How many keys a server lists with one request."""


class RequestCounts:
    """What was sent until now. Threads may share it."""

    def __init__(self) -> None:
        self._sent: Counter[str] = Counter()
        self._lock = threading.Lock()

    def add(self, method: str, path: str, number: int = 1) -> None:
        """Count some requests about a key, or all below it."""
        with self._lock:
            self._sent[f"{method} {_kind(f'/{path}')}"] += number

    def count(self) -> Mapping[str, int]:
        """The numbers, by method and kind of object."""
        with self._lock:
            return dict(self._sent)


SENT = RequestCounts()
"""Of this process."""


class CountedClient:
    """A client of obstore for a bucket, as far as `ObjectStore` needs one."""

    def __init__(self, client: S3Store) -> None:
        self.client = client

    def get(self, path: str, **options: Any) -> Any:
        """A GET."""
        SENT.add("GET", path)
        return self.client.get(path, **options)

    def head(self, path: str) -> ObjectMeta:
        """A HEAD."""
        SENT.add("HEAD", path)
        return self.client.head(path)

    def put(self, path: str, data: bytes, **options: Any) -> Any:
        """A PUT."""
        SENT.add("PUT", path)
        return self.client.put(path, data, **options)

    def copy(self, path: str, target: str, *, overwrite: bool) -> None:
        """A copy on the server, by one part or several."""
        SENT.add("COPY", path)
        self.client.copy(path, target, overwrite=overwrite)

    def delete(self, paths: str | Sequence[str]) -> None:
        """A POST for a thousand keys."""
        listed = [paths] if isinstance(paths, str) else paths
        SENT.add("POST", listed[0], -(-len(listed) // _PAGE))
        self.client.delete(paths)

    def list_with_delimiter(self, path: str | None) -> ListResult[Sequence[ObjectMeta]]:
        """A LIST for a thousand keys and folders."""
        listed = self.client.list_with_delimiter(path)
        SENT.add("LIST", path or "", (len(listed["objects"]) + len(listed["common_prefixes"])) // _PAGE + 1)
        return listed

    def list(self, path: str | None, chunk_size: int) -> ListedPages:
        """A LIST for each page."""
        return ListedPages(self.client.list(path, chunk_size=chunk_size), path or "", chunk_size)


class ListedPages:
    """What a listing tells, page by page."""

    def __init__(self, pages: Any, path: str, size: int) -> None:
        self._pages, self._path, self._size = iter(pages), path, size

    def __iter__(self) -> Iterator[Sequence[ObjectMeta]]:
        while True:
            SENT.add("LIST", self._path)
            page = next(self._pages, None)
            if page is None:
                return
            yield page
            if len(page) < self._size:
                return

    def collect(self) -> Sequence[ObjectMeta]:
        """All pages."""
        return [each for page in self for each in page]


def _kind(path: str) -> str:
    if "/_delta_log" in path:
        return "log"
    if "/checkpoints/" not in path:
        return "other"
    return "state" if "/state/" in path else "checkpoint"
