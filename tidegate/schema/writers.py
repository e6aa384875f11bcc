"""Writers' schemas, by the id that a message names: from a registry over HTTP, and kept in the lake.

A message that names one begins with a zero byte and four bytes of id (the wire format of Confluent's serializers, which
Karapace, Apicurio and Redpanda share); ``GET /schemas/ids/<id>`` tells it. An id never changes its meaning, so what was
told once is kept: bronze can be derived from anew when the registry is away.
"""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tidegate import atomic, web
from tidegate.errors import SetupError, SourceError, SourceUnavailableError
from tidegate.schema.ddl import Column

HEADER_BYTES = 5
"""Of the wire format: a zero byte and the id."""
_SECONDS = 10
_FROM = "registry"
"""Which registry a kept schema is of; older files do not say."""
_UNKNOWN_ID = 404


@dataclass(frozen=True, kw_only=True)
class WriterSchema:
    """A schema as the registry tells it."""

    kind: Literal["AVRO", "JSON"]
    definition: Any
    """The schema itself: Avro's or JSON Schema's, as plain values."""

    def json_fields(self) -> tuple[Column, ...]:
        """The fields of a JSON Schema, their types unknown but for BOOLEAN: a JSON number or text may fit several."""
        properties = self.definition.get("properties") if isinstance(self.definition, dict) else None
        if not isinstance(properties, dict):
            return ()
        return tuple(
            Column(name, "boolean" if isinstance(told, dict) and told.get("type") == "boolean" else "")
            for name, told in properties.items()
        )


def fetch(registry: str, folder: Path, schema_id: int) -> WriterSchema | None:
    """The schema of an id; None when the registry knows of none.

    It is kept with the registry's address, and asked for again when that changes: an id means something in one registry.

    Args:
        registry: Its address, with user and password if it asks for them; empty when there is none.
        folder: Where schemas are kept.
        schema_id: From a message.

    Raises:
        SetupError: No registry is configured, and the schema is not kept.
        SourceUnavailableError: The registry does not answer, or says that it cannot now. Transient.
        SourceError: It refuses us, its answer is none that we understand, or the id had another schema before.
    """
    path = folder / f"{schema_id}.json"
    try:
        kept = json.loads(path.read_text())
    except FileNotFoundError:
        kept = None
    if kept is not None and (not registry or kept.get(_FROM) in (None, _bare(registry))):
        return _schema(kept, schema_id)
    if not registry:
        raise SetupError(
            f"messages name schema {schema_id} of a registry; let TIDEGATE_REGISTRY name it, as in http://127.0.0.1:8081"
        )
    told = _ask(registry, schema_id)
    if told is None:
        return None if kept is None else _schema(kept, schema_id)
    schema = _schema(told, schema_id)
    if kept is not None and _schema(kept, schema_id) != schema:
        raise SourceError(
            f"schema {schema_id} of the registry at {_bare(registry)} is not the one that {kept[_FROM]} gave that number: ids "
            "of two registries do not mix. Let TIDEGATE_REGISTRY name the one that the messages were written with."
        )
    atomic.write_text(path, json.dumps({**told, _FROM: _bare(registry)}))
    return schema


def _bare(registry: str) -> str:
    """The address without what stands before the '@': it is a secret, and this is told in errors and kept."""
    place = urllib.parse.urlsplit(registry)
    return place._replace(netloc=place.netloc.rpartition("@")[2], query="", fragment="").geturl().rstrip("/")


def _ask(registry: str, schema_id: int) -> dict[str, Any] | None:
    place = urllib.parse.urlsplit(registry)
    if place.scheme not in ("http", "https") or not place.hostname:
        raise SetupError("TIDEGATE_REGISTRY is no address of a registry; give it as in http://127.0.0.1:8081")
    bare = _bare(registry)
    request = urllib.request.Request(f"{bare}/schemas/ids/{schema_id}")
    if place.username is not None:
        user, password = (urllib.parse.unquote(each) for each in (place.username, place.password or ""))
        request.add_header("Authorization", web.basic(user, password))
    try:
        with web.ask(request, _SECONDS) as answer:
            told = json.loads(answer.read())
    except urllib.error.HTTPError as error:
        if error.code == _UNKNOWN_ID:
            return None
        if error.code >= 500 or error.code == 429:
            raise SourceUnavailableError(f"the registry at {bare} answers {error.code}; run again later") from None
        raise SourceError(
            f"the registry at {bare} answers {error.code}; see that TIDEGATE_REGISTRY has its own address, and the right user "
            "and password"
        ) from None
    except (OSError, http.client.HTTPException):
        raise SourceUnavailableError(f"the registry at {bare} does not answer; start it, or run again later") from None
    except ValueError:
        raise SourceError(f"what answers at {bare} is no schema registry; correct TIDEGATE_REGISTRY") from None
    if not isinstance(told, dict):
        raise SourceError(f"what answers at {bare} is no schema registry; correct TIDEGATE_REGISTRY")
    return told


def _schema(told: dict[str, Any], schema_id: int) -> WriterSchema:
    kind = told.get("schemaType", "AVRO")
    if kind not in ("AVRO", "JSON") or told.get("references"):
        raise SourceError(
            f"schema {schema_id} of the registry is {kind} {'with references' if told.get('references') else ''}; "
            "Tidegate reads AVRO and JSON schemas that refer to no other"
        )
    try:
        return WriterSchema(kind=kind, definition=json.loads(told["schema"]))
    except (KeyError, TypeError, ValueError):
        raise SourceError(f"schema {schema_id} of the registry is not JSON; register it anew") from None
