"""Clusters of Kafka: the settings of each, and what both clients make of them, Java's (in Spark) and librdkafka.

`OPTIONS` declares each option once, with its name for either client. A secret is a reference. Java's client gets references of Kafka's own
config providers, which it resolves itself wherever it runs, so that no option of Spark has a secret. librdkafka gets the secret.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate.advice import Edit, OutsideAct
from tidegate.environment import references
from tidegate.environment.settings import IAM
from tidegate.errors import SetupError

DEFAULT = "default"
"""The name of the cluster of a source or a sink that names none."""
_PROVIDERS = {
    "config.providers": "env,directory",
    "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
    "config.providers.directory.class": "org.apache.kafka.common.config.provider.DirectoryConfigProvider",
}
_LOGIN_MODULES = {
    "PLAIN": "plain.PlainLoginModule",
    "SCRAM-SHA-256": "scram.ScramLoginModule",
    "SCRAM-SHA-512": "scram.ScramLoginModule",
    "OAUTHBEARER": "oauthbearer.OAuthBearerLoginModule",
    IAM: "oauthbearer.OAuthBearerLoginModule",
}
_TOKEN_HANDLERS = {
    "OAUTHBEARER": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
    IAM: "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler",
}


@dataclass(frozen=True, kw_only=True)
class Option:
    """One option of Kafka's clients, in both."""

    setting: str
    """After ``kafka.<name>.``; of those in ``options``, Java's name."""
    java: str
    librdkafka: str


OPTIONS = (
    Option(setting="security", java="security.protocol", librdkafka="security.protocol"),
    Option(setting="mechanism", java="sasl.mechanism", librdkafka="sasl.mechanism"),
    Option(
        setting="token_url",
        java="sasl.oauthbearer.token.endpoint.url",
        librdkafka="sasl.oauthbearer.token.endpoint.url",
    ),
    Option(setting="ca", java="ssl.truststore.certificates", librdkafka="ssl.ca.pem"),
    Option(setting="certificate", java="ssl.keystore.certificate.chain", librdkafka="ssl.certificate.pem"),
    Option(setting="key", java="ssl.keystore.key", librdkafka="ssl.key.pem"),
    Option(setting="key_password", java="ssl.key.password", librdkafka="ssl.key.password"),
)
"""The settings that are an option of either client each. User and password have no option of their own in Java's."""
MORE_OPTIONS = {
    each.setting: each
    for each in (
        *(
            Option(setting=name, java=name, librdkafka=name)
            for name in (
                *("client.id", "client.rack", "connections.max.idle.ms", "metadata.max.age.ms"),
                *("reconnect.backoff.ms", "reconnect.backoff.max.ms"),
            )
        ),
        Option(setting="receive.buffer.bytes", java="receive.buffer.bytes", librdkafka="socket.receive.buffer.bytes"),
        Option(setting="send.buffer.bytes", java="send.buffer.bytes", librdkafka="socket.send.buffer.bytes"),
    )
}
"""What ``kafka.<name>.options`` may have. None of them changes what is read, in which order, or who may read it."""


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A cluster of Kafka. It has no secret, only references, and may be pickled."""

    name: str = DEFAULT
    servers: str
    """``host:port``, or several separated by commas."""
    settings: tuple[tuple[str, str], ...] = ()
    """Setting, as after ``kafka.<name>.``, to its text."""
    region: str = ""
    credentials: str = ""
    """With `IAM`: the settings ``s3.region`` and ``s3.credentials``, for clients without a JVM."""

    @property
    def uses_iam(self) -> bool:
        """Whether its clients make their tokens themselves, with credentials of AWS."""
        return dict(self.settings).get("mechanism") == IAM

    def __str__(self) -> str:
        """For messages."""
        return f"{self.servers} (cluster {self.name})"

    def __post_init__(self) -> None:
        given, owner = dict(self.settings), f"kafka.{self.name}"
        security, mechanism = given.get("security", "PLAINTEXT"), given.get("mechanism", "")
        if security.startswith("SASL") != bool(mechanism):
            what = "no mechanism" if not mechanism else f"a mechanism, and security {security}"
            raise SetupError(
                f"{owner} has {what}",
                Edit(f"set {owner}.security to SASL_SSL and {owner}.mechanism, or neither", "setting"),
            )
        needed = {"user", "password"} if mechanism not in ("", IAM) else set()
        needed |= {"token_url"} if mechanism == "OAUTHBEARER" else set()
        needed |= {"certificate", "key"} if {"certificate", "key", "key_password"} & set(given) else set()
        tuple(parsed_options(given.get("options", "")))
        if missing := sorted(needed - set(given)):
            raise SetupError(
                f"{owner} has no {' and no '.join(missing)}",
                Edit(f"set {' and '.join(f'{owner}.{each}' for each in missing)}", "setting"),
            )
        unused = {"user", "password"} if mechanism in ("", IAM) else set()
        unused |= {"token_url", "scope"} if mechanism != "OAUTHBEARER" else set()
        unused |= {"ca", "certificate", "key", "key_password"} if not security.endswith("SSL") else set()
        if wrong := sorted(unused & set(given)):
            which = f"{security} with {mechanism}" if mechanism else security
            raise SetupError(
                f"{owner} has {' and '.join(wrong)}, which {which} does not use",
                Edit(f"leave them out, or set {owner}.security and {owner}.mechanism", "setting"),
            )

    def librdkafka(self) -> dict[str, Any]:
        """The configuration of a client of librdkafka, with secrets: not to be shown.

        Raises:
            SetupError: A secret is not where its reference says, or no client of Java could read it; or there are no credentials of AWS.
            MachineUnavailableError: The source of these credentials does not answer.
        """
        given = dict(self.settings)
        self._check_for_java(None)
        config: dict[str, Any] = {"bootstrap.servers": self.servers}
        config |= {option.librdkafka: self._secret(option.setting) for option in self._given()}
        config |= {MORE_OPTIONS[name].librdkafka: value for name, value in parsed_options(given.get("options", ""))}
        if given.get("mechanism") == "OAUTHBEARER":
            config |= {
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.id": given["user"],
                "sasl.oauthbearer.client.secret": self._secret("password"),
            }
            config |= {"sasl.oauthbearer.scope": given["scope"]} if "scope" in given else {}
            config |= {"https.ca.pem": config["ssl.ca.pem"]} if "ca" in given else {}
        elif self.uses_iam:
            from tidegate.environment import iam_token

            call = iam_token.callback(self._checked_region(), self.credentials)
            config |= {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": call}
        elif "mechanism" in given:
            config |= {"sasl.username": given["user"], "sasl.password": self._secret("password")}
        return config

    def java(self, version: int) -> dict[str, str]:
        """The configuration of a client of Java, with references in place of secrets.

        Args:
            version: Of the JVM that gets it.

        Raises:
            SetupError: A secret is not where its reference says, or not one that Java's client reads as it is; or `IAM` lacks a region.
        """
        given = dict(self.settings)
        self._check_for_java(version)
        config = {"bootstrap.servers": self.servers}
        config |= {option.java: self._reference(option.setting) for option in self._given()}
        config |= {MORE_OPTIONS[name].java: value for name, value in parsed_options(given.get("options", ""))}
        config |= {"ssl.truststore.type": "PEM"} if "ca" in given else {}
        config |= {"ssl.keystore.type": "PEM"} if "certificate" in given else {}
        if mechanism := given.get("mechanism"):
            config["sasl.jaas.config"] = self._login(mechanism, given)
        if mechanism in _TOKEN_HANDLERS:
            config["sasl.login.callback.handler.class"] = _TOKEN_HANDLERS[mechanism]
        if self.uses_iam:
            self._checked_region()
            config["sasl.mechanism"] = "OAUTHBEARER"
        uses_references = any("${" in value for value in config.values())
        return config | (_PROVIDERS if uses_references else {})

    def spark(self, java: int) -> dict[str, str]:
        """The options of Spark's source and sink of this cluster. Argument and errors as of `java`."""
        return {f"kafka.{name}": value for name, value in self.java(java).items()}

    def _checked_region(self) -> str:
        if not self.region:
            raise SetupError(
                f"kafka.{self.name} has the mechanism {IAM}, and no region is set",
                Edit("set s3.region (AWS_REGION) to the region of the cluster", "setting"),
            )
        return self.region

    def _given(self) -> Iterator[Option]:
        given = dict(self.settings)
        return (option for option in OPTIONS if option.setting in given)

    def _secret(self, setting: str) -> str:
        text = dict(self.settings)[setting]
        return references.resolve(f"kafka.{self.name}.{setting}", text) if setting in SECRETS else text

    def _reference(self, setting: str) -> str:
        text = dict(self.settings)[setting]
        if setting not in SECRETS:
            return text
        kind, _, what = text.partition(":")
        if kind == "env":
            return f"${{env:{what}}}"
        if kind == "file" and not re.search(r"[:{}$]", what):
            return f"${{directory:{Path(what).parent}:{Path(what).name}}}"
        raise SetupError(
            f"kafka.{self.name}.{setting} is {text}, which Spark's client of Kafka cannot read",
            Edit("name a variable (env:…), or a file without ':', '{', '}' and '$' in its path (file:…)", "setting"),
        )

    def _login(self, mechanism: str, given: Mapping[str, str]) -> str:
        """The login module with its options in quotes, into which Java's client puts the password as it is in its file or variable."""
        names = ("clientId", "clientSecret") if mechanism == "OAUTHBEARER" else ("username", "password")
        options = {names[0]: given["user"], names[1]: self._reference("password")} if mechanism != IAM else {}
        options |= {"scope": given["scope"]} if "scope" in given else {}
        text = "".join(f' {name}="{value}"' for name, value in options.items())
        return f"org.apache.kafka.common.security.{_LOGIN_MODULES[mechanism]} required{text};"

    def _check_for_java(self, version: int | None) -> None:
        """Refuse what Java's client would read otherwise than librdkafka, or not at all, in plans as well as in runs."""
        given = dict(self.settings)
        for setting in ("password", "key_password"):
            if setting in given:
                self._check_exact(setting, given[setting])
        if "key" not in given:
            return
        from tidegate.environment import key_forms

        name = f"kafka.{self.name}.key"
        if wrong := key_forms.unreadable(references.exact(name, given["key"]), version):
            convert = f"convert it with {wrong.command}, and name the new file" if wrong.command else "take another key"
            raise SetupError(
                f"{name} is {given['key']}, which {wrong.why}: Spark's client of Kafka does not read it",
                OutsideAct(convert),
            )

    def _check_exact(self, setting: str, reference: str) -> None:
        """Java's client takes a password as it is in a file or a variable, and a user's within quotes."""
        if re.search(r'["\\\x00-\x1f]', references.exact(f"kafka.{self.name}.{setting}", reference)):
            raise SetupError(
                f"kafka.{self.name}.{setting} is {reference}, which has a line break, a quote or a backslash: Java's client of Kafka would "
                "read it as something else",
                Edit("write the password alone, without a line break at its end, or choose another one", "setting"),
            )


SECRETS = frozenset({"password", "ca", "certificate", "key", "key_password"})
"""The settings that are references."""

Clusters = Callable[[str], Cluster]
"""The cluster of a name. Raises SetupError if there is none, or its settings do not fit together."""


def parsed_options(text: str) -> Iterator[tuple[str, str]]:
    """Name and value of each option in ``client.rack=a, client.id=b``.

    Raises:
        SetupError: One is not in `MORE_OPTIONS`, or has no value.
    """
    for each in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = (part.strip() for part in each.partition("="))
        if name not in MORE_OPTIONS or not value:
            raise SetupError(
                f"{name!r} is no option that may be set for Kafka, or has no value",
                Edit(f"write name=value, with one of {', '.join(MORE_OPTIONS)}", "setting"),
            )
        yield name, value
