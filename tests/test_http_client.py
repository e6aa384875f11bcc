"""HTTP requests to a real server."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tidegate import http_client


class Server(HTTPServer):
    """Responds to ``/target``, and redirects from ``/redirect`` to it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[str] = []
        self.address = f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.requests.append(f"{self.command} {self.path} {self.headers['Authorization']}")
        if self.path == "/redirect":
            self.send_response(302)
            self.send_header("Location", f"{self.server.address}/target")
            self.end_headers()
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"content")

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        yield serving
        serving.shutdown()
        thread.join()


def test_the_response_is_returned_with_its_body(server: Server) -> None:
    request = urllib.request.Request(
        f"{server.address}/target", headers={"Authorization": http_client.basic_auth("ada", "x:y")}
    )
    with http_client.send(request, 10) as response:
        assert response.read() == b"content"
    assert server.requests == ["GET /target Basic YWRhOng6eQ=="]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_redirect_is_not_followed(server: Server, method: str) -> None:
    with pytest.raises(urllib.error.HTTPError, match="302"):
        http_client.send(urllib.request.Request(f"{server.address}/redirect", method=method), 10)
    assert server.requests == [f"{method} /redirect None"], "there was no second request"


def test_basic_auth_encodes_as_rfc_7617_requires() -> None:
    assert http_client.basic_auth("Aladdin", "open sesame") == "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="
    assert http_client.basic_auth("test", "123£") == "Basic dGVzdDoxMjPCow=="
