"""Requests to addresses that a person configured, to a real server."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tidegate import web


class Server(HTTPServer):
    """Answers ``/here``, and leads from ``/away`` to it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str] = []
        self.address = f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append(f"{self.command} {self.path} {self.headers['Authorization']}")
        if self.path == "/away":
            self.send_response(302)
            self.send_header("Location", f"{self.server.address}/here")
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


def test_what_the_address_answers_comes_back_whole(server: Server) -> None:
    request = urllib.request.Request(f"{server.address}/here", headers={"Authorization": web.basic("ada", "x:y")})
    with web.ask(request, 10) as answer:
        assert answer.read() == b"content"
    assert server.asked == ["GET /here Basic YWRhOng6eQ=="]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_nobody_is_followed_to_where_an_answer_leads(server: Server, method: str) -> None:
    with pytest.raises(urllib.error.HTTPError, match="302"):
        web.ask(urllib.request.Request(f"{server.address}/away", method=method), 10)
    assert server.asked == [f"{method} /away None"], "it was never asked for what lies elsewhere"


def test_user_and_password_are_told_as_the_standard_says() -> None:
    assert web.basic("Aladdin", "open sesame") == "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="
    assert web.basic("test", "123£") == "Basic dGVzdDoxMjPCow=="
