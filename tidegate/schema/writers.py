"""Writers' schemas, by the id that a message names: from a registry over HTTP, and kept in the lake.

A message that names one begins with a zero byte and four bytes of id (the wire format of Confluent's serializers, which
Karapace, Apicurio and Redpanda share); ``GET /schemas/ids/<id>`` tells it. An id never changes its meaning, so what was
told once is kept: bronze can be derived from anew when the registry is away.
"""

from __future__ import annotations

import base64
import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tidegate.errors import SetupError, SourceError, SourceUnavailableError
from tidegate.schema.ddl import Column

HEADER_BYTES = 5
"""Of the wire format: a zero byte and the id."""
_SECONDS = 10
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

    Args:
        registry: Its address, with user and password if it asks for them; empty when there is none.
        folder: Where schemas are kept.
        schema_id: From a message.

    Raises:
        SetupError: No registry is configured, and the schema is not kept.
        SourceUnavailableError: The registry does not answer, or says that it cannot now. Transient.
        SourceError: It refuses us, or its answer is none that we understand.
    """
    kept = folder / f"{schema_id}.json"
    try:
        return _schema(json.loads(kept.read_text()), schema_id)
    except FileNotFoundError:
        pass
    if not registry:
        raise SetupError(
            f"messages name schema {schema_id} of a registry; let TIDEGATE_REGISTRY name it, as in http://127.0.0.1:8081"
        )
    told = _ask(registry, schema_id)
    if told is None:
        return None
    schema = _schema(told, schema_id)
    folder.mkdir(parents=True, exist_ok=True)
    draft = kept.with_suffix(".tmp")
    draft.write_text(json.dumps(told))
    draft.replace(kept)
    return schema


def _ask(registry: str, schema_id: int) -> dict[str, Any] | None:
    place = urllib.parse.urlsplit(registry)
    if place.scheme not in ("http", "https") or not place.hostname:
        raise SetupError("TIDEGATE_REGISTRY is no address of a registry; give it as in http://127.0.0.1:8081")
    # Without what stands before the '@': it is a secret, and this is told in errors.
    bare = place._replace(netloc=place.netloc.rpartition("@")[2], query="", fragment="").geturl().rstrip("/")
    request = urllib.request.Request(f"{bare}/schemas/ids/{schema_id}")
    if place.username is not None:
        user = f"{urllib.parse.unquote(place.username)}:{urllib.parse.unquote(place.password or '')}"
        request.add_header("Authorization", f"Basic {base64.b64encode(user.encode()).decode()}")
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
            told = json.loads(answer.read())
    except urllib.error.HTTPError as error:
        if error.code == _UNKNOWN_ID:
            return None
        if error.code >= 500 or error.code == 429:
            raise SourceUnavailableError(f"the registry at {bare} answers {error.code}; run again later") from None
        raise SourceError(
            f"the registry at {bare} answers {error.code}; see that TIDEGATE_REGISTRY has the right user and password"
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
