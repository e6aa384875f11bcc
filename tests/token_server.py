"""A server that gives tokens to clients of Kafka, as an OAuth provider does, and the file with its public key for a broker."""

from __future__ import annotations

import base64
import contextlib
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.waiting import TIMEOUT_SECONDS


class TokenServer:
    """The key with which tokens are signed, and the clients that get one.

    Args:
        secrets: Id of a client to its secret.
    """

    def __init__(self, secrets: dict[str, str]) -> None:
        self.secrets, self.given = secrets, list[str]()
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def write_keys(self, path: Path) -> None:
        """Write the public key as a JSON Web Key Set."""
        numbers = self._key.public_key().public_numbers()
        parts = {"n": numbers.n, "e": numbers.e}
        encoded = {name: _encoded(each.to_bytes((each.bit_length() + 7) // 8)) for name, each in parts.items()}
        path.write_text(json.dumps({"keys": [{"kty": "RSA", "kid": "1", "use": "sig", "alg": "RS256", **encoded}]}))

    def token(self, client: str) -> str:
        """A token for a client, valid for ten minutes."""
        now = int(time.time())
        claims = {"sub": client, "iss": "tests", "aud": "kafka", "scope": "kafka", "iat": now, "exp": now + 600}
        parts = [_encoded(json.dumps(each).encode()) for each in ({"alg": "RS256", "kid": "1"}, claims)]
        signature = self._key.sign(".".join(parts).encode(), padding.PKCS1v15(), hashes.SHA256())
        self.given.append(client)
        return ".".join([*parts, _encoded(signature)])

    @contextlib.contextmanager
    def serve(self) -> Iterator[str]:
        """Serve tokens; the URL."""
        tokens = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                kind, _, given = self.headers.get("Authorization", "").partition(" ")
                client, _, secret = base64.b64decode(given).decode().partition(":") if kind == "Basic" else ("", "", "")
                known = tokens.secrets.get(client) == secret
                answer: dict[str, Any] = {"error": "invalid_client"}
                if known:
                    answer = {"access_token": tokens.token(client), "token_type": "bearer", "expires_in": 600}
                body = json.dumps(answer).encode()
                self.send_response(200 if known else 401)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                del format, args

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/token"
        finally:
            server.shutdown()
            server.server_close()
            thread.join(TIMEOUT_SECONDS)


def _encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")
