"""Endpoints that hand out credentials for some time: of STS, of a container, of an instance."""

from __future__ import annotations

import http.server
import json
import secrets
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.serving import serving

ROLE = "arn:aws:iam::1:role/r"


@dataclass
class Key:
    """An access key of an identity. All that is secret has the word canary."""

    identity: str
    """The source that it was handed out by, or that has it."""
    token: str
    """The session token; empty for a key without."""
    ends_at: datetime | None = None
    """When a server refuses it."""
    access_key: str = field(default_factory=lambda: f"canary-{secrets.token_hex(8)}")
    secret_key: str = field(default_factory=lambda: f"canary-{secrets.token_hex(16)}")

    @property
    def has_ended(self) -> bool:
        """Whether a server refuses it as expired."""
        return self.ends_at is not None and datetime.now(UTC) >= self.ends_at


class TokenEndpoint:
    """One server for the three kinds of endpoints, and the keys that exist."""

    def __init__(self) -> None:
        self.lasts = timedelta(hours=1)
        """How long a key lasts that is handed out from now on."""
        self.status = 200
        self.requests: list[str] = []
        self.keys: dict[str, Key] = {}
        """By access key."""
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    @contextmanager
    def serving(self) -> Iterator[TokenEndpoint]:
        """Until the end of the context."""
        with serving(self._server):
            yield self

    def new_key(self, identity: str, *, token: bool = True) -> Key:
        """A key that lasts until it is ended."""
        key = Key(identity, f"canary-{secrets.token_hex(16)}" if token else "")
        self.keys[key.access_key] = key
        return key

    def end_all(self, after: timedelta = timedelta()) -> None:
        """Let every key that exists end soon, whatever was said when it was handed out."""
        for key in list(self.keys.values()):
            key.ends_at = datetime.now(UTC) + after

    def texts(self) -> set[str]:
        """What must be in no text: all that is secret, and the access keys."""
        return {
            text for key in list(self.keys.values()) for text in (key.access_key, key.secret_key, key.token) if text
        }

    def variables(self, source: str, folder: Path) -> dict[str, str]:
        """What configures a source, and no other. A static key is a new one.

        Args:
            source: Its name.
            folder: For files.
        """
        if source == "environment":
            key = self.new_key(source)
            return {
                "AWS_ACCESS_KEY_ID": key.access_key,
                "AWS_SECRET_ACCESS_KEY": key.secret_key,
                "AWS_SESSION_TOKEN": key.token,
            }
        if source == "web-identity":
            (folder / "token").write_text("canary-identity")
            return {
                "AWS_WEB_IDENTITY_TOKEN_FILE": str(folder / "token"),
                "AWS_ROLE_ARN": ROLE,
                "AWS_ENDPOINT_URL_STS": self.url,
            }
        if source == "profile":
            key = self.new_key(source, token=False)
            (folder / "credentials").write_text(f"[x]\naws_access_key_id = {key.access_key}\n")
            (folder / "config").write_text(f"[profile x]\naws_secret_access_key = {key.secret_key}\n")
            files = {
                "AWS_SHARED_CREDENTIALS_FILE": str(folder / "credentials"),
                "AWS_CONFIG_FILE": str(folder / "config"),
            }
            return {"AWS_PROFILE": "x", **files}
        if source == "container":
            (folder / "authorization").write_text("canary-authorization")
            return {
                "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{self.url}/container",
                "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(folder / "authorization"),
            }
        assert source == "instance", source
        return {"AWS_EC2_METADATA_SERVICE_ENDPOINT": self.url}

    def _handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        endpoint = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                endpoint.requests.append(f"{self.command} {self.path}")
                status, text = endpoint._answer(self.command, self.path, dict(self.headers), body.decode())
                self.send_response_only(endpoint.status if status == 200 else status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            do_GET = do_PUT = do_POST = answer  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        return Handler

    def _answer(self, method: str, path: str, headers: dict[str, str], body: str) -> tuple[int, str]:
        given = {name.lower(): value for name, value in headers.items()}
        roles = "/latest/meta-data/iam/security-credentials/"
        if path == "/container":
            if given.get("authorization") != "canary-authorization":
                return 403, "canary-authorization is missing"
            return 200, json.dumps(self._fields("container", "Token"))
        if path == "/latest/api/token":
            has_lifetime = method == "PUT" and "x-aws-ec2-metadata-token-ttl-seconds" in given
            return (200, "canary-session") if has_lifetime else (400, "")
        if path.startswith("/latest/"):
            if given.get("x-aws-ec2-metadata-token") != "canary-session":
                return 401, ""
            if path == roles:
                return 200, "role-of-me"
            if path == f"{roles}role-of-me":
                return 200, json.dumps(self._fields("instance", "Token") | {"Code": "Success"})
            return 404, ""
        if method == "POST" and path == "/":
            fields = urllib.parse.parse_qs(body)
            if fields.get("WebIdentityToken") != ["canary-identity"] or fields["RoleArn"] != [ROLE]:
                code = "<Code>InvalidIdentityToken</Code><Message>canary-identity was expected</Message>"
                return 400, f"<ErrorResponse><Error><Type>Sender</Type>{code}</Error></ErrorResponse>"
            tags = "".join(
                f"<{name}>{value}</{name}>" for name, value in self._fields("web-identity", "SessionToken").items()
            )
            result = "AssumeRoleWithWebIdentity"
            return 200, (
                f'<{result}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><{result}Result>'
                f"<Credentials>{tags}</Credentials></{result}Result></{result}Response>"
            )
        return 404, ""

    def _fields(self, identity: str, token: str) -> dict[str, str]:
        key = self.new_key(identity)
        key.ends_at = (datetime.now(UTC) + self.lasts).replace(microsecond=0)
        return {
            "AccessKeyId": key.access_key,
            "SecretAccessKey": key.secret_key,
            token: key.token,
            "Expiration": key.ends_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
