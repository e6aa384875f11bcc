"""A broker whose listeners ask for certificates, passwords and tokens, and the settings with which a cluster reaches each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devstack import kafka_users
from devstack.broker import Broker
from devstack.broker_files import Listeners
from devstack.certificates import Authority
from tests.token_server import TokenServer
from tests.waiting import TIMEOUT_SECONDS
from tidegate.environment.clusters import Cluster
from tidegate.runtime.jars import class_path

PROJECT = Path(__file__).parents[1]
PASSWORDS = {"tide": "canary-scram-1f6b", "limited": "canary-scram-93ad"}
"""Of the users of SCRAM and PLAIN. ``limited`` may not describe topics that begin with ``closed``, nor read those with ``described``."""
KEY_PASSWORD = "canary-key-77c0"


@dataclass(frozen=True)
class SecureBroker:
    """A broker with listeners by name."""

    broker: Broker
    folder: Path
    """With certificates and passwords."""
    token_url: str

    def settings(self, listener: str, **changes: str) -> dict[str, str]:
        """The settings of a cluster, by the last part of their keys, as user ``tide``; an empty text leaves one out."""
        own = {"servers": self.broker.address(listener), "security": _LISTENERS[listener]}
        if own["security"].endswith("SSL"):
            own["ca"] = f"file:{self.folder / 'authority.pem'}"
        if own["security"].startswith("SASL"):
            own |= {"mechanism": "SCRAM-SHA-512", "user": "tide", "password": f"file:{self.folder / 'tide.password'}"}
        if listener == "TOKEN":
            own |= {"mechanism": "OAUTHBEARER", "token_url": self.token_url, "scope": "kafka"}
        if listener == "MUTUAL":
            own |= {
                name: f"file:{self.folder / f'client.{end}'}" for name, end in (("certificate", "crt"), ("key", "key"))
            }
            own["key_password"] = f"file:{self.folder / 'key.password'}"
        return {name: text for name, text in (own | changes).items() if text}

    def cluster(self, listener: str, **changes: str) -> Cluster:
        """A cluster with these settings."""
        own = self.settings(listener, **changes)
        return Cluster(name="secure", servers=own.pop("servers"), settings=tuple(own.items()))

    def variables(self, listener: str, cluster: str, **changes: str) -> dict[str, str]:
        """The variables with these settings of a cluster of that name."""
        return {
            f"TIDEGATE_KAFKA__{cluster.upper()}" + ("" if name == "servers" else f"__{name.upper()}"): text
            for name, text in self.settings(listener, **changes).items()
        }

    def change_password(self, user: str, password: str) -> None:
        """Give a user of SCRAM another password, at the broker alone. Connections that are there stay."""
        kafka_users.set_password({"bootstrap.servers": self.broker.bootstrap, "log_level": 0}, user, password)


_LISTENERS = {
    "PASSWORD": "SASL_SSL",
    "OPEN": "SASL_PLAINTEXT",
    "TOKEN": "SASL_SSL",
    "BEARER": "SASL_PLAINTEXT",
    "MUTUAL": "SSL",
    "EXPIRED": "SSL",
    "UNKNOWN": "SSL",
    "ELSEWHERE": "SSL",
    "ALONE": "SSL",
}


@contextmanager
def secure_broker(folder: Path) -> Iterator[SecureBroker]:
    """Start one."""
    authority, other = Authority(folder, "authority"), Authority(folder, "other")
    stores = {
        "PASSWORD": authority.issue("broker"),
        "MUTUAL": authority.issue("broker"),
        "TOKEN": authority.issue("broker"),
        "EXPIRED": authority.issue("expired", days=-1),
        "UNKNOWN": other.issue("unknown"),
        "ELSEWHERE": authority.issue("elsewhere", host="kafka.example.com"),
        "ALONE": Authority(folder, "alone").issue("alone", own_key=True),
    }
    authority.issue("client", password=KEY_PASSWORD)
    authority.issue("open")
    authority.issue("late", days=-1)
    other.issue("stranger")
    for user, password in PASSWORDS.items():
        (folder / f"{user}.password").write_text(password)
    (folder / "key.password").write_text(KEY_PASSWORD)
    properties = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "allow.everyone.if.no.acl.found": "true",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    }
    for name, store in stores.items():
        start = f"listener.name.{name.lower()}.ssl"
        properties |= {f"{start}.keystore.type": "PEM", f"{start}.keystore.location": str(store)}
        properties |= {f"{start}.truststore.type": "PEM", f"{start}.truststore.location": str(authority.file)}
    properties["listener.name.mutual.ssl.client.auth"] = "required"
    plain = " ".join(f'user_{user}="{password}"' for user, password in PASSWORDS.items())
    for name in ("password", "open"):
        start, login = f"listener.name.{name}", "org.apache.kafka.common.security"
        properties[f"{start}.plain.sasl.jaas.config"] = f"{login}.plain.PlainLoginModule required {plain};"
        for mechanism in ("scram-sha-256", "scram-sha-512"):
            properties[f"{start}.{mechanism}.sasl.jaas.config"] = f"{login}.scram.ScramLoginModule required;"
    tokens, keys = TokenServer(PASSWORDS), folder / "keys.json"
    tokens.write_keys(keys)
    login = "org.apache.kafka.common.security.oauthbearer"
    for start in ("listener.name.token", "listener.name.bearer"):
        properties |= {
            f"{start}.sasl.enabled.mechanisms": "OAUTHBEARER",
            f"{start}.oauthbearer.sasl.jaas.config": f"{login}.OAuthBearerLoginModule required;",
            f"{start}.oauthbearer.sasl.server.callback.handler.class": f"{login}.OAuthBearerValidatorCallbackHandler",
            f"{start}.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
            f"{start}.oauthbearer.sasl.oauthbearer.expected.audience": "kafka",
        }
    users = tuple(
        f"{mechanism}=[name={user},password={password}]"
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
        for user, password in PASSWORDS.items()
    )
    allowed = (f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys.as_uri()}",)
    listeners = Listeners(protocols=_LISTENERS, properties=properties, users=users, jvm_options=allowed)
    with (
        tokens.serve() as token_url,
        Broker(folder / "broker", class_path=class_path(PROJECT, "broker"), listeners=listeners) as broker,
    ):
        _close(broker)
        yield SecureBroker(broker, folder, token_url)


def _close(broker: Broker) -> None:
    """Give the rights of `PASSWORDS`."""
    from confluent_kafka import admin

    kinds: Any = admin  # its stubs lack these classes
    bindings = [
        kinds.AclBinding(
            kinds.ResourceType.TOPIC,
            prefix,
            kinds.ResourcePatternType.PREFIXED,
            f"User:{user}",
            "*",
            kinds.AclOperation[operation],
            kinds.AclPermissionType.ALLOW,
        )
        for prefix, user, operation in (
            ("closed", "tide", "ALL"),
            ("described", "tide", "ALL"),
            ("described", "limited", "DESCRIBE"),
        )
    ]
    client = admin.AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for future in client.create_acls(bindings).values():
        future.result(TIMEOUT_SECONDS)
