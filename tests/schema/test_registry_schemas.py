"""Writers' schemas are fetched from the registry once and cached in the lake; each failure has its own error."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from devstack.certificates import Authority
from tests.schema_registry import SchemaRegistry
from tidegate.environment.registry import RegistryServer
from tidegate.errors import SetupError, SourceError, SourceUnavailableError
from tidegate.schema.ddl import Column
from tidegate.schema.registry_schemas import fetch
from tidegate.store import Address
from tidegate.store.memory import MemoryStore

pytestmark = pytest.mark.slow

AVRO = {"type": "record", "name": "Click", "fields": [{"name": "id", "type": "long"}]}


@pytest.fixture
def cache() -> Address:
    return Address(MemoryStore())


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry(user="jörg:s p@ce") as running:
        yield running


def own(registry: SchemaRegistry) -> RegistryServer:
    return RegistryServer(url=registry.address.replace("jörg:s p@ce", "j%C3%B6rg:s%20p%40ce"))


def test_a_schema_is_fetched_once_and_cached(registry: SchemaRegistry, cache: Address) -> None:
    number = registry.register(AVRO)
    first = fetch(own(registry), cache, number)
    assert first is not None
    assert (first.kind, first.definition) == ("AVRO", AVRO)

    assert fetch(own(registry), cache, number) == first
    assert fetch(None, cache, number) == first, "a cached schema needs no registry"
    assert registry.requests == [f"/schemas/ids/{number}"]


def test_the_same_id_of_two_registries_is_two_schemas(registry: SchemaRegistry, cache: Address) -> None:
    """As two sources of one pipeline have them, whose clusters have a registry each."""
    other_schema = {**AVRO, "fields": [{"name": "number", "type": "string"}]}
    with SchemaRegistry() as other:
        assert registry.register(AVRO) == other.register(other_schema) == 1
        shared, own_one = own(registry), RegistryServer(cluster="payments", url=other.address)
        for _ in range(2):
            schemas = [fetch(each, cache, 1) for each in (shared, own_one)]
            assert [each.definition for each in schemas if each] == [AVRO, other_schema]
        assert (registry.requests, other.requests) == (["/schemas/ids/1"], ["/schemas/ids/1"])
        other.down = True
        with pytest.raises(SourceUnavailableError, match="503"):
            fetch(own_one, cache, 2)
    with pytest.raises(SetupError, match=r"kafka\.payments\.registry \(TIDEGATE_KAFKA__PAYMENTS__REGISTRY\)"):
        fetch(RegistryServer(cluster="payments", url="ftp://x"), cache, 2)


def test_a_json_schema_lists_its_fields(registry: SchemaRegistry, cache: Address) -> None:
    properties = {"id": {"type": "integer"}, "ok": {"type": "boolean"}, "any": True}
    schema = fetch(own(registry), cache, registry.register({"properties": properties}, "JSON"))
    assert schema is not None
    assert schema.json_fields() == (Column("id", ""), Column("ok", "boolean"), Column("any", ""))


def test_an_unknown_id_is_not_an_error_and_not_cached(registry: SchemaRegistry, cache: Address) -> None:
    assert fetch(own(registry), cache, 77) is None
    assert cache.list() == [], "it may be registered later"


def test_errors_name_the_cause_and_never_the_password(registry: SchemaRegistry, cache: Address) -> None:
    number = registry.register(AVRO)
    protobuf = registry.register({"syntax": "proto3"}, "PROTOBUF")
    with pytest.raises(SetupError, match="TIDEGATE_REGISTRY"):
        fetch(None, cache, number)
    with pytest.raises(SetupError, match="TIDEGATE_REGISTRY"):
        fetch(RegistryServer(url="ftp://somewhere"), cache, number)
    with pytest.raises(SetupError, match="TIDEGATE_REGISTRY") as unreadable:
        fetch(RegistryServer(url="http://ada:wrong@somewhere:port"), cache, number)
    assert "wrong" not in unreadable.value.message
    with pytest.raises(SourceError, match="PROTOBUF"):
        fetch(own(registry), cache, protobuf)
    with pytest.raises(SourceError, match="401") as refused:
        fetch(RegistryServer(url=own(registry).url.replace("p%40ce", "wrong")), cache, number)
    assert not refused.value.transient
    assert "wrong" not in refused.value.message
    registry.down = True
    with pytest.raises(SourceUnavailableError, match="503"):
        fetch(own(registry), cache, number)
    with pytest.raises(SourceUnavailableError, match="does not answer"):
        fetch(RegistryServer(url="http://127.0.0.1:9"), cache, number)


def test_an_id_is_valid_in_one_registry_only(registry: SchemaRegistry, cache: Address) -> None:
    number = registry.register(AVRO)
    first = fetch(own(registry), cache, number)
    with SchemaRegistry() as moved:
        moved.register(AVRO)
        assert fetch(moved.settings, cache, number) == first, "the same registry under another name"
        assert fetch(moved.settings, cache, number) == first
        assert moved.requests == [f"/schemas/ids/{number}"], "and it is cached under the new address"
    with SchemaRegistry() as other:
        other.register({**AVRO, "name": "Another"})
        with pytest.raises(SourceError, match="ids are valid in one registry only"):
            fetch(other.settings, cache, number)
    assert fetch(own(registry), cache, number) == first


def test_the_password_is_not_sent_to_the_target_of_a_redirect(registry: SchemaRegistry, cache: Address) -> None:
    with SchemaRegistry() as elsewhere:
        number = elsewhere.register(AVRO)
        registry.redirect_to = elsewhere.address
        with pytest.raises(SourceError, match="302"):
            fetch(own(registry), cache, number)
        assert elsewhere.requests == []


class Secure:
    """A registry that asks for TLS, a certificate of the client and a password, and its settings as references."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.authority, self.other = folder, Authority(folder, "authority"), Authority(folder, "other")
        self.authority.issue("client", password="canary-key")
        for name, word in (("word", "canary-word"), ("key.word", "canary-key"), ("wrong", "canary-wrong")):
            (folder / name).write_text(word + "\n")

    def serve(self, certificate: str = "registry") -> SchemaRegistry:
        path = {
            "registry": lambda: self.authority.issue("registry"),
            "expired": lambda: self.authority.issue("registry", days=-1),
            "of another host": lambda: self.authority.issue("registry", host="registry.example.com"),
            "of another authority": lambda: self.other.issue("registry"),
        }[certificate]()
        return SchemaRegistry("ada:canary-word", certificate=path, clients_of=self.authority.file)

    def settings(self, server: SchemaRegistry, **changes: str) -> RegistryServer:
        files = {"password": "word", "ca": "authority.pem", "certificate": "client.crt", "key": "client.key"}
        files |= {"key_password": "key.word"} | changes
        references = {name: f"file:{self.folder / file}" for name, file in files.items() if file}
        return RegistryServer(url=server.address.replace("ada:canary-word@", ""), user="ada", **references)


def test_a_registry_with_tls_a_certificate_of_the_client_and_a_password(tmp_path: Path, cache: Address) -> None:
    secure = Secure(tmp_path)
    with secure.serve() as server:
        number, later = server.register(AVRO), server.register({**AVRO, "name": "Later"})
        settings = secure.settings(server)
        schema = fetch(settings, cache, number)
        assert schema is not None and schema.definition == AVRO
        assert "canary" not in f"{settings} {cache.list()}" and b"canary" not in (cache / f"{number}.json").read().data

        server.down = True
        assert fetch(settings, cache, number) == schema
        (tmp_path / "word").unlink()
        assert fetch(settings, cache, number) == schema, "a run goes on with what it has, without registry and password"
        assert server.requests == [f"/schemas/ids/{number}"]
        with pytest.raises(SetupError, match=r"registry\.password is in the file"):
            fetch(settings, cache, later)
        (tmp_path / "word").write_text("canary-word")
        with pytest.raises(SourceUnavailableError, match="503"):
            fetch(settings, cache, later)
    with pytest.raises(SourceUnavailableError, match="does not answer"):
        fetch(settings, cache, later)
    assert fetch(settings, cache, number) == schema


def test_a_password_that_changes_is_read_by_the_next_request(tmp_path: Path, cache: Address) -> None:
    secure = Secure(tmp_path)
    with secure.serve() as server:
        numbers = [server.register({**AVRO, "name": name}) for name in ("One", "Two")]
        settings = secure.settings(server)
        assert fetch(settings, cache, numbers[0]) is not None
        server.user = "ada:canary-next"
        with pytest.raises(SourceError, match="answers 401") as raised:
            fetch(settings, cache, numbers[1])
        assert not raised.value.transient and "registry.password" in str(raised.value.advice)
        (tmp_path / "word").write_text("canary-next")
        assert fetch(settings, cache, numbers[1]) is not None


@pytest.mark.parametrize(
    ("certificate", "changes", "problem"),
    [
        ("expired", {}, "certificate has expired"),
        ("of another host", {}, "Hostname mismatch"),
        ("of another authority", {}, "unable to get local issuer certificate"),
        ("registry", {"ca": ""}, "unable to get local issuer certificate|self-signed certificate in certificate chain"),
        ("registry", {"certificate": "", "key": "", "key_password": ""}, "alert certificate required"),
        ("registry", {"certificate": "stranger.crt", "key": "stranger.key"}, "alert unknown ca"),
        ("registry", {"password": "wrong"}, "answers 401"),
    ],
)
def test_a_registry_or_a_client_that_is_not_accepted_is_a_terminal_error_that_says_why(
    tmp_path: Path, cache: Address, certificate: str, changes: dict[str, str], problem: str
) -> None:
    secure = Secure(tmp_path)
    secure.other.issue("stranger")
    with secure.serve(certificate) as server, pytest.raises(SourceError, match=problem) as raised:
        fetch(secure.settings(server, **changes), cache, server.register(AVRO))
    error = raised.value
    assert (error.transient, error.exit_code) == (False, 78)
    assert f"the registry at {secure.settings(server).address}" in error.message
    assert "canary" not in f"{error} {error.advice}" and cache.list() == []


def test_a_registry_that_speaks_http_alone_is_a_terminal_error(registry: SchemaRegistry, cache: Address) -> None:
    with pytest.raises(
        SourceError, match=r"TLS failed at the registry at https://127\.0\.0\.1:.*: wrong version number"
    ):
        fetch(RegistryServer(url=own(registry).url.replace("http:", "https:")), cache, 1)
