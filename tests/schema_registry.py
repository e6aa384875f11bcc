"""A small HTTP server with the part of the Schema Registry's REST API that serializers and Tidegate use.

``POST /subjects/<subject>/versions`` registers a schema, ``GET /schemas/ids/<id>`` returns one. Responses and error codes are
those of Confluent's registry (its API reference, "Schemas" and "Subjects"). It replaces a real registry in tests: no package
index has one that can run here.
"""

from __future__ import annotations

import base64
import json
import ssl
import struct
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from tidegate.environment.registry import RegistryServer


class SchemaRegistry:
    """Runs inside its ``with`` block. ``down`` makes it answer 503; ``redirect_to`` is an address to redirect requests to.

    Args:
        user: User and password that it asks for, with a colon between them.
        certificate: A file with its certificate and key; without one it speaks HTTP.
        clients_of: A file with the authority of the certificates that it asks clients for.
    """

    def __init__(self, user: str = "", *, certificate: Path | None = None, clients_of: Path | None = None) -> None:
        self.certificate, self.clients_of = certificate, clients_of
        self.schemas: list[dict[str, Any]] = []
        self.requests: list[str] = []
        self.user = user
        self.down = False
        self.redirect_to = ""

    def __enter__(self) -> Self:
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.requests.append(self.path)
                credentials = base64.b64decode(self.headers.get("Authorization", "").removeprefix("Basic ")).decode()
                number = self.path.rpartition("/")[2]
                if registry.down:
                    self._respond(503, {"error_code": 50003, "message": "unavailable"})
                elif registry.redirect_to:
                    self.send_response(302)
                    self.send_header("Location", registry.redirect_to + self.path)
                    self.end_headers()
                elif registry.user and credentials != registry.user:
                    self._respond(401, {"error_code": 401, "message": "Unauthorized"})
                elif not self.path.startswith("/schemas/ids/") or not 0 < int(number) <= len(registry.schemas):
                    self._respond(404, {"error_code": 40403, "message": "Schema not found"})
                else:
                    self._respond(200, registry.schemas[int(number) - 1])

            def do_POST(self) -> None:
                schema = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self._respond(200, {"id": registry.add(schema)})

            def _respond(self, status: int, body: dict[str, Any]) -> None:
                content = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None: ...

        self.server = _Server(("127.0.0.1", 0), Handler)
        if self.certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.certificate)
            if self.clients_of is not None:
                context.verify_mode = ssl.CERT_REQUIRED
                context.load_verify_locations(self.clients_of)
            # The handshake in the thread of the request: a client that refuses must not stop the others.
            self.server.socket = context.wrap_socket(
                self.server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    @property
    def address(self) -> str:
        user = f"{self.user}@" if self.user else ""
        return f"{self._server_address.replace('//', f'//{user}')}"

    @property
    def _server_address(self) -> str:
        secure = self.certificate is not None
        return f"{'https://localhost' if secure else 'http://127.0.0.1'}:{self.server.server_port}"

    @property
    def settings(self) -> RegistryServer:
        """The same as the platform has it: the address with the user."""
        return RegistryServer(url=self.address)

    def register(self, schema: Any, kind: str = "AVRO") -> int:
        """Register a schema, and return its id."""
        return self.add({"schema": json.dumps(schema)} | ({} if kind == "AVRO" else {"schemaType": kind}))

    def add(self, schema: dict[str, Any]) -> int:
        """As a serializer registers it."""
        if schema not in self.schemas:
            self.schemas.append(schema)
        return self.schemas.index(schema) + 1


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing about clients that end a connection."""


def framed(schema_id: int, payload: bytes) -> bytes:
    """The wire format: a zero byte, the id, the payload."""
    return struct.pack(">bI", 0, schema_id) + payload
