"""The credentials of an object store, from the one source that the environment names.

obstore, delta-rs and S3A each search for credentials by themselves, in different places and orders, so that a table could be written as
somebody else than a note beside it. Here the source is chosen once: obstore and delta-rs get the keys themselves, S3A the name of the one
class that reads the same source. So each source is read here by the rules of that class, also where AWS' other tools have others.

Longer than 300 lines: each source has rules of its own.
"""

from __future__ import annotations

import json
import pkgutil
import sys
import threading
import time
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tidegate.advice import Edit, OutsideAct
from tidegate.errors import MachineUnavailableError, SetupError
from tidegate.errors.object_storage import S3A_CLASSES

VARIABLE = "TIDEGATE_S3_CREDENTIALS"
_REFRESH_BEFORE = timedelta(minutes=5)
"""How long before their end credentials are replaced, where new ones can be had."""
_SECONDS = 10.0
_PAUSE = timedelta(seconds=30)
"""How long credentials that end soon are used before new ones are asked for again: a source may give the same ones until then."""
_TOKEN_VARIABLES = frozenset({"aws_session_token", "aws_token", "session_token", "token"})
"""Variables, in lower case, from which delta-rs takes a session token for keys that have none."""
_HOSTS = ("localhost", "127.0.0.1", "::1", "169.254.170.2", "169.254.170.23", "fd00:ec2::23")
"""Which an authorization is sent to without TLS: this machine, and the addresses of ECS and EKS."""
_SDK = "software.amazon.awssdk.auth.credentials"


@dataclass(frozen=True)
class Credentials:
    """One identity, for some time. Its text says nothing of it."""

    access_key: str
    secret_key: str
    session_token: str = ""
    expires_at: datetime | None = None

    def __repr__(self) -> str:
        return "Credentials(…)"


class CredentialSource:
    """Where the credentials come from. Threads may share it.

    Args:
        variables: The environment.

    Raises:
        SetupError: The environment names a source that does not exist.
    """

    def __init__(self, variables: Mapping[str, str]) -> None:
        self.name = (variables.get(VARIABLE) or _configured(variables)).partition(":")[0]
        if self.name not in _SOURCES:
            raise SetupError(
                f"{VARIABLE}={self.name!r} is no source of credentials",
                Edit(f"set one of {', '.join(_SOURCES)}, or unset it", "setting"),
            )
        if "AWS_FORCE_CREDENTIAL_LOAD" in variables:
            raise SetupError(
                f"AWS_FORCE_CREDENTIAL_LOAD is set, by which delta-rs looks for credentials elsewhere than in the source {self.name!r}",
                Edit("unset it", "setting"),
            )
        self._variables = dict(variables)
        self._current: Credentials | None = None
        self._fetched_at = 0.0
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"CredentialSource({self.name!r})"

    @property
    def s3a_provider(self) -> str:
        """The class by which S3A reads this source, and no other. A driver gets the keys of a connection as variables."""
        return f"{_SDK}.{S3A_CLASSES.get(self.name, S3A_CLASSES['environment'])}CredentialsProvider"

    @property
    def handed_on(self) -> dict[str, str]:
        """The variables that name the source to a process on another machine: without those that have a secret."""
        named = {name: self._variables.get(name) for name in _HANDED_ON.get(self.name, ())}
        return {VARIABLE: self.name, **{name: value for name, value in named.items() if value}}

    def get(self) -> Credentials:
        """The credentials, fetched again if they are about to end.

        Raises:
            SetupError: The source has none.
            MachineUnavailableError: It does not answer.
        """
        with self._lock:
            current = self._current
            paused = timedelta(seconds=time.monotonic() - self._fetched_at) > _PAUSE
            if current is None or _ends_within(current, _REFRESH_BEFORE if paused else _PAUSE):
                self._fetched_at = time.monotonic()
                try:
                    current = self._current = self._fetch()
                except MachineUnavailableError:
                    if current is None or _ends_within(current, timedelta()):
                        raise
            return current

    def _fetch(self) -> Credentials:
        fetched = _SOURCES[self.name](self._variables)
        others = [name for name, value in self._variables.items() if name.lower() in _TOKEN_VARIABLES and value]
        if others and not fetched.session_token:
            raise SetupError(
                f"{others[0]} is set, which delta-rs takes for the session token of keys of the source {self.name!r}, which have none",
                Edit("unset it for the processes of the platform", "setting"),
            )
        return fetched

    def forget(self, refused: Credentials) -> None:
        """Fetch credentials again at the next call, because a server has refused these as expired."""
        with self._lock:
            if self._current is refused:
                self._current = None


def _ends_within(credentials: Credentials, time_left: timedelta) -> bool:
    return credentials.expires_at is not None and credentials.expires_at - datetime.now(UTC) <= time_left


def _configured(variables: Mapping[str, str]) -> str:
    """The first source that the environment configures, in the order of AWS' own tools."""
    if variables.get("AWS_ACCESS_KEY_ID"):
        return "environment"
    if variables.get("AWS_WEB_IDENTITY_TOKEN_FILE"):
        return "web-identity"
    if variables.get("AWS_PROFILE") or any(path.exists() for path in _profile_files(variables)):
        return "profile"
    if variables.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") or variables.get("AWS_CONTAINER_CREDENTIALS_FULL_URI"):
        return "container"
    return "instance"


def _of_environment(variables: Mapping[str, str]) -> Credentials:
    return Credentials(
        _variable(variables, "AWS_ACCESS_KEY_ID", "environment"),
        _variable(variables, "AWS_SECRET_ACCESS_KEY", "environment"),
        (variables.get("AWS_SESSION_TOKEN") or "").strip(),
    )


def _of_profile(variables: Mapping[str, str]) -> Credentials:
    name = variables.get("AWS_PROFILE") or "default"
    keys, settings = _profile_files(variables)
    # Of a default profile with both names the one with `profile` is used.
    values = _section(settings, f"profile {name}") or (_section(settings, name) if name == "default" else {})
    values = {**values, **_section(keys, name)}
    other = next((each for each in _OTHER_WAYS if each in values), "")
    if other or not (values.get("aws_access_key_id") and values.get("aws_secret_access_key")):
        by = (
            f"gets its keys by {other}, which Tidegate does not"
            if other
            else "has no aws_access_key_id with its aws_secret_access_key"
        )
        raise SetupError(
            f"profile {name!r} of AWS_PROFILE {by} (source 'profile')",
            Edit(f"give the profile keys, or set {VARIABLE} to another source", "setting"),
        )
    return Credentials(
        values["aws_access_key_id"], values["aws_secret_access_key"], values.get("aws_session_token", "")
    )


def _section(path: Path, name: str) -> dict[str, str]:
    """The properties of a profile in a file; none where the file is missing or does not have it."""
    import configparser

    parser = configparser.ConfigParser(interpolation=None, strict=False, inline_comment_prefixes=("#", ";"))
    try:
        parser.read_string(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (configparser.Error, UnicodeDecodeError) as error:
        # The text of the error quotes the line.
        raise SetupError(
            f"{path} cannot be parsed ({type(error).__name__}, source 'profile')", OutsideAct("correct it")
        ) from None
    return dict(parser[name]) if parser.has_section(name) else {}


def _of_web_identity(variables: Mapping[str, str]) -> Credentials:
    token = _read(Path(_variable(variables, "AWS_WEB_IDENTITY_TOKEN_FILE", "web-identity")), "web-identity")
    from xml.etree import ElementTree

    region = variables.get("AWS_REGION") or variables.get("AWS_DEFAULT_REGION") or "us-east-1"
    fields = {
        "Action": "AssumeRoleWithWebIdentity",
        "Version": "2011-06-15",
        "RoleArn": _variable(variables, "AWS_ROLE_ARN", "web-identity"),
        "RoleSessionName": variables.get("AWS_ROLE_SESSION_NAME") or "tidegate",
        "WebIdentityToken": token,
    }
    own = variables.get("AWS_ENDPOINT_URL_STS") or variables.get("AWS_ENDPOINT_URL")
    url = own or f"https://sts.{region}.amazonaws.com"
    answer = _ask(url, "web-identity", data=urllib.parse.urlencode(fields).encode())
    try:
        answered = {
            element.tag.rpartition("}")[2]: element.text or "" for element in ElementTree.fromstring(answer).iter()
        }
    except ElementTree.ParseError:
        answered = {}
    return _of_answer(answered, "web-identity", "AccessKeyId", "SecretAccessKey", "SessionToken")


def _of_container(variables: Mapping[str, str]) -> Credentials:
    url = variables.get("AWS_CONTAINER_CREDENTIALS_FULL_URI") or ""
    if relative := variables.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"):
        url = f"http://169.254.170.2{relative}"
    if not url:
        _variable(variables, "AWS_CONTAINER_CREDENTIALS_FULL_URI", "container")
    parts = urllib.parse.urlsplit(url)
    if parts.scheme == "http" and parts.hostname not in _HOSTS:
        raise SetupError(
            f"AWS_CONTAINER_CREDENTIALS_FULL_URI names {parts.hostname} by http, which shows the credentials to the network "
            "(source 'container')",
            Edit("use https, or an address of this machine", "setting"),
        )
    token = variables.get("AWS_CONTAINER_AUTHORIZATION_TOKEN") or ""
    if not token and (file := variables.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")):
        token = _read(Path(file), "container")
    return _of_json(_ask(url, "container", headers={"Authorization": token} if token else {}), "container")


def _of_instance(variables: Mapping[str, str]) -> Credentials:
    if (variables.get("AWS_EC2_METADATA_DISABLED") or "").strip().lower() == "true":
        raise SetupError(
            "AWS_EC2_METADATA_DISABLED is true, and no other source of credentials is configured (source 'instance')",
            Edit(f"unset it, or configure another source ({VARIABLE})", "setting"),
        )
    ipv6 = (variables.get("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE") or "").lower() == "ipv6"
    usual = "http://[fd00:ec2::254]" if ipv6 else "http://169.254.169.254"
    base = (variables.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or usual).rstrip("/") + "/latest"
    lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": "300"}
    token = _ask(f"{base}/api/token", "instance", headers=lifetime, method="PUT").decode("ascii", "replace").strip()
    headers, folder = {"X-aws-ec2-metadata-token": token}, f"{base}/meta-data/iam/security-credentials/"
    role = _ask(folder, "instance", headers=headers).decode("utf-8", "replace").split("\n")[0].strip()
    return _of_json(_ask(folder + urllib.parse.quote(role), "instance", headers=headers), "instance")


def _of_connection(variables: Mapping[str, str]) -> Credentials:
    connection = variables[VARIABLE].partition(":")[2]
    keys: Credentials = in_airflow("object_store_keys", VARIABLE, connection)
    return keys


def in_airflow(function: str, setting: str, connection: str) -> Any:
    """What a function of `tidegate.airflow.connections` says of a connection of Airflow.

    Raises:
        SetupError: This is no process of Airflow, which would make a home of its own to look into; or the connection lacks something.
        AirflowUnavailableError: There is no such connection, or Airflow does not answer.
    """
    if "airflow" not in sys.modules:
        raise SetupError(
            f"{setting} is the connection {connection!r} of Airflow, which only processes of Airflow can read",
            Edit(f"set {setting} to another source for this process", "setting"),
        )
    return pkgutil.resolve_name(f"tidegate.airflow.connections:{function}")(connection)


_SOURCES: dict[str, Callable[[Mapping[str, str]], Credentials]] = {
    "environment": _of_environment,
    "web-identity": _of_web_identity,
    "profile": _of_profile,
    "container": _of_container,
    "instance": _of_instance,
    "airflow-connection": _of_connection,
}
SOURCES = tuple(S3A_CLASSES)
"""Those that a process has by itself."""


_HANDED_ON = {
    "web-identity": (
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_ROLE_ARN",
        "AWS_ROLE_SESSION_NAME",
        "AWS_ENDPOINT_URL_STS",
        "AWS_ENDPOINT_URL",
    ),
    "profile": ("AWS_PROFILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"),
    "container": (
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    ),
    "instance": ("AWS_EC2_METADATA_SERVICE_ENDPOINT", "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE"),
}
"""Variables of each source that are settings of Spark for executors, which others can read: names, paths and addresses, no secrets."""
_OTHER_WAYS = ("role_arn", "sso_session", "sso_account_id", "sso_start_url", "credential_process")
"""Properties by which a profile gets its keys elsewhere, also if it has some."""


def _profile_files(variables: Mapping[str, str]) -> tuple[Path, Path]:
    """Keys, and other settings of profiles."""
    home = Path(variables.get("HOME") or "/")
    keys, settings = (
        variables.get("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials",
        variables.get("AWS_CONFIG_FILE") or "~/.aws/config",
    )
    return _in_home(home, keys), _in_home(home, settings)


def _in_home(home: Path, path: str) -> Path:
    return home / path[2:] if path.startswith("~/") else Path(path)


def _read(path: Path, source: str) -> str:
    """The token in a file. That it is missing must not look like a missing key."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SetupError(
            f"{path} has no token for credentials ({type(error).__name__}, source {source!r})",
            OutsideAct("check who writes the file, and that this process may read it"),
        ) from None
    if not text or text != text.strip():
        what = "has spaces or a line break around the token, which S3A would send, too" if text else "is empty"
        raise SetupError(
            f"{path} {what} (source {source!r})", OutsideAct("let the file have the token, and nothing else")
        )
    return text


def _variable(variables: Mapping[str, str], name: str, source: str) -> str:
    value = (variables.get(name) or "").strip()
    if not value:
        raise SetupError(
            f"credentials of AWS come from the source {source!r}, and {name} is not set",
            Edit(f"set {name}, or set {VARIABLE} to another source", "setting"),
        )
    return value


def _ask(
    url: str,
    source: str,
    *,
    headers: Mapping[str, str] | None = None,
    data: bytes | None = None,
    method: str | None = None,
) -> bytes:
    """The answer of an endpoint for credentials; its errors quote nothing of it."""
    # Where no store is in a bucket, nothing needs these modules, which are slow to import.
    import urllib.error
    import urllib.request

    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
        raise SetupError(
            f"the address of the endpoint for credentials is no URL of a server (source {source!r})",
            Edit("set one such as https://credentials.example.com/path, without a password", "setting"),
        )
    server = parts.netloc
    # No proxy: it would see the keys, and the addresses are those of this machine or of AWS.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        request = urllib.request.Request(url, data=data, headers=dict(headers or {}), method=method)
        with opener.open(request, timeout=_SECONDS) as response:
            answer: bytes = response.read()
            return answer
    except urllib.error.HTTPError as error:
        error.close()
        if error.code < 500 and error.code != 429:
            raise SetupError(
                f"{server} gave no credentials (source {source!r}): it answered {error.code}",
                OutsideAct("check the role of this process, and who may take it"),
            ) from None
        why = f"it answered {error.code}"
    except (OSError, ValueError) as error:
        why = f"it does not answer ({type(error).__name__})"
    raise MachineUnavailableError(
        f"{server} gave no credentials (source {source!r}): {why}",
        OutsideAct(f"check that the endpoint can be reached, or set another source ({VARIABLE}), then run again"),
    ) from None


def _of_json(answer: bytes, source: str) -> Credentials:
    try:
        answered = json.loads(answer)
    except ValueError:
        answered = {}
    return _of_answer(answered if isinstance(answered, dict) else {}, source, "AccessKeyId", "SecretAccessKey", "Token")


def _of_answer(answered: Mapping[str, Any], source: str, access_key: str, secret_key: str, token: str) -> Credentials:
    try:
        ends = answered.get("Expiration")
        return Credentials(
            str(answered[access_key]),
            str(answered[secret_key]),
            str(answered.get(token) or ""),
            datetime.fromisoformat(str(ends)).astimezone(UTC) if ends else None,
        )
    except (KeyError, ValueError):
        raise SetupError(
            f"what the endpoint of the source {source!r} answered are no credentials",
            OutsideAct("check that the address is that of an endpoint for credentials"),
        ) from None
