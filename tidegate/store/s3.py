"""A server that speaks S3's protocol, as the environment describes it: the same for obstore, delta-rs and S3A.

Credentials come from one source, in the order in which a configured one is taken, each with the variables of AWS' own tools:
``environment`` (``AWS_ACCESS_KEY_ID``, ``AWS_SECRET_ACCESS_KEY``, ``AWS_SESSION_TOKEN``), ``web-identity``
(``AWS_WEB_IDENTITY_TOKEN_FILE``, ``AWS_ROLE_ARN``), ``profile`` (``AWS_PROFILE``, with keys in it), ``container``
(``AWS_CONTAINER_CREDENTIALS_FULL_URI`` or ``…_RELATIVE_URI``), ``instance`` (the instance's metadata).
A connection of Airflow, ``airflow-connection:<id>``, is only taken if it is named. The guide to buckets has the rules of each.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tidegate.advice import Edit
from tidegate.errors import SetupError
from tidegate.store.counted import CountedClient
from tidegate.store.credentials import Credentials, CredentialSource

if TYPE_CHECKING:
    from obstore.store import S3Config, S3Credential

SCHEMES = ("s3", "s3a")


class S3Server:
    """The server of buckets, and who uses it. Nothing of the credentials is in its text.

    Args:
        variables: The environment.

    Raises:
        SetupError: A variable does not have a meaning.
    """

    def __init__(self, variables: Mapping[str, str]) -> None:
        self.region = variables.get("AWS_REGION") or variables.get("AWS_DEFAULT_REGION") or "us-east-1"
        url = variables.get("AWS_ENDPOINT_URL_S3") or variables.get("AWS_ENDPOINT_URL")
        self.endpoint = _server_url(url) if url else f"https://s3.{self.region}.amazonaws.com"
        self.credentials = CredentialSource(variables)
        self.checked_buckets: set[str] = set()
        """Those in which conditions were seen to be honoured."""
        self._clients: dict[str, tuple[Credentials, CountedClient]] = {}
        self._lock = threading.Lock()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, S3Server) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def __repr__(self) -> str:
        return f"S3Server({self.endpoint!r}, {self.region!r}, {self.credentials!r})"

    @property
    def name(self) -> str:
        """For messages."""
        return urlsplit(self.endpoint).netloc

    @property
    def _identity(self) -> tuple[str, str, str]:
        return self.endpoint, self.region, self.credentials.name

    def client(self, bucket: str) -> tuple[CountedClient, Credentials]:
        """A client of obstore for a bucket, and whose it is. It tries nothing again: `ObjectStore` does."""
        from obstore.store import S3Store

        credentials = self.credentials.get()
        with self._lock:
            known = self._clients.get(bucket)
            if known is not None and known[0] == credentials:
                return known[1], credentials
            # Each setting that obstore would look up in the environment by itself is given.
            config: S3Config = {
                "endpoint": self.endpoint,
                "aws_endpoint_url_s3": self.endpoint,
                "region": self.region,
                "virtual_hosted_style_request": False,
                "skip_signature": False,
                "copy_if_not_exists": "multipart",
            }
            client = CountedClient(
                S3Store(
                    bucket,
                    config=config,
                    client_options={"allow_http": self._is_plain, "timeout": "30s", "connect_timeout": "5s"},
                    retry_config={"max_retries": 0},
                    credential_provider=lambda: _of_obstore(credentials),
                )
            )
            self._clients[bucket] = credentials, client
            return client, credentials

    @property
    def handed_on(self) -> dict[str, str]:
        """The variables from which executors know server and source of credentials. None is a secret: they get those from the source."""
        return {
            "AWS_ENDPOINT_URL_S3": self.endpoint,
            "AWS_REGION": self.region,
            **self.credentials.handed_on,
        }

    @property
    def delta_options(self) -> dict[str, str]:
        """``storage_options`` of delta-rs, which creates each commit under a condition."""
        credentials = self.credentials.get()
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ENDPOINT_URL_S3": self.endpoint,
            "AWS_REGION": self.region,
            "AWS_ALLOW_HTTP": str(self._is_plain).lower(),
            "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "false",
            "AWS_CONDITIONAL_PUT": "etag",
            "AWS_SKIP_SIGNATURE": "false",
            "AWS_ACCESS_KEY_ID": credentials.access_key,
            "AWS_SECRET_ACCESS_KEY": credentials.secret_key,
            **({"AWS_SESSION_TOKEN": credentials.session_token} if credentials.session_token else {}),
        }

    @property
    def hadoop_settings(self) -> dict[str, str]:
        """Hadoop's settings for S3A, which reads the same credentials from the same source by itself: none are in here."""
        return {
            "fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
            "fs.s3a.endpoint": self.endpoint,
            "fs.s3a.endpoint.region": self.region,
            "fs.s3a.path.style.access": "true",
            "fs.s3a.connection.ssl.enabled": str(not self._is_plain).lower(),
            "fs.s3a.aws.credentials.provider": self.credentials.s3a_provider,
        }

    @property
    def _is_plain(self) -> bool:
        return self.endpoint.startswith("http://")


def _of_obstore(credentials: Credentials) -> S3Credential:
    return {
        "access_key_id": credentials.access_key,
        "secret_access_key": credentials.secret_key,
        "token": credentials.session_token or None,
        "expires_at": None,
    }


def _server_url(url: str) -> str:
    parts = urlsplit(url)
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or parts.username
        or parts.path.strip("/")
        or parts.query
    ):
        raise SetupError(
            "AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL is not the URL of a server",
            Edit("set one such as https://storage.example.com:9000, without a path, a bucket or a password", "setting"),
        )
    return url.rstrip("/")
