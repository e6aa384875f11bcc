"""S3A reads each source of credentials by itself, by a class of AWS' SDK: it must be the identity that obstore and delta-rs write as."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import deltalake
import pyarrow
import pytest

from tests.jvm.writers import compiled, settings_file
from tests.s3_server import REGION, S3Process
from tests.slices import of_week
from tests.store.identities import IdentityProxy
from tests.store.token_endpoint import TokenEndpoint
from tidegate.errors import MachineError, TidegateError
from tidegate.errors.classification import cause_in
from tidegate.store.credentials import SOURCES
from tidegate.store.objects import ObjectStore
from tidegate.store.s3 import S3Server

pytestmark = pytest.mark.jvm

PROVIDER = "fs.s3a.aws.credentials.provider"


@pytest.fixture(scope="module")
def bucket_writer(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command of a program that writes by S3A."""
    return compiled(tmp_path_factory.mktemp("java"), "BucketWriter")


@dataclass
class Clients:
    """The three clients before one server that knows who signs."""

    server: S3Process
    endpoint: TokenEndpoint
    proxy: IdentityProxy
    folder: Path
    command: Sequence[str]

    def variables(self, *sources: str) -> dict[str, str]:
        """An environment in which some sources are configured, and the first one is named."""
        values = {
            "HOME": str(self.folder / "nowhere"),
            "AWS_ENDPOINT_URL_S3": self.proxy.endpoint,
            "AWS_REGION": REGION,
            "TIDEGATE_S3_CREDENTIALS": sources[0],
        }
        for each in sources:
            values |= self.endpoint.variables(each, self.folder)
        return values

    def write_by_s3a(self, settings: Mapping[str, str], variables: Mapping[str, str], *uris: str) -> list[str]:
        """``written`` for each object, or what S3A says."""
        file = settings_file(self.folder / "settings", settings)
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        command = [*self.command, file, *uris]
        output = subprocess.run(
            command, env={**inherited, **variables}, stdout=subprocess.PIPE, text=True, check=True
        ).stdout
        return output.splitlines()


@pytest.fixture
def clients(s3_server: S3Process, bucket_writer: list[str], tmp_path: Path) -> Iterator[Clients]:
    with TokenEndpoint().serving() as endpoint, IdentityProxy(s3_server, endpoint.keys).serving() as proxy:
        assert isinstance(proxy, IdentityProxy)
        yield Clients(s3_server, endpoint, proxy, tmp_path, bucket_writer)


@pytest.mark.nightly
def test_one_identity_writes_by_all_three_clients_whatever_else_is_configured(
    clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = clients.variables(*SOURCES)
    buckets = {source: clients.server.new_bucket() for source in SOURCES}
    hadoop: dict[str, str] = {}
    for source, bucket in buckets.items():
        # A token beside keys that have none is refused: see the tests of the source.
        own = {name: value for name, value in together.items() if source != "profile" or name != "AWS_SESSION_TOKEN"}
        monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
        # delta-rs reads the environment of this process.
        for name, value in own.items():
            monkeypatch.setenv(name, value)
        server = S3Server(own | {"TIDEGATE_S3_CREDENTIALS": source})
        ObjectStore(server, bucket).put("obstore", b"x")
        deltalake.write_deltalake(
            f"s3://{bucket}/delta-rs", pyarrow.table({"a": [1]}), storage_options=server.delta_options
        )
        settings = server.hadoop_settings
        # One JVM for all: what is for all buckets is for one here.
        hadoop |= {**settings, f"fs.s3a.bucket.{bucket}.{PROVIDER.removeprefix('fs.s3a.')}": settings[PROVIDER]}
    uris = [f"s3a://{bucket}/s3a" for bucket in buckets.values()]
    assert clients.write_by_s3a(hadoop, together, *uris) == ["written"] * len(SOURCES)
    for source, bucket in buckets.items():
        identities = {
            client: clients.proxy.identities(f"/{bucket}/{client}") for client in ("obstore", "delta-rs", "s3a")
        }
        assert identities == {client: {source} for client in identities}
    assert [each for each in clients.proxy.signed if each.refused] == []


def edited(file: str, old: str, new: str) -> Callable[[dict[str, str], Path], object]:
    def edit(_: dict[str, str], folder: Path) -> None:
        text = (folder / file).read_text()
        assert old in text
        (folder / file).write_text(text.replace(old, new))

    return edit


def default_profile(values: dict[str, str], folder: Path) -> None:
    del values["AWS_PROFILE"]
    edited("credentials", "[x]", "[default]")(values, folder)
    edited("config", "[profile x]", "[default]\naws_secret_access_key = other\n[profile default]")(values, folder)


VARIANTS: dict[str, tuple[str, Callable[[dict[str, str], Path], object]]] = {
    "spaces around a secret": (
        "environment",
        lambda values, _: values.update(AWS_SECRET_ACCESS_KEY=f" {values['AWS_SECRET_ACCESS_KEY']}\n"),
    ),
    "a role beside keys": (
        "profile",
        edited("config", "\n", "\nrole_arn = arn:aws:iam::1:role/r\nsource_profile = y\n"),
    ),
    "a command beside keys": ("profile", edited("config", "\n", "\ncredential_process = /bin/false\n")),
    "a comment behind a key": (
        "profile",
        lambda _, folder: (folder / "credentials").write_text(
            (folder / "credentials").read_text().rstrip() + " # comment\n"
        ),
    ),
    "a property twice": ("profile", edited("credentials", "[x]", "[x]\naws_access_key_id = other")),
    "two default profiles": ("profile", default_profile),
    "files in the home": (
        "profile",
        lambda values, folder: values.update(
            HOME=str(folder), AWS_CONFIG_FILE="~/config", AWS_SHARED_CREDENTIALS_FILE="~/credentials"
        ),
    ),
    "a missing profile": ("profile", lambda values, _: values.update(AWS_PROFILE="y")),
    "a line break behind an identity": ("web-identity", edited("token", "canary-identity", "canary-identity\n")),
    "one URL for all services": (
        "web-identity",
        lambda values, _: values.update(AWS_ENDPOINT_URL=values.pop("AWS_ENDPOINT_URL_STS")),
    ),
    "two authorizations": (
        "container",
        lambda values, folder: values.update(
            AWS_CONTAINER_AUTHORIZATION_TOKEN="canary-authorization",
            AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE=str(folder / "none"),
        ),
    ),
    "a line break behind an authorization": (
        "container",
        edited("authorization", "canary-authorization", "canary-authorization\n"),
    ),
    "an endpoint that does not answer": (
        "container",
        lambda values, _: values.update(AWS_CONTAINER_CREDENTIALS_FULL_URI="http://127.0.0.1:1/"),
    ),
    "another identity": ("web-identity", edited("token", "canary-identity", "canary-other")),
    "another machine by http": (
        "container",
        lambda values, _: values.update(AWS_CONTAINER_CREDENTIALS_FULL_URI="http://10.1.2.3/"),
    ),
}


@pytest.mark.nightly
@pytest.mark.parametrize("variant", of_week(list(VARIANTS), 6))
def test_what_the_platform_reads_of_a_source_is_what_s3a_reads(clients: Clients, variant: str) -> None:
    source, change = VARIANTS[variant]
    values = clients.variables(source)
    change(values, clients.folder)
    server, bucket = S3Server(values), clients.server.new_bucket()
    try:
        ObjectStore(server, bucket).put("obstore", b"x")
        ours = "written"
    except TidegateError:
        ours = "refused"
    [output] = clients.write_by_s3a(server.hadoop_settings, values, f"s3a://{bucket}/s3a")
    assert ("written" if output == "written" else "refused") == ours
    if ours == "refused":
        error = cause_in(output)
        assert isinstance(error, MachineError)
        assert error.message.startswith(f"cannot access s3://{bucket}/s3a: Spark gets no credentials")
        assert f"the source {source!r}" in error.message
        assert error.transient is ("does not answer" in variant)
        assert "canary" not in error.message
    assert clients.proxy.identities() == ({source} if ours == "written" else set())
