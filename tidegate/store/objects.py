"""A store in a bucket of an object store that speaks S3's protocol.

Longer than 300 lines: every operation of a store is a request with its own conditions and answers.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import random
import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from tidegate.advice import OutsideAct
from tidegate.errors import SetupError, WriteConflictError
from tidegate.errors.object_storage import INVALID_NAME, ObjectStorageRefusal
from tidegate.store.s3 import S3Server
from tidegate.store.store import (
    Content,
    Entry,
    Status,
    Store,
    below,
    checked,
    checked_move,
    conflict,
    folder_status,
    missing,
)

if TYPE_CHECKING:
    from obstore import ObjectMeta

    from tidegate.store.counted import CountedClient

T = TypeVar("T")

_FOLDER = ".folder"
"""The name of an empty object that makes a folder exist which has no other key."""
_PROBE = ".probe-"
"""How objects begin by which the store finds out whether the server honours conditions."""
_ANSWER = re.compile(r"://\S+ in [\d.]+\w*s - Server returned (?:non-2xx status code: (\d{3})|error response)")
_CODE = re.compile(r"<Code>\s*(\w+)\s*</Code>")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_PAGE = 1000
"""How many keys a server lists with one request."""
_PART = 4 * 1024 * 1024
"""How many bytes `open` reads with one request."""


class ObjectStore(Store):
    """Keys are keys of objects below a prefix.

    A tag is the server's (ETag). Requests that were not answered, or refused for the moment, are sent again for some time. A conditional
    write whose answer was lost is found by its content: who must know that the content is theirs writes something unique into it.

    The server knows no folders. So a key may have a content and keys below it, which no caller makes; nothing tells a folder from a key
    that does not exist; and an empty object named ``.folder`` is what `make_folder` makes. What S3A leaves behind as signs of folders
    (empty objects whose names end with ``/``) may let a folder be listed that has no keys, and does not let it exist.

    Args:
        server: The server, and whose requests they are.
        bucket: The bucket, which exists.
        prefix: What is before each key, without a ``/`` at its end; may be empty.
        patience: For how many seconds an operation is tried again.
        pause: How many seconds after its first attempt; later pauses are longer.
    """

    def __init__(
        self, server: S3Server, bucket: str, prefix: str = "", patience: float = 30.0, pause: float = 0.1
    ) -> None:
        self.server = server
        self.bucket = bucket
        self.prefix = prefix
        self._patience = patience
        self._pause = pause

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectStore) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def __repr__(self) -> str:
        return f"ObjectStore({self.uri('')!r}, {self.server!r})"

    @property
    def _identity(self) -> tuple[S3Server, str, str]:
        return self.server, self.bucket, self.prefix

    @property
    def options(self) -> Mapping[str, str]:
        """Endpoint and credentials."""
        return self.server.delta_options

    @property
    def may_be_cut(self) -> bool:
        """No: the server takes an upload as a whole, and compares it with a sum of it."""
        return False

    def uri(self, key: str) -> str:
        """``s3://<bucket>/<prefix>/<key>``."""
        return "/".join(filter(None, (f"s3://{self.bucket}", self.prefix, checked(key, of_folder=True))))

    def read(self, key: str) -> Content:
        """One GET."""
        path = self._path(key)

        def get(client: CountedClient) -> Content:
            answer = client.get(path)
            return Content(bytes(answer.bytes()), answer.meta["e_tag"] or "")

        return self._ask("read", key, get)

    def open(self, key: str) -> BinaryIO:
        """GETs of parts, all of one content: reading on after a change raises an OSError, ESTALE."""
        path = self._path(key)

        def get(client: CountedClient) -> tuple[bytes, ObjectMeta]:
            answer = client.get(path, options={"range": (0, _PART)})
            # Here, because an answer whose content breaks off is asked for again.
            return bytes(answer.bytes()), answer.meta

        try:
            data, meta = self._ask("read", key, get)
        except ObjectStorageRefusal as error:
            if error.status != 416:
                raise
            return io.BytesIO(self.read(key).data)
        if len(data) == meta["size"]:
            return io.BytesIO(data)
        parts = _Parts(lambda start, end: self._part(key, start, end, meta["e_tag"] or ""), meta["size"], data)
        return io.BufferedReader(parts, _PART)

    def put(self, key: str, data: bytes) -> None:
        """One PUT."""
        path = self._path(key)
        self._ask("write", key, lambda client: client.put(path, data, use_multipart=False))

    def put_if(self, key: str, data: bytes, tag: str | None) -> str:
        """A PUT with ``If-None-Match: *`` or ``If-Match``."""
        return self._put_if(key, data, tag, lambda stored: stored == data)

    def _put_if(self, key: str, data: bytes, tag: str | None, is_written: Callable[[bytes], bool]) -> str:
        """Write under a condition.

        Args:
            is_written: Whether a content that is found after an answer was lost, and the condition does not hold, shows that it held then.
        """
        path, is_unknown = self._path(key), False
        if tag is not None and not re.fullmatch(r'"[^"]+"', tag):
            # Of no object; and an empty condition would be none.
            raise conflict(self.uri(key), tag)

        def write(client: CountedClient) -> str:
            nonlocal is_unknown
            try:
                return client.put(path, data, mode="create" if tag is None else {"e_tag": tag})["e_tag"] or ""
            except Exception as error:
                is_unknown |= _answer(error)[0] not in (409, 412)
                raise

        try:
            return self._ask("write", key, write)
        except FileNotFoundError:
            raise conflict(self.uri(key), tag) from None
        except ObjectStorageRefusal as error:
            if error.status != 412:
                raise
            stored = self._read_after(key) if is_unknown else None
            if stored is None or not is_written(stored.data):
                raise conflict(self.uri(key), tag) from None
            return stored.tag

    def append(self, key: str, line: bytes) -> None:
        """Updates by tag, until no other writer is in between."""
        until = time.monotonic() + self._patience
        while True:
            try:
                before = self.read(key)
                data, tag = before.data + line, before.tag
            except FileNotFoundError:
                data, tag = line, None
            try:
                # Others only append, too.
                self._put_if(key, data, tag, lambda stored, data=data: stored.startswith(data))  # type: ignore[misc]
                return
            except WriteConflictError:
                if time.monotonic() > until:
                    raise ObjectStorageRefusal(self.uri(key), "append to", self.server.name, 409, "") from None
                time.sleep(random.uniform(0.0, 0.1))

    def delete(self, key: str) -> None:
        """One DELETE."""
        path = self._path(key)
        with contextlib.suppress(FileNotFoundError):
            self._ask("delete", key, lambda client: client.delete(path))

    def delete_folder(self, key: str) -> None:
        """Deletes what is listed."""
        if paths := [each["path"] for each in self._list_all(checked(key))]:
            with contextlib.suppress(FileNotFoundError):
                self._ask("delete", key, lambda client: client.delete(paths))

    def make_folder(self, key: str) -> None:
        """Writes an empty object in it, which is not listed."""
        self.put(below(checked(key, of_folder=True), _FOLDER), b"")

    def move(self, source: str, target: str) -> None:
        """Copies under the condition that there is nothing, then deletes."""
        checked_move(source, target)
        if self.exists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.uri(target))
        entry = self.stat(source)
        if entry.kind == "content":
            sizes = {source: entry.size}
        else:
            sizes = {self._key(each["path"]): each["size"] for each in self._list_all(source)}
        for key, size in sizes.items():
            self._copy(key, target + key[len(source) :], size)
        paths = [self._path(key) for key in sizes]
        self._ask("delete", source, lambda client: client.delete(paths))

    def _copy(self, key: str, target: str, size: int) -> None:
        """Copy an object to a key that nobody else has made, on the server if it is large."""
        if size > _PART:
            before, after = self._path(key), self._path(target)
            return self._ask("move", key, lambda client: client.copy(before, after, overwrite=False))
        # What S3A left as a sign of a folder is listed and cannot be read.
        with contextlib.suppress(FileNotFoundError):
            self.put_if(target, self.read(key).data, None)

    def list(self, key: str = "") -> list[Entry]:
        """LISTs of a thousand keys, all of them below the key."""
        path = self._path(key, of_folder=True)
        listed = self._ask("list", key, lambda client: client.list_with_delimiter(path or None))
        entries = [_entry(self._key(each["path"]), each) for each in listed["objects"] if each["path"] != path]
        entries += [self._folder(self._key(each)) for each in listed["common_prefixes"]]
        return sorted((each for each in entries if not _is_own(each.name)), key=lambda each: each.name)

    def list_tree(self, key: str, *, whole: bool = False) -> Mapping[str, Sequence[Entry]]:
        """LISTs of the keys below, by default one of the first thousand, of which the last folders may not be whole."""
        path = self._path(key)
        tree: dict[str, dict[str, Entry]] = {key: {}}

        def ask(client: CountedClient) -> Sequence[ObjectMeta]:
            pages = client.list(path, chunk_size=_PAGE)
            return pages.collect() if whole else next(iter(pages), ())

        listed = self._ask("list", key, ask)
        for each in listed:
            folder, (*folders, name) = key, self._key(each["path"])[len(key) + 1 :].split("/")
            for child in folders:
                parent, folder = folder, below(folder, child)
                tree[parent].setdefault(child, Entry(folder, "folder", partial(self._status_in, tree, folder)))
                tree.setdefault(folder, {})
            if not _is_own(name):
                tree[folder][name] = _entry(below(folder, name), each)
        if not whole and len(listed) == _PAGE:
            last = self._key(listed[-1]["path"])
            for folder in [folder for folder in tree if last.startswith(f"{folder}/")]:
                del tree[folder]
        return {folder: sorted(has.values(), key=lambda entry: entry.name) for folder, has in tree.items()}

    def _status_in(self, tree: Mapping[str, Mapping[str, Entry]], folder: str) -> Status:
        return folder_status(tree[folder].values() if folder in tree else self.list(folder))

    def stat(self, key: str) -> Entry:
        """A HEAD; if there is no object, a LIST of what is below."""
        path = self._path(key, of_folder=True)
        if key:
            with contextlib.suppress(FileNotFoundError):
                return _entry(key, self._head(key, path))
        signs = self._ask("list", key, lambda client: _empty(client.list(path or None, chunk_size=1000)))
        if signs is None or any(self._is_object(each) for each in signs):
            return self._folder(key)
        raise missing(self.uri(key))

    def check(self) -> None:
        """Creates an object twice and updates it with a stale tag, once in a process."""
        if self.bucket in self.server.checked_buckets:
            return
        key = f"{_PROBE}{secrets.token_hex(8)}"
        try:
            self.put_if(key, b"1", None)
            stale = self.read(key).tag
            self.put(key, b"2")
            for condition, tag in (("If-None-Match: *", None), (f"If-Match: {stale}", stale)):
                self._expect_refused(key, condition, tag)
        finally:
            with contextlib.suppress(OSError):
                self.delete(key)
        self.server.checked_buckets.add(self.bucket)

    def _expect_refused(self, key: str, condition: str, tag: str | None) -> None:
        try:
            self.put_if(key, b"3", tag)
        except WriteConflictError:
            return
        raise SetupError(
            f"{self.uri('')} is not safe with several writers: {self.server.name} wrote an object in spite of the condition {condition}",
            OutsideAct("use a server that honours If-None-Match and If-Match for PUT, as AWS does"),
        )

    def _path(self, key: str, *, of_folder: bool = False) -> str:
        """The key in the bucket."""
        if _CONTROL.search(checked(key, of_folder=of_folder)) or not _is_utf8(key):
            raise OSError(errno.EILSEQ, os.strerror(errno.EILSEQ), self.uri(key))
        return "/".join(filter(None, (self.prefix, key)))

    def _key(self, path: str) -> str:
        return path[len(self.prefix) + 1 :] if self.prefix else path

    def _folder(self, key: str) -> Entry:
        return Entry(key, "folder", lambda: folder_status(self.list(key)))

    def _list_all(self, key: str) -> Sequence[ObjectMeta]:
        path = self._path(key, of_folder=True)
        return self._ask("list", key, lambda client: client.list(path or None, chunk_size=1000).collect())

    def _is_object(self, path: str) -> bool:
        """Whether what is listed as an empty object is one, and not a sign of a folder, whose name loses its ``/``."""
        try:
            self._head(self._key(path), path)
        except FileNotFoundError:
            return False
        return True

    def _head(self, key: str, path: str) -> ObjectMeta:
        """What is known of an object. Only a listing tells whether one that is missing is: this answer has no code."""

        def head(client: CountedClient) -> ObjectMeta:
            return client.head(path)

        try:
            return self._ask("read", key, head, has_code=False)
        except ObjectStorageRefusal as error:
            if error.code or error.status not in (400, 403):
                raise
        # The answer to a GET has a code, for example that the credentials have expired; then they are fetched again.
        self._ask("read", key, lambda client: client.get(path))
        return self._ask("read", key, head, has_code=False)

    def _read_after(self, key: str) -> Content | None:
        try:
            return self.read(key)
        except FileNotFoundError:
            return None

    def _part(self, key: str, start: int, end: int, tag: str) -> bytes:
        path = self._path(key)
        options: Any = {"range": (start, end), "if_match": tag}
        return self._ask("read", key, lambda client: bytes(client.get(path, options=options).bytes()))

    def _ask(self, operation: str, key: str, ask: Callable[[CountedClient], T], *, has_code: bool = True) -> T:
        """The answer to a request, which is sent again while the server does not answer, or refuses it for the moment.

        Args:
            has_code: Whether a refusal has the server's own code.
        """
        until, pause = time.monotonic() + self._patience, self._pause
        while True:
            client, credentials = self.server.client(self.bucket)
            try:
                return ask(client)
            except Exception as error:
                refusal = self._refusal(error, operation, key, has_code=has_code)
            says_no_reason = refusal.status == 400 and not refusal.code
            if refusal.status == 412 or says_no_reason or not refusal.may_pass or time.monotonic() + pause > until:
                raise refusal
            if refusal.is_expiry:
                self.server.credentials.forget(credentials)
            time.sleep(random.uniform(pause / 2, pause))
            pause = min(2 * pause, 5.0)

    def _refusal(self, error: Exception, operation: str, key: str, *, has_code: bool) -> ObjectStorageRefusal:
        """The error for one of obstore, whose text has addresses and answers; raises that of a missing key, and what is not obstore's."""
        if not (type(error).__module__.startswith("obstore") or isinstance(error, FileNotFoundError)):
            raise error
        status, code = _answer(error)
        # Whoever does not know the bucket, or is no object store, may answer everything with 404.
        if status == 404 and (code == "NoSuchKey" or not (code or has_code)):
            raise missing(self.uri(key)) from None
        return ObjectStorageRefusal(self.uri(key), operation, self.server.name, status, code)


class _Parts(io.RawIOBase):
    """A content that is read in parts."""

    def __init__(self, read: Callable[[int, int], bytes], size: int, first: bytes) -> None:
        super().__init__()
        self._read, self._size, self._first, self._at = read, size, first, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = max(0, offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence])
        return self._at

    def tell(self) -> int:
        return self._at

    def readall(self) -> bytes:
        """With one request, in place of one for each eight kilobytes."""
        data = self._first[self._at :]
        start = max(self._at, len(self._first))
        data += self._read(start, self._size) if start < self._size else b""
        self._at = max(self._at, self._size)
        return data

    def readinto(self, buffer: Any) -> int:
        end = min(self._at + len(buffer), self._size)
        if self._at >= end:
            return 0
        data = self._first[self._at : end] or self._read(self._at, end)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def _answer(error: Exception) -> tuple[int, str]:
    """The HTTP status and the server's own code in an error of obstore; 0 without an answer."""
    if type(error).__name__ == "InvalidPathError":
        return 0, INVALID_NAME
    text = str(error).partition("\nDebug source:")[0]
    answer, code = _ANSWER.search(text), _CODE.search(text)
    named = code[1] if code else ""
    if answer is None:
        return 301 if "redirect without LOCATION" in text else 0, named
    # An answer whose status is 200 and whose content is an error.
    return int(answer[1] or 500), named


def _empty(chunks: Iterable[Sequence[ObjectMeta]]) -> list[str] | None:
    """What is listed as an empty object, which S3A may have left as a sign of a folder; None as soon as there is anything else."""
    signs = []
    for chunk in chunks:
        for each in chunk:
            if each["size"] or each["path"].endswith(f"/{_FOLDER}"):
                return None
            signs.append(each["path"])
    return signs


def _entry(key: str, meta: ObjectMeta) -> Entry:
    changed: datetime = meta["last_modified"]
    modified_ns = round(changed.timestamp() * 1000) * 1_000_000
    size, tag = meta["size"], meta["e_tag"] or ""
    # Without the answer's dictionary: a listing of a large landing zone keeps an entry for each object.
    return Entry(key, "content", lambda: Status(size, modified_ns, (tag, size), tag))


def _is_own(name: str) -> bool:
    return name == _FOLDER or name.startswith(_PROBE)


def _is_utf8(key: str) -> bool:
    try:
        key.encode()
    except UnicodeEncodeError:
        return False
    return True
