"""Where the credentials of buckets come from: one source, for every program that reads and writes there."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.store.token_endpoint import TokenEndpoint
from tidegate.errors import MachineUnavailableError, SetupError, TidegateError
from tidegate.store.credentials import SOURCES, CredentialSource
from tidegate.store.s3 import S3Server

KEYS = {"AWS_ACCESS_KEY_ID": "canary-environment", "AWS_SECRET_ACCESS_KEY": "canary-secret"}


def variables(source: str, endpoint: TokenEndpoint, folder: Path) -> dict[str, str]:
    """What configures a source, and no other."""
    return {"HOME": str(folder / "nowhere"), **endpoint.variables(source, folder)}


@pytest.mark.parametrize("source", SOURCES)
def test_each_source_gives_obstore_and_delta_rs_the_same_keys_and_s3a_its_class(
    source: str, endpoint: TokenEndpoint, tmp_path: Path
) -> None:
    server = S3Server(variables(source, endpoint, tmp_path))
    assert server.credentials.name == source
    credentials, options = server.credentials.get(), server.delta_options
    key = endpoint.keys[credentials.access_key]
    assert key.identity == source
    given = (options["AWS_ACCESS_KEY_ID"], options["AWS_SECRET_ACCESS_KEY"], options.get("AWS_SESSION_TOKEN", ""))
    assert given == (key.access_key, key.secret_key, key.token)
    client, of_client = server.client("bucket")
    provider = client.client.credential_provider
    assert of_client is credentials
    assert provider is not None
    assert provider() == {
        "access_key_id": credentials.access_key,
        "secret_access_key": credentials.secret_key,
        "token": credentials.session_token or None,
        "expires_at": None,
    }
    classes = {each: S3Server({"TIDEGATE_S3_CREDENTIALS": each}).hadoop_settings for each in SOURCES}
    name = classes[source]["fs.s3a.aws.credentials.provider"]
    assert [each for each, settings in classes.items() if name in settings.values()] == [source]


@pytest.mark.parametrize("source", SOURCES)
def test_another_process_gets_the_names_of_a_source_and_no_secret(
    source: str, endpoint: TokenEndpoint, tmp_path: Path
) -> None:
    given = variables(source, endpoint, tmp_path) | {"AWS_CONTAINER_AUTHORIZATION_TOKEN": ""}
    server = S3Server(given)
    handed_on = server.handed_on
    assert not [text for text in endpoint.texts() if text in str(handed_on)]
    assert handed_on["TIDEGATE_S3_CREDENTIALS"] == source
    if source == "environment":
        assert not set(handed_on) & set(endpoint.variables(source, tmp_path))
        return
    elsewhere = S3Server({"HOME": str(tmp_path / "nowhere"), **handed_on})
    assert elsewhere == server
    assert endpoint.keys[elsewhere.credentials.get().access_key].identity == source


def test_the_source_is_the_first_that_is_configured_unless_one_is_named(
    endpoint: TokenEndpoint, tmp_path: Path
) -> None:
    for count, source in enumerate(SOURCES):
        together: dict[str, str] = {}
        for each in SOURCES[count:]:
            together |= variables(each, endpoint, tmp_path)
        assert CredentialSource(together).name == source
        named = CredentialSource(together | {"TIDEGATE_S3_CREDENTIALS": SOURCES[-1]})
        assert endpoint.keys[named.get().access_key].identity == named.name == "instance"
    with pytest.raises(SetupError, match="TIDEGATE_S3_CREDENTIALS='vault'"):
        CredentialSource({"TIDEGATE_S3_CREDENTIALS": "vault"})


def end(credentials: CredentialSource) -> None:
    """Let what a source keeps end now."""
    assert credentials._current is not None
    credentials._current = dataclasses.replace(credentials._current, expires_at=datetime.now(UTC))


@pytest.mark.parametrize("source", ["web-identity", "container", "instance"])
def test_credentials_are_kept_until_shortly_before_they_end_or_are_refused(
    source: str, endpoint: TokenEndpoint, tmp_path: Path
) -> None:
    credentials = CredentialSource(variables(source, endpoint, tmp_path))
    first = credentials.get()
    assert credentials.get() is first
    credentials.forget(first)
    endpoint.lasts = timedelta(minutes=4)
    second = credentials.get()
    assert second != first
    credentials.forget(first)
    assert credentials.get() is second, "it was not refused, and new ones were asked for a moment ago"
    credentials._fetched_at -= 31
    third = credentials.get()
    assert third != second, "it ends in four minutes"
    end(credentials)
    assert credentials.get() != third, "it has ended"


def test_credentials_are_used_while_the_endpoint_fails_until_they_end(endpoint: TokenEndpoint, tmp_path: Path) -> None:
    credentials = CredentialSource(variables("container", endpoint, tmp_path))
    endpoint.lasts = timedelta(minutes=1)
    first = credentials.get()
    endpoint.status = 503
    credentials._fetched_at -= 31
    assert credentials.get() is first
    assert len(endpoint.requests) == 2, "it was asked"
    end(credentials)
    with pytest.raises(MachineUnavailableError, match="it answered 503"):
        credentials.get()


def test_a_client_follows_its_credentials(endpoint: TokenEndpoint, tmp_path: Path) -> None:
    server = S3Server(variables("container", endpoint, tmp_path))
    client, credentials = server.client("bucket")
    assert server.client("bucket")[0] is client
    server.credentials.forget(credentials)
    later, _ = server.client("bucket")
    assert later is not client


def without(name: str) -> Callable[[dict[str, str], Path], object]:
    return lambda values, _: values.pop(name)


def append(file: Path, text: str) -> None:
    file.write_text(file.read_text() + text)


FAULTS: dict[str, tuple[str, Callable[[dict[str, str], Path], object], str]] = {
    "no secret": ("environment", without("AWS_SECRET_ACCESS_KEY"), "AWS_SECRET_ACCESS_KEY is not set"),
    "no role": ("web-identity", without("AWS_ROLE_ARN"), "AWS_ROLE_ARN is not set"),
    "no token": ("web-identity", lambda _, folder: (folder / "token").unlink(), "has no token for credentials"),
    "another token": ("web-identity", lambda _, folder: (folder / "token").write_text("canary-x"), "it answered 400"),
    "a line break": (
        "web-identity",
        lambda _, folder: (folder / "token").write_text("canary-x\n"),
        "has spaces or a line break",
    ),
    "an empty token": ("container", lambda _, folder: (folder / "authorization").write_text(""), "is empty"),
    "no profile": ("profile", lambda values, _: values.update(AWS_PROFILE="y"), "profile 'y' of AWS_PROFILE has no"),
    "a role": (
        "profile",
        lambda _, folder: (folder / "config").write_text("[profile x]\nrole_arn = canary\nsource_profile = z\n"),
        "gets its keys by role_arn",
    ),
    "a command beside keys": (
        "profile",
        lambda _, folder: append(folder / "config", "credential_process = canary\n"),
        "gets its keys by credential_process",
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
        "is no URL of a server",
    ),
    "a password": (
        "container",
        lambda values, _: values.update(AWS_CONTAINER_CREDENTIALS_FULL_URI="https://x:canary@y/"),
        "is no URL of a server",
    ),
    "another machine": (
        "container",
        lambda values, _: values.update(AWS_CONTAINER_CREDENTIALS_FULL_URI="http://10.1.2.3/x"),
        "10.1.2.3 by http",
    ),
    "no instance": (
        "instance",
        lambda values, _: values.update(AWS_EC2_METADATA_DISABLED="True"),
        "AWS_EC2_METADATA_DISABLED is true",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_credentials_that_cannot_be_had_are_an_error_that_says_which_and_none_of_them(
    fault: str, endpoint: TokenEndpoint, tmp_path: Path
) -> None:
    source, spoil, says = FAULTS[fault]
    values = variables(source, endpoint, tmp_path) | {"TIDEGATE_S3_CREDENTIALS": source}
    spoil(values, tmp_path)
    with pytest.raises(TidegateError, match=says) as raised:
        CredentialSource(values).get()
    assert raised.value.transient is ("not answer" in says)
    assert f"source {source!r}" in str(raised.value)
    assert "canary" not in f"{raised.value} {raised.value!r}"


@pytest.mark.parametrize("name", ["AWS_SESSION_TOKEN", "aws_token", "TOKEN"])
def test_a_token_of_the_environment_is_refused_beside_keys_that_have_none(
    name: str, endpoint: TokenEndpoint, tmp_path: Path
) -> None:
    for source in ("profile", "container"):
        values = variables(source, endpoint, tmp_path) | {"TIDEGATE_S3_CREDENTIALS": source, name: "canary"}
        if source == "container":
            assert CredentialSource(values).get().session_token != "canary", "it has its own"
            continue
        with pytest.raises(SetupError, match=f"{name} is set, which delta-rs takes") as raised:
            CredentialSource(values).get()
        assert "canary" not in str(raised.value)
    with pytest.raises(SetupError, match="AWS_FORCE_CREDENTIAL_LOAD is set"):
        CredentialSource(KEYS | {"AWS_FORCE_CREDENTIAL_LOAD": "true"})


@pytest.mark.parametrize("status", [429, 500, 503])
def test_an_endpoint_that_fails_for_the_moment_is_asked_again_by_the_next_attempt(
    status: int, endpoint: TokenEndpoint, tmp_path: Path
) -> None:
    endpoint.status = status
    credentials = CredentialSource(variables("instance", endpoint, tmp_path))
    with pytest.raises(MachineUnavailableError, match=f"it answered {status}"):
        credentials.get()
    endpoint.status = 200
    assert credentials.get().access_key in endpoint.keys


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
        assert (hadoop["fs.s3a.endpoint"], delta["AWS_ENDPOINT_URL"], client.client.config["endpoint"]) == (
            endpoint,
        ) * 3
        assert (hadoop["fs.s3a.endpoint.region"], delta["AWS_REGION"], client.client.config["region"]) == (region,) * 3
        assert (hadoop["fs.s3a.connection.ssl.enabled"], delta["AWS_ALLOW_HTTP"]) == (
            tls,
            "false" if tls == "true" else "true",
        )


@pytest.mark.parametrize("source", SOURCES)
def test_nothing_of_the_credentials_is_in_a_text_or_in_a_setting_of_spark(
    source: str, endpoint: TokenEndpoint, tmp_path: Path
) -> None:
    server = S3Server(variables(source, endpoint, tmp_path))
    credentials = server.credentials.get()
    client, _ = server.client("bucket")
    texts = [
        repr(server),
        repr(server.credentials),
        repr(credentials),
        str(credentials),
        repr(client.client),
        repr(client.client.config),
    ]
    assert [text for text in (*texts, str(server.hadoop_settings)) if "canary" in text] == []


def test_a_connection_of_airflow_is_read_in_its_processes_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "airflow", raising=False)
    source = CredentialSource({"TIDEGATE_S3_CREDENTIALS": "airflow-connection:acme"})
    with pytest.raises(
        SetupError, match="is the connection 'acme' of Airflow, which only processes of Airflow can read"
    ):
        source.get()
    assert "airflow" not in sys.modules
