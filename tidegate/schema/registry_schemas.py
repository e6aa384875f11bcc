"""Writers' schemas by id: fetched from a schema registry over HTTP and cached in the lake.

A message that refers to a schema begins with a zero byte and four bytes of id (the wire format of Confluent's serializers,
which Karapace, Apicurio and Redpanda share); ``GET /schemas/ids/<id>`` returns the schema. The schema of an id never
changes, so responses are cached: records of bronze can be parsed again while the registry is down.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from tidegate.advice import Edit, Either, OutsideAct
from tidegate.errors import SetupError, SourceError, SourceUnavailableError
from tidegate.schema.ddl import Column
from tidegate.store import Address

if TYPE_CHECKING:
    from tidegate.environment.registry import RegistryServer

HEADER_BYTES = 5
"""Length of the wire format's header: a zero byte and the id."""
_SECONDS = 10
_FROM = "registry"
"""Key of a cached schema: the registry's address."""
_UNKNOWN_ID = 404
_NO_ID = 0
"""No schema has it: ids begin at 1."""
_REFUSED = re.compile("ALERT_(?!INTERNAL_ERROR)|WRONG_VERSION_NUMBER|UNSUPPORTED_PROTOCOL")
"""Of OpenSSL's reasons, those after which a retry cannot succeed."""


@dataclass(frozen=True, kw_only=True)
class WriterSchema:
    """A schema as the registry returns it."""

    kind: Literal["AVRO", "JSON"]
    definition: Any
    """The Avro schema or JSON Schema, as parsed JSON."""

    def json_fields(self) -> tuple[Column, ...]:
        """The fields of a JSON Schema. Only BOOLEAN types are known: a JSON number or text may fit several SQL types."""
        properties = self.definition.get("properties") if isinstance(self.definition, dict) else None
        if not isinstance(properties, dict):
            return ()
        return tuple(
            Column(name, "boolean" if isinstance(definition, dict) and definition.get("type") == "boolean" else "")
            for name, definition in properties.items()
        )


def fetch(registry: RegistryServer | None, folder: Address, schema_id: int) -> WriterSchema | None:
    """The schema of an id; None when the registry has no such id.

    It is cached with the registry's address and fetched again when the address changes: an id is valid in one registry. So
    schemas of a cluster's own registry are in a folder of their own.

    Args:
        registry: None when none is configured.

    Raises:
        SetupError: No registry is configured, and the schema is not cached; or a secret is not where its reference says.
        SourceUnavailableError: The registry does not answer, or answers 429 or 5xx. Transient.
        SourceError: The registry refuses the request, its response cannot be parsed, or the id had another schema before.
    """
    own = folder if registry is None or not registry.cluster else folder / registry.cluster
    address = own / f"{schema_id}.json"
    try:
        cached = json.loads(address.read().data)
    except FileNotFoundError:
        cached = None
    if cached is not None and (registry is None or cached[_FROM] == registry.address):
        return _schema(cached, schema_id)
    if registry is None:
        raise SetupError(
            f"messages refer to schema {schema_id} of a registry, but no registry is configured",
            Edit("set TIDEGATE_REGISTRY to its address, as in http://127.0.0.1:8081", "setting"),
        )
    response = _request(registry, schema_id)
    if response is None:
        return None if cached is None else _schema(cached, schema_id)
    schema = _schema(response, schema_id)
    if cached is not None and _schema(cached, schema_id) != schema:
        raise SourceError(
            f"schema {schema_id} of the registry at {registry.address} differs from schema "
            f"{schema_id} of {cached[_FROM]}: ids are valid in one registry only.",
            Edit(f"set {registry.setting('url')} to the registry that the messages were written with", "setting"),
        )
    address.put(json.dumps({**response, _FROM: registry.address}).encode())
    return schema


def check(registry: RegistryServer) -> str:
    """See whether a registry answers; returns its address, without user and password.

    Raises:
        SetupError: It is not the URL of a registry.
        SourceUnavailableError: The registry does not answer, or answers 429 or 5xx. Transient.
        SourceError: The registry refuses the request.
    """
    _request(registry, _NO_ID)
    return registry.address


def _request(registry: RegistryServer, schema_id: int) -> dict[str, Any] | None:
    import httpx

    url, address = urlsplit(registry.url), registry.address
    if url.scheme not in ("http", "https") or not url.hostname:
        raise _no_url(registry)
    try:
        answer = httpx.get(
            f"{address}/schemas/ids/{schema_id}",
            auth=registry.credentials(),
            timeout=_SECONDS,
            # User and password would be sent to the target of the redirect.
            follow_redirects=False,
            verify=registry.tls(),
        )
    except httpx.InvalidURL:
        raise _no_url(registry) from None
    except httpx.RequestError as error:
        if why := _refused(error):
            names = [registry.setting(each) for each in ("ca", "certificate", "key")]
            says = f"correct {', '.join(names)} or the address, or what they refer to"
            raise SourceError(f"TLS failed at the registry at {address}: {why}", Edit(says, "setting")) from None
        raise SourceUnavailableError(
            f"the registry at {address} does not answer", Either(OutsideAct("start it"), OutsideAct("run again later"))
        ) from None
    status = answer.status_code
    if status == _UNKNOWN_ID:
        return None
    if status >= 500 or status == 429:
        raise SourceUnavailableError(f"the registry at {address} answers {status}", OutsideAct("run again later"))
    if not answer.is_success:
        raise SourceError(
            f"the registry at {address} answers {status}",
            Edit(
                f"correct {', '.join(map(registry.setting, ('url', 'user', 'password')))}, or what they refer to",
                "setting",
            ),
        )
    with suppress(ValueError):
        response = answer.json()
        if isinstance(response, dict):
            return response
    raise SourceError(
        f"the server at {address} is not a schema registry", Edit(f"correct {registry.setting('url')}", "setting")
    )


def _no_url(registry: RegistryServer) -> SetupError:
    what = f"{registry.setting('url')} is not the URL of a registry"
    return SetupError(what, Edit("write it as in http://127.0.0.1:8081", "setting"))


def _refused(error: BaseException) -> str:
    """Why one side of a TLS connection does not accept the other; empty for an error of another kind."""
    import ssl

    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return cause.verify_message
        if isinstance(cause, ssl.SSLError) and _REFUSED.search(cause.reason or ""):
            return str(cause.reason).lower().replace("_", " ")
        cause = cause.__cause__ or cause.__context__
    return ""


def _schema(response: dict[str, Any], schema_id: int) -> WriterSchema:
    kind = response.get("schemaType", "AVRO")
    if kind not in ("AVRO", "JSON") or response.get("references"):
        raise SourceError(
            f"schema {schema_id} of the registry is {kind} {'with references' if response.get('references') else ''}",
            OutsideAct("register it as AVRO or JSON without references"),
        )
    try:
        return WriterSchema(kind=kind, definition=json.loads(response["schema"]))
    except (KeyError, TypeError, ValueError):
        raise SourceError(
            f"schema {schema_id} of the registry is not valid JSON", OutsideAct("register it again")
        ) from None
