"""Between a client and an S3 server: answers in its place, loses answers, ignores conditions."""

from __future__ import annotations

import http.client
import re
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from tests.serving import serving
from tests.waiting import TIMEOUT_SECONDS

PROTOCOL_FILE = re.compile(r"/_delta_log/\d{20}\.json$|/(offsets|commits)/\d+$|/sources/\d+/\d+(\.compact)?$")
"""Commits of Delta and the logs of Spark's checkpoints: each is created once, by one writer."""


Answer = tuple[int, list[tuple[str, str]], bytes]
"""Status, headers and content."""


@dataclass
class ServerFault:
    """One request that does not get its answer."""

    method: str
    """For example ``PUT``; empty for any."""
    path: str = ""
    """A regular expression of its path and query, from anywhere in it."""
    status: int = 0
    """The answer in place of the server's; 0 resets the connection."""
    code: str = ""
    after: bool = False
    """Whether the request has its effect."""
    repeats: bool = False
    """Whether all further requests that match fail, too."""
    cut: bool = False
    """Whether the answer is the server's, of whose content only the first half arrives."""
    delay: float = 0.0
    """Seconds after which the answer of the server begins, in place of a failure."""
    then: Callable[[], None] = field(default=lambda: None)
    """Called before the client learns of the fault."""
    fired: bool = False


class S3Proxy:
    """Passes requests on, except for faults, and for writes that the policy of a lake's bucket refuses (`docs/guides/buckets.md`).

    Args:
        endpoint: The server's URL.
    """

    def __init__(self, endpoint: str) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._upstream = urlsplit(endpoint).netloc
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        self.ignored_condition = ""
        """A header of requests: where the server refuses one because of it, the client learns that it was done."""
        self.requests: list[tuple[str, str]] = []
        """Method and path of each."""
        self.agents: list[str] = []
        """Who sent each, as it says."""
        self.refused: list[str] = []
        """Paths of requests that would have written a file of a protocol without a condition; answered with 403."""
        self._faults: list[ServerFault] = []
        self._lock = threading.Lock()

    def fail(self, fault: ServerFault) -> ServerFault:
        """Let the next request that matches fail; `ServerFault.fired` says afterwards whether one has."""
        with self._lock:
            self._faults.append(fault)
        return fault

    def forget(self, faults: Iterable[ServerFault]) -> None:
        """Let no further request meet these faults."""
        with self._lock:
            for fault in faults:
                self._faults.remove(fault)

    @contextmanager
    def failing(self, fault: ServerFault) -> Iterator[ServerFault]:
        """Let requests fail until the end of the context."""
        try:
            yield self.fail(fault)
        finally:
            self.forget([fault])

    @contextmanager
    def serving(self) -> Iterator[S3Proxy]:
        """Until the end of the context."""
        with serving(self._server):
            yield self

    def pass_on(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        """The server's answer to a request."""
        connection = http.client.HTTPConnection(self._upstream, timeout=TIMEOUT_SECONDS)
        try:
            # The signature is of the Host that the client knows.
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in headers.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            response = connection.getresponse()
            return response.status, response.getheaders(), response.read()
        finally:
            connection.close()

    def _fault_of(self, method: str, path: str, agent: str) -> ServerFault | None:
        with self._lock:
            self.requests.append((method, path))
            self.agents.append(agent)
            for fault in self._faults:
                matches = fault.method in ("", method) and re.search(fault.path, path)
                if matches and (fault.repeats or not fault.fired):
                    fault.fired = True
                    return fault
        return None

    def _refuses(self, method: str, path: str, headers: Message) -> bool:
        name, _, query = path.partition("?")
        completes = (method == "PUT" and "partNumber=" not in query) or (method == "POST" and "uploadId=" in query)
        refuses = bool(completes and PROTOCOL_FILE.search(name) and headers.get("If-None-Match") != "*")
        if refuses:
            with self._lock:
                self.refused.append(path)
        return refuses

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                fault = proxy._fault_of(self.command, self.path, self.headers.get("User-Agent", ""))
                if proxy._refuses(self.command, self.path, self.headers):
                    fault = ServerFault(self.command, status=403, code="AccessDenied")
                passes = fault is None or fault.after or fault.cut or fault.delay
                answer = self.passed_on(body) if passes else None
                if fault is not None:
                    fault.then()
                    time.sleep(fault.delay)
                if fault is not None and not (fault.cut or fault.delay):
                    if not fault.status:
                        # A reset, in place of an orderly end.
                        linger = struct.pack("ii", 1, 0)
                        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                        self.close_connection = True
                        return
                    text = f"<Error><Code>{fault.code}</Code></Error>" if fault.code else ""
                    answer = fault.status, [("Content-Type", "application/xml")], text.encode()
                assert answer is not None
                status, headers, content = answer
                self.send_response_only(status)
                is_head = self.command == "HEAD"
                for name, value in headers:
                    if name.lower() not in ("transfer-encoding", "connection") and (
                        is_head or name.lower() != "content-length"
                    ):
                        self.send_header(name, value)
                if not is_head:
                    self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if fault is not None and fault.cut:
                    self.wfile.write(content[: len(content) // 2])
                    self.close_connection = True
                elif not is_head:
                    self.wfile.write(content)

            do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = handle_one  # noqa: N815

            def passed_on(self, body: bytes) -> Answer:
                answer = proxy.pass_on(self.command, self.path, dict(self.headers.items()), body)
                if answer[0] == 412 and self.headers.get(proxy.ignored_condition):
                    return 200, [("ETag", '"0"')], b""
                return answer

            def log_message(self, *_: object) -> None:
                pass

        return Handler


def received(requests: Iterable[tuple[str, str]]) -> Counter[str]:
    """Requests that a server got, by method and kind of object."""
    kinds: Counter[str] = Counter()
    for method, target in requests:
        url = urlsplit(target)
        query = parse_qs(url.query)
        key = "/" + query.get("prefix", [""])[0] if "list-type" in query else url.path
        below = key.partition("/checkpoints/")[2]
        kind = "log" if "/_delta_log" in key else "other"
        if below and kind != "log":
            kind = "state" if "/state/" in below else "checkpoint"
        kinds[f"{'LIST' if 'list-type' in query else method} {kind}"] += 1
    return kinds
