"""A small server that speaks the part of the Schema Registry's REST contract that serializers and Tidegate use.

``POST /subjects/<subject>/versions`` registers, ``GET /schemas/ids/<id>`` tells; answers and error codes are those of
Confluent's registry (its API reference, "Schemas" and "Subjects"). It is a stand-in: no registry that can be run here is
in a package index.
"""

from __future__ import annotations

import base64
import json
import struct
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.request import Request, urlopen


class SchemaRegistry:
    """Runs while it is open; ``down`` lets it answer 503, ``leads_to`` send everybody on."""

    def __init__(self, user: str = "") -> None:
        self.schemas: list[dict[str, Any]] = []
        self.asked: list[str] = []
        self.user = user
        self.down = False
        self.leads_to = ""

    def __enter__(self) -> Self:
        ours = self

        class Answers(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                ours.asked.append(self.path)
                given = base64.b64decode(self.headers.get("Authorization", "").removeprefix("Basic ")).decode()
                number = self.path.rpartition("/")[2]
                if ours.down:
                    self._say(503, {"error_code": 50003, "message": "away"})
                elif ours.leads_to:
                    self.send_response(302)
                    self.send_header("Location", ours.leads_to + self.path)
                    self.end_headers()
                elif ours.user and given != ours.user:
                    self._say(401, {"error_code": 401, "message": "Unauthorized"})
                elif not self.path.startswith("/schemas/ids/") or not 0 < int(number) <= len(ours.schemas):
                    self._say(404, {"error_code": 40403, "message": "Schema not found"})
                else:
                    self._say(200, ours.schemas[int(number) - 1])

            def do_POST(self) -> None:
                told = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if told not in ours.schemas:
                    ours.schemas.append(told)
                self._say(200, {"id": ours.schemas.index(told) + 1})

            def _say(self, status: int, told: dict[str, Any]) -> None:
                content = json.dumps(told).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
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
        return f"http://{user}127.0.0.1:{self.server.server_port}"

    def register(self, schema: Any, kind: str = "AVRO") -> int:
        """As a serializer does it; returns the id."""
        told = {"schema": json.dumps(schema)} | ({} if kind == "AVRO" else {"schemaType": kind})
        place = f"http://127.0.0.1:{self.server.server_port}/subjects/clicks-value/versions"
        with urlopen(Request(place, json.dumps(told).encode(), {"Content-Type": "application/json"})) as answer:
            return int(json.loads(answer.read())["id"])


def framed(schema_id: int, payload: bytes) -> bytes:
    """The wire format: a zero byte, the id, the payload."""
    return struct.pack(">bI", 0, schema_id) + payload
