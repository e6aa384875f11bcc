"""Writers' schemas are fetched from the registry once and cached in the lake; each failure has its own error."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.schema_registry import SchemaRegistry
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


def address(registry: SchemaRegistry) -> str:
    return registry.address.replace("jörg:s p@ce", "j%C3%B6rg:s%20p%40ce")


def test_a_schema_is_fetched_once_and_cached(registry: SchemaRegistry, cache: Address) -> None:
    number = registry.register(AVRO)
    first = fetch(address(registry), cache, number)
    assert first is not None
    assert (first.kind, first.definition) == ("AVRO", AVRO)

    assert fetch(address(registry), cache, number) == first
    assert fetch("", cache, number) == first, "a cached schema needs no registry"
    assert registry.requests == [f"/schemas/ids/{number}"]


def test_a_json_schema_lists_its_fields(registry: SchemaRegistry, cache: Address) -> None:
    properties = {"id": {"type": "integer"}, "ok": {"type": "boolean"}, "any": True}
    schema = fetch(address(registry), cache, registry.register({"properties": properties}, "JSON"))
    assert schema is not None
    assert schema.json_fields() == (Column("id", ""), Column("ok", "boolean"), Column("any", ""))


def test_an_unknown_id_is_not_an_error_and_not_cached(registry: SchemaRegistry, cache: Address) -> None:
    assert fetch(address(registry), cache, 77) is None
    assert cache.list() == [], "it may be registered later"


def test_errors_name_the_cause_and_never_the_password(registry: SchemaRegistry, cache: Address) -> None:
    number = registry.register(AVRO)
    protobuf = registry.register({"syntax": "proto3"}, "PROTOBUF")
    with pytest.raises(SetupError, match="TIDEGATE_REGISTRY"):
        fetch("", cache, number)
    with pytest.raises(SetupError, match="TIDEGATE_REGISTRY"):
        fetch("ftp://somewhere", cache, number)
    with pytest.raises(SetupError, match="TIDEGATE_REGISTRY") as unreadable:
        fetch("http://ada:wrong@somewhere:port", cache, number)
    assert "wrong" not in unreadable.value.message
    with pytest.raises(SourceError, match="PROTOBUF"):
        fetch(address(registry), cache, protobuf)
    with pytest.raises(SourceError, match="401") as refused:
        fetch(address(registry).replace("p%40ce", "wrong"), cache, number)
    assert not refused.value.transient
    assert "wrong" not in refused.value.message
    registry.down = True
    with pytest.raises(SourceUnavailableError, match="503"):
        fetch(address(registry), cache, number)
    with pytest.raises(SourceUnavailableError, match="does not answer"):
        fetch("http://127.0.0.1:9", cache, number)


def test_an_id_is_valid_in_one_registry_only(registry: SchemaRegistry, cache: Address) -> None:
    number = registry.register(AVRO)
    first = fetch(address(registry), cache, number)
    with SchemaRegistry() as moved:
        moved.register(AVRO)
        assert fetch(moved.address, cache, number) == first, "the same registry under another name"
        assert fetch(moved.address, cache, number) == first
        assert moved.requests == [f"/schemas/ids/{number}"], "and it is cached under the new address"
    with SchemaRegistry() as other:
        other.register({**AVRO, "name": "Another"})
        with pytest.raises(SourceError, match="ids are valid in one registry only"):
            fetch(other.address, cache, number)
    assert fetch(address(registry), cache, number) == first


def test_the_password_is_not_sent_to_the_target_of_a_redirect(registry: SchemaRegistry, cache: Address) -> None:
    with SchemaRegistry() as elsewhere:
        number = elsewhere.register(AVRO)
        registry.redirect_to = elsewhere.address
        with pytest.raises(SourceError, match="302"):
            fetch(address(registry), cache, number)
        assert elsewhere.requests == []
