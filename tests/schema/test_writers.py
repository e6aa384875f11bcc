"""A writer's schema is asked for once, kept in the lake, and what keeps us from it is told as what it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.schema_registry import SchemaRegistry
from tidegate.errors import SetupError, SourceError, SourceUnavailableError
from tidegate.schema.ddl import Column
from tidegate.schema.writers import fetch

AVRO = {"type": "record", "name": "Click", "fields": [{"name": "id", "type": "long"}]}


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry(user="ada:s p%40ce") as running:
        running.user = "ada:s p@ce"
        yield running


def address(registry: SchemaRegistry) -> str:
    return registry.address.replace("s p@ce", "s%20p%40ce")


def test_a_schema_is_asked_for_once_and_kept(registry: SchemaRegistry, tmp_path: Path) -> None:
    number = registry.register(AVRO)
    first = fetch(address(registry), tmp_path / "schemas", number)
    assert first is not None
    assert (first.kind, first.definition) == ("AVRO", AVRO)

    assert fetch(address(registry), tmp_path / "schemas", number) == first
    assert fetch("", tmp_path / "schemas", number) == first, "not even a registry is needed any more"
    assert registry.asked == [f"/schemas/ids/{number}"]


def test_a_json_schema_tells_its_fields(registry: SchemaRegistry, tmp_path: Path) -> None:
    properties = {"id": {"type": "integer"}, "ok": {"type": "boolean"}, "any": True}
    schema = fetch(address(registry), tmp_path, registry.register({"properties": properties}, "JSON"))
    assert schema is not None
    assert schema.json_fields() == (Column("id", ""), Column("ok", "boolean"), Column("any", ""))


def test_an_id_that_the_registry_does_not_know_is_no_error(registry: SchemaRegistry, tmp_path: Path) -> None:
    assert fetch(address(registry), tmp_path, 77) is None
    assert list(tmp_path.iterdir()) == [], "it may be registered later"


def test_what_keeps_us_from_a_schema_is_told_without_the_password(registry: SchemaRegistry, tmp_path: Path) -> None:
    number = registry.register(AVRO)
    protobuf = registry.register({"syntax": "proto3"}, "PROTOBUF")
    with pytest.raises(SetupError, match="TIDEGATE_REGISTRY"):
        fetch("", tmp_path, number)
    with pytest.raises(SetupError, match="TIDEGATE_REGISTRY"):
        fetch("ftp://somewhere", tmp_path, number)
    with pytest.raises(SourceError, match="PROTOBUF"):
        fetch(address(registry), tmp_path, protobuf)
    with pytest.raises(SourceError, match="401") as refused:
        fetch(address(registry).replace("p%40ce", "wrong"), tmp_path, number)
    assert not refused.value.transient
    assert "wrong" not in refused.value.message
    registry.down = True
    with pytest.raises(SourceUnavailableError, match="503"):
        fetch(address(registry), tmp_path, number)
    with pytest.raises(SourceUnavailableError, match="does not answer"):
        fetch("http://127.0.0.1:9", tmp_path, number)


def test_an_id_means_a_schema_of_one_registry(registry: SchemaRegistry, tmp_path: Path) -> None:
    number = registry.register(AVRO)
    first = fetch(address(registry), tmp_path, number)
    with SchemaRegistry() as moved:
        moved.register(AVRO)
        assert fetch(moved.address, tmp_path, number) == first, "the same registry under another name"
        assert fetch(moved.address, tmp_path, number) == first
        assert moved.asked == [f"/schemas/ids/{number}"], "and kept under that"
    with SchemaRegistry() as other:
        other.register({**AVRO, "name": "Another"})
        with pytest.raises(SourceError, match="ids of two registries do not mix"):
            fetch(other.address, tmp_path, number)
    assert fetch(address(registry), tmp_path, number) == first


def test_a_password_goes_to_the_registry_alone_wherever_it_leads(registry: SchemaRegistry, tmp_path: Path) -> None:
    with SchemaRegistry() as elsewhere:
        number = elsewhere.register(AVRO)
        registry.leads_to = elsewhere.address
        with pytest.raises(SourceError, match="302"):
            fetch(address(registry), tmp_path, number)
        assert elsewhere.asked == []
