"""Between clients and the S3 server: knows who signed each request, refuses keys that have ended, and signs again for the server."""

from __future__ import annotations

import hashlib
import hmac
import re
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from tests.s3_server import REGION, S3Process
from tests.store.proxy import Answer, S3Proxy
from tests.store.token_endpoint import Key

_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/s3/aws4_request, ?SignedHeaders=([^,]+), ?Signature=(\w+)"
)
_HASH = "x-amz-content-sha256"
_TOKEN = "x-amz-security-token"


@dataclass(frozen=True)
class SignedRequest:
    """A request, and what became of it."""

    agent: str
    """The client's name for itself."""
    method: str
    path: str
    access_key: str
    refused: str
    """The code of the refusal; empty for one that was passed on."""


class IdentityProxy(S3Proxy):
    """As AWS does for keys that last some time; the server of the tests knows only its own.

    What it refuses, it answers with the fields that AWS answers with: access key and session token are among them.

    Args:
        server: The server.
        keys: Those that exist, by access key.
    """

    def __init__(self, server: S3Process, keys: Mapping[str, Key]) -> None:
        super().__init__(server.endpoint)
        self._root, self._keys = server, keys
        self.signed: list[SignedRequest] = []
        self.expired_agent = ""
        """A text in the names of clients whose keys are refused as expired, although they are not."""

    def pass_on(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        """Passes on what is signed by a key that exists and has not ended."""
        given = {name.lower(): value for name, value in headers.items()}
        access_key, code, named = self._check(method, path, given)
        agent = given.get("user-agent", "")
        self.signed.append(SignedRequest(agent, method, path, access_key, code))
        if code:
            text = "" if method == "HEAD" else f"<Error><Code>{code}</Code><Message>No.</Message>{named}</Error>"
            status = 400 if code in ("ExpiredToken", "InvalidToken") else 403
            return status, [("Content-Type", "application/xml")], text.encode()
        return super().pass_on(method, path, *self._for_server(method, path, given, body))

    def identities(self, path: str = "") -> set[str]:
        """Whose requests were passed on, of those whose path has a text."""
        return {self._keys[each.access_key].identity for each in self.signed if path in each.path and not each.refused}

    def _check(self, method: str, path: str, given: Mapping[str, str]) -> tuple[str, str, str]:
        """The access key; the code of a refusal; and what AWS quotes with it."""
        parsed = _AUTHORIZATION.fullmatch(given.get("authorization", ""))
        if parsed is None:
            return "", "AccessDenied", ""
        access_key, day, region, signed, signature = parsed.groups()
        key = self._keys.get(access_key)
        quoted = f"<AWSAccessKeyId>{access_key}</AWSAccessKeyId>"
        if key is None:
            return access_key, "InvalidAccessKeyId", quoted
        token = given.get(_TOKEN, "")
        if token != key.token:
            return access_key, "InvalidToken", f"<Token-0>{token}</Token-0>"
        names = signed.split(";")
        expected = _signature(key.secret_key, day, region, method, path, {name: given[name] for name in names}, given)
        if not hmac.compare_digest(expected, signature) or (token and _TOKEN not in names):
            return access_key, "SignatureDoesNotMatch", quoted + f"<StringToSign>{access_key}</StringToSign>"
        if key.has_ended or (self.expired_agent and self.expired_agent in given.get("user-agent", "")):
            return access_key, "ExpiredToken", f"<Token-0>{token}</Token-0>"
        return access_key, "", ""

    def _for_server(self, method: str, path: str, given: dict[str, str], body: bytes) -> tuple[dict[str, str], bytes]:
        """Headers and body as the server's own identity sends them."""
        headers = {name: value for name, value in given.items() if name not in ("authorization", _TOKEN)}
        if given.get(_HASH, "").startswith("STREAMING-"):
            body, trailers = _decoded(body)
            dropped = ("x-amz-decoded-content-length", "x-amz-trailer", "content-encoding")
            headers = {name: value for name, value in headers.items() if name not in dropped} | trailers
        now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        headers |= {"x-amz-date": now, _HASH: hashlib.sha256(body).hexdigest()}
        if "content-length" in headers or body:
            headers["content-length"] = str(len(body))
        signed = {name: value for name, value in headers.items() if name.startswith("x-amz-") or name == "host"}
        root = self._root
        signature = _signature(root.secret_key, now[:8], REGION, method, path, signed, headers)
        scope = f"{root.access_key}/{now[:8]}/{REGION}/s3/aws4_request"
        headers["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders={';'.join(sorted(signed))}, Signature={signature}"
        )
        return headers, body


def _signature(
    secret: str, day: str, region: str, method: str, path: str, signed: Mapping[str, str], given: Mapping[str, str]
) -> str:
    """AWS' signature, version 4, of a request to S3."""
    name, _, query = path.partition("?")
    fields = sorted(
        (_quoted(field), _quoted(value)) for field, value in urllib.parse.parse_qsl(query, keep_blank_values=True)
    )
    request = "\n".join(
        [
            method,
            urllib.parse.quote(urllib.parse.unquote(name), safe="/-_.~"),
            "&".join(f"{field}={value}" for field, value in fields),
            *(f"{header}:{' '.join(signed[header].split())}" for header in sorted(signed)),
            "",
            ";".join(sorted(signed)),
            given[_HASH],
        ]
    )
    scope = f"{day}/{region}/s3/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", given["x-amz-date"], scope, hashlib.sha256(request.encode()).hexdigest()])
    key = f"AWS4{secret}".encode()
    for part in (day, region, "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.new(key, text.encode(), "sha256").hexdigest()


def _quoted(text: str) -> str:
    return urllib.parse.quote(text, safe="-_.~")


def _decoded(body: bytes) -> tuple[bytes, dict[str, str]]:
    """What is sent in signed chunks, and the headers behind it."""
    content = b""
    while True:
        line, _, body = body.partition(b"\r\n")
        size = int(line.partition(b";")[0], 16)
        if size == 0:
            break
        content, body = content + body[:size], body[size + 2 :]
    lines = [line.partition(":") for line in body.decode().split("\r\n") if line]
    return content, {
        name.strip().lower(): value.strip() for name, _, value in lines if name != "x-amz-trailer-signature"
    }
