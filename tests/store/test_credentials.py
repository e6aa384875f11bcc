"""Where the credentials of buckets come from: one source, for every program that reads and writes there."""

from __future__ import annotations

import http.server
import json
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tidegate.errors import MachineUnavailableError, SetupError, TidegateError
from tidegate.store.credentials import SOURCES, CredentialSource
from tidegate.store.s3 import S3Server

KEYS = {"AWS_ACCESS_KEY_ID": "canary-environment", "AWS_SECRET_ACCESS_KEY": "canary-secret"}


class Endpoint:
    """An endpoint of each kind that gives credentials: of STS, of a container, of an instance."""

    def __init__(self) -> None:
        self.lasts = timedelta(hours=1)
        self.status = 200
        self.requests: list[str] = []
        handler = self._handler()
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        endpoint = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                endpoint.requests.append(f"{self.command} {self.path}")
                text = self.text(body.decode())
                self.send_response_only(endpoint.status if text else 403)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            do_GET = do_PUT = do_POST = answer  # noqa: N815

            def text(self, body: str) -> str:
                number = len(endpoint.requests)
                ends = (datetime.now(UTC) + endpoint.lasts).strftime("%Y-%m-%dT%H:%M:%SZ")
                keys = {"AccessKeyId": f"canary-{number}", "SecretAccessKey": "canary-s", "Expiration": ends}
                if self.path == "/latest/api/token":
                    return "canary-session" if self.headers["X-aws-ec2-metadata-token-ttl-seconds"] else ""
                if (
                    self.path.startswith("/latest/meta-data")
                    and self.headers["X-aws-ec2-metadata-token"] != "canary-session"
                ):
                    return ""
                if self.path == "/latest/meta-data/iam/security-credentials/":
                    return "role of me"
                if self.path == "/latest/meta-data/iam/security-credentials/role%20of%20me":
                    return json.dumps(keys | {"Token": "canary-token"})
                if self.path == "/container" and self.headers["Authorization"] == "canary-authorization":
                    return json.dumps(keys | {"Token": "canary-token"})
                fields = urllib.parse.parse_qs(body)
                if fields.get("WebIdentityToken") == ["canary-identity"] and fields["RoleArn"] == [
                    "arn:aws:iam::1:role/r"
                ]:
                    tags = "".join(
                        f"<{name}>{value}</{name}>" for name, value in (keys | {"SessionToken": "canary-token"}).items()
                    )
                    return f'<R xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Credentials>{tags}</Credentials></R>'
                return ""

            def log_message(self, *_: object) -> None:
                pass

        return Handler


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    serving = Endpoint()
    yield serving
    serving.close()


def variables(source: str, endpoint: Endpoint, folder: Path) -> dict[str, str]:
    """What configures a source, and no other."""
    (folder / "token").write_text("canary-identity\n")
    (folder / "authorization").write_text("canary-authorization\n")
    (folder / "credentials").write_text("[x]\naws_access_key_id = canary-profile\n")
    (folder / "config").write_text(
        "[profile x]\naws_secret_access_key = canary%secret\naws_session_token = canary-token\n"
    )
    of_source = {
        "environment": KEYS | {"AWS_SESSION_TOKEN": "canary-token"},
        "web-identity": {
            "AWS_WEB_IDENTITY_TOKEN_FILE": str(folder / "token"),
            "AWS_ROLE_ARN": "arn:aws:iam::1:role/r",
            "AWS_ENDPOINT_URL_STS": endpoint.url,
        },
        "profile": {
            "AWS_PROFILE": "x",
            "AWS_SHARED_CREDENTIALS_FILE": str(folder / "credentials"),
            "AWS_CONFIG_FILE": str(folder / "config"),
        },
        "container": {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{endpoint.url}/container",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(folder / "authorization"),
        },
        "instance": {"AWS_EC2_METADATA_SERVICE_ENDPOINT": endpoint.url},
    }
    return {"HOME": str(folder / "nowhere"), **of_source[source]}


@pytest.mark.parametrize("source", SOURCES)
def test_each_source_gives_obstore_and_delta_rs_the_same_keys_and_s3a_its_class(
    source: str, endpoint: Endpoint, tmp_path: Path
) -> None:
    server = S3Server(variables(source, endpoint, tmp_path))
    assert server.credentials.name == source
    credentials, options = server.credentials.get(), server.delta_options
    given = (options["AWS_ACCESS_KEY_ID"], options["AWS_SECRET_ACCESS_KEY"], options["AWS_SESSION_TOKEN"])
    assert given == (credentials.access_key, credentials.secret_key, credentials.session_token)
    assert credentials.session_token == "canary-token"
    client, of_client = server.client("bucket")
    provider = client.credential_provider
    assert of_client is credentials
    assert provider is not None
    assert provider() == {
        "access_key_id": credentials.access_key,
        "secret_access_key": credentials.secret_key,
        "token": "canary-token",
        "expires_at": None,
    }
    classes = {each: S3Server({"TIDEGATE_S3_CREDENTIALS": each}).hadoop_settings for each in SOURCES}
    name = classes[source]["fs.s3a.aws.credentials.provider"]
    assert [each for each, settings in classes.items() if name in settings.values()] == [source]


def test_the_source_is_the_first_that_is_configured_unless_one_is_named(endpoint: Endpoint, tmp_path: Path) -> None:
    for count, source in enumerate(SOURCES):
        together: dict[str, str] = {}
        for each in SOURCES[count:]:
            together |= variables(each, endpoint, tmp_path)
        assert CredentialSource(together).name == source
        named = CredentialSource(together | {"TIDEGATE_S3_CREDENTIALS": SOURCES[-1]})
        assert (named.name, named.get().access_key) == ("instance", f"canary-{len(endpoint.requests)}")
    with pytest.raises(SetupError, match="TIDEGATE_S3_CREDENTIALS='vault'"):
        CredentialSource({"TIDEGATE_S3_CREDENTIALS": "vault"})


@pytest.mark.parametrize("source", ["web-identity", "container", "instance"])
def test_credentials_are_kept_until_shortly_before_they_end_or_are_refused(
    source: str, endpoint: Endpoint, tmp_path: Path
) -> None:
    credentials = CredentialSource(variables(source, endpoint, tmp_path))
    first = credentials.get()
    assert credentials.get() is first
    credentials.forget(first)
    endpoint.lasts = timedelta(minutes=4)
    second = credentials.get()
    assert second != first
    credentials.forget(first)
    third = credentials.get()
    assert third != second, "it ends in four minutes"


def test_a_client_follows_its_credentials(endpoint: Endpoint, tmp_path: Path) -> None:
    server = S3Server(variables("container", endpoint, tmp_path))
    client, credentials = server.client("bucket")
    assert server.client("bucket")[0] is client
    server.credentials.forget(credentials)
    later, _ = server.client("bucket")
    assert later is not client


def without(name: str) -> Callable[[dict[str, str], Path], object]:
    return lambda values, _: values.pop(name)


FAULTS: dict[str, tuple[str, Callable[[dict[str, str], Path], object], str]] = {
    "no secret": ("environment", without("AWS_SECRET_ACCESS_KEY"), "AWS_SECRET_ACCESS_KEY is not set"),
    "no role": ("web-identity", without("AWS_ROLE_ARN"), "AWS_ROLE_ARN is not set"),
    "no token": ("web-identity", lambda _, folder: (folder / "token").unlink(), "has no token for credentials"),
    "another token": ("web-identity", lambda _, folder: (folder / "token").write_text("canary-x"), "it answered 403"),
    "no profile": ("profile", lambda values, _: values.update(AWS_PROFILE="y"), "profile 'y' of AWS_PROFILE has no"),
    "a role": (
        "profile",
        lambda _, folder: (folder / "config").write_text("[profile x]\nrole_arn = canary\nsource_profile = z\n"),
        "gets its keys by role_arn",
    ),
    "no file": ("profile", lambda _, folder: (folder / "config").write_bytes(b"canary\xff"), "config cannot be parsed"),
    "no authorization": ("container", without("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"), "it answered 403"),
    "no answer": (
        "container",
        lambda values, _: values.update(AWS_CONTAINER_CREDENTIALS_FULL_URI="http://127.0.0.1:1/"),
        "it does not answer",
    ),
    "no URL": (
        "container",
        lambda values, _: values.update(AWS_CONTAINER_CREDENTIALS_FULL_URI="canary"),
        "does not answer",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_credentials_that_cannot_be_had_are_an_error_that_says_which_and_none_of_them(
    fault: str, endpoint: Endpoint, tmp_path: Path
) -> None:
    source, spoil, says = FAULTS[fault]
    values = variables(source, endpoint, tmp_path) | {"TIDEGATE_S3_CREDENTIALS": source}
    spoil(values, tmp_path)
    with pytest.raises(TidegateError, match=says) as raised:
        CredentialSource(values).get()
    assert raised.value.transient is ("not answer" in says)
    assert "canary" not in f"{raised.value} {raised.value!r}"


@pytest.mark.parametrize("status", [429, 500, 503])
def test_an_endpoint_that_fails_for_the_moment_is_asked_again_by_the_next_attempt(
    status: int, endpoint: Endpoint, tmp_path: Path
) -> None:
    endpoint.status = status
    credentials = CredentialSource(variables("instance", endpoint, tmp_path))
    with pytest.raises(MachineUnavailableError, match=f"it answered {status}"):
        credentials.get()
    endpoint.status = 200
    assert credentials.get().session_token == "canary-token"


@pytest.mark.parametrize(
    "url",
    ["storage:9000", "ftp://x", "http://", "http://key:canary@storage", "http://storage/bucket", "http://storage?x"],
)
def test_the_url_of_a_server_has_nothing_but_the_server(url: str) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        with pytest.raises(SetupError, match="AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL is not the URL") as raised:
            S3Server({name: url})
        assert "canary" not in str(raised.value)


def test_endpoint_and_region_are_the_same_for_every_program() -> None:
    for values, endpoint, region, tls in (
        ({}, "https://s3.us-east-1.amazonaws.com", "us-east-1", "true"),
        ({"AWS_DEFAULT_REGION": "eu-west-1"}, "https://s3.eu-west-1.amazonaws.com", "eu-west-1", "true"),
        ({"AWS_ENDPOINT_URL": "http://storage:9000/", "AWS_REGION": "x"}, "http://storage:9000", "x", "false"),
        ({"AWS_ENDPOINT_URL": "http://a", "AWS_ENDPOINT_URL_S3": "https://b"}, "https://b", "us-east-1", "true"),
    ):
        server = S3Server(KEYS | values)
        hadoop, delta, (client, _) = server.hadoop_settings, server.delta_options, server.client("bucket")
        assert (hadoop["fs.s3a.endpoint"], delta["AWS_ENDPOINT_URL"], client.config["endpoint"]) == (endpoint,) * 3
        assert (hadoop["fs.s3a.endpoint.region"], delta["AWS_REGION"], client.config["region"]) == (region,) * 3
        assert (hadoop["fs.s3a.connection.ssl.enabled"], delta["AWS_ALLOW_HTTP"]) == (
            tls,
            "false" if tls == "true" else "true",
        )


@pytest.mark.parametrize("source", SOURCES)
def test_nothing_of_the_credentials_is_in_a_text_or_in_a_setting_of_spark(
    source: str, endpoint: Endpoint, tmp_path: Path
) -> None:
    server = S3Server(variables(source, endpoint, tmp_path))
    credentials = server.credentials.get()
    client, _ = server.client("bucket")
    texts = [
        repr(server),
        repr(server.credentials),
        repr(credentials),
        str(credentials),
        repr(client),
        repr(client.config),
    ]
    assert [text for text in (*texts, str(server.hadoop_settings)) if "canary" in text] == []
