"""Buckets in memory, behind the store of real ones, which count what a server would be asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from obstore.exceptions import AlreadyExistsError, PreconditionError
from obstore.store import MemoryStore

from tidegate.store.counted import CountedClient
from tidegate.store.credentials import Credentials
from tidegate.store.location import Stores
from tidegate.store.s3 import S3Server

_ANSWER = "GET http://memory/ in 0.1ms - Server returned non-2xx status code: "
_MISSING = f"{_ANSWER}404 Not Found: <Code>NoSuchKey</Code>"
_REFUSED = f"{_ANSWER}412 Precondition Failed: <Code>PreconditionFailed</Code>"


class _Client:
    """What `ObjectStore` asks a client for."""

    def __init__(self, requests: list[tuple[str, str]]) -> None:
        self._bucket, self._requests = MemoryStore(), requests

    def get(self, path: str, **options: Any) -> Any:
        self._requests.append(("GET", path))
        return self._existing(self._bucket.get, path, **options)

    def head(self, path: str) -> Any:
        self._requests.append(("HEAD", path))
        return self._existing(self._bucket.head, path)

    def put(self, path: str, data: bytes, **options: Any) -> Any:
        self._requests.append(("PUT", path))
        try:
            return self._bucket.put(path, data, **options)
        except (AlreadyExistsError, PreconditionError):
            raise PreconditionError(_REFUSED) from None

    def delete(self, path: str) -> None:
        self._requests.append(("DELETE", path))
        self._bucket.delete(path)

    def list_with_delimiter(self, path: str | None) -> Any:
        self._requests.append(("LIST", f"{path}/"))
        return self._bucket.list_with_delimiter(path)

    def list(self, path: str | None, chunk_size: int) -> _Pages:
        return _Pages(self._bucket.list(path, chunk_size=chunk_size), f"{path}/**", self._requests)

    def _existing(self, ask: Any, path: str, **options: Any) -> Any:
        try:
            return ask(path, **options)
        except FileNotFoundError:
            raise FileNotFoundError(_MISSING) from None


class _Pages:
    """Each page is a request."""

    def __init__(self, pages: Any, path: str, requests: list[tuple[str, str]]) -> None:
        self._pages, self._path, self._requests = pages, path, requests

    def __iter__(self) -> Iterator[Any]:
        for page in self._pages:
            self._requests.append(("LIST", self._path))
            yield page

    def collect(self) -> list[Any]:
        return [each for page in self for each in page]


class _Server(S3Server):
    def __init__(self) -> None:
        super().__init__({"AWS_ACCESS_KEY_ID": "access", "AWS_SECRET_ACCESS_KEY": "secret"})
        self.requests: list[tuple[str, str]] = []
        self._buckets: dict[str, _Client] = {}

    def client(self, bucket: str) -> tuple[CountedClient, Credentials]:
        client = self._buckets.setdefault(bucket, _Client(self.requests))
        return cast("CountedClient", client), self.credentials.get()


class MemoryBuckets(Stores):
    """The stores of buckets in memory, and of folders."""

    def __init__(self) -> None:
        super().__init__({})
        self._of_memory = _Server()

    @property
    def server(self) -> S3Server:
        """That of all buckets."""
        return self._of_memory

    @property
    def requests(self) -> list[tuple[str, str]]:
        """Method and key of each request; of a listing the folder, with ``**`` if it is of all below it."""
        return self._of_memory.requests
