"""Connections of Airflow that settings name: keys of buckets and passwords, read where and when they are needed.

A driver on the worker gets them as variables of its process. They are in no option of its command, which a cluster, its pages and the log
of the task would show.
"""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import BaseHook

from tidegate.advice import Edit, Either, OutsideAct
from tidegate.airflow.compat import AirflowNotFoundException
from tidegate.environment import Environment
from tidegate.environment.settings import CONNECTION, SETTINGS, Setting
from tidegate.errors import AirflowUnavailableError, SetupError
from tidegate.store.credentials import Credentials
from tidegate.store.location import BucketFolder

_AGAIN = timedelta(minutes=10)
"""How long keys are used before a connection is read again."""
_OTHER_WAYS = ("role_arn", "assume_role_method", "profile_name")
"""Extras by which a connection of type `aws` gets other keys than its own."""


def object_store_keys(connection_id: str) -> Credentials:
    """The keys of a connection: access key in its login, secret key in its password, ``aws_session_token`` in its extra.

    Raises:
        SetupError: It has none, or gets them elsewhere.
        AirflowUnavailableError: There is no such connection, or Airflow does not answer.
    """
    connection = _read(connection_id)
    extra = connection.extra_dejson
    if other := next((each for each in _OTHER_WAYS if extra.get(each)), ""):
        raise SetupError(
            f"connection {connection_id!r} gets its keys by its extra {other!r}, which Tidegate does not",
            Edit("remove it, or set s3.credentials to a source that has a role", "setting"),
        )
    if not connection.login or not connection.password:
        raise SetupError(
            f"connection {connection_id!r} has no keys",
            Edit("set its login to the access key, its password to the secret key", "setting"),
        )
    token = str(extra.get("aws_session_token") or "")
    return Credentials(connection.login, connection.password, token, datetime.now(UTC) + _AGAIN)


def password(connection_id: str) -> str:
    """The password of a connection.

    Raises:
        SetupError: It has none.
        AirflowUnavailableError: As `object_store_keys`.
    """
    connection = _read(connection_id)
    if not connection.password:
        raise SetupError(f"connection {connection_id!r} has no password", Edit("set it", "setting"))
    return str(connection.password)


def for_driver(environment: Environment) -> tuple[Environment, dict[str, str]]:
    """The environment of a driver on this machine, without references to connections, and the variables that its process gets for them.

    Raises:
        SetupError: As `object_store_keys` and `password`; so is AirflowUnavailableError.
    """
    changes, variables = dict[str, Any](), dict[str, str]()
    if any(isinstance(each, BucketFolder) for each in (environment.lake_at, environment.landing_at)):
        kind, _, connection_id = environment.s3_credentials.partition(":")
        if kind == CONNECTION:
            keys = object_store_keys(connection_id)
            changes["s3_credentials"] = "environment"
            variables |= {"AWS_ACCESS_KEY_ID": keys.access_key, "AWS_SECRET_ACCESS_KEY": keys.secret_key}
            variables |= {"AWS_SESSION_TOKEN": keys.session_token} if keys.session_token else {}
    # References that a process outside of Airflow could resolve are for jobs, too.
    for setting in (each for each in SETTINGS if "env" in each.references):
        several = changes.get(setting.field, getattr(environment, setting.field))
        named = {key: setting.of(name) for key, _ in several if (name := setting.key_name(key))}
        own = named if setting.named else {setting.key: setting}
        changes[setting.field] = tuple(
            (key, _passed(own[key], text, variables) if key in own else text) for key, text in several
        )
    return dataclasses.replace(environment, **changes), variables


def _passed(setting: Setting, reference: str, variables: dict[str, str]) -> str:
    """The reference for a driver; of a connection, that to a variable, which is added with the password."""
    kind, _, connection_id = reference.partition(":")
    if kind != CONNECTION:
        return reference
    variable = f"{setting.variable}_VALUE"
    variables[variable] = password(connection_id)
    return f"env:{variable}"


def _read(connection_id: str) -> Any:
    try:
        return BaseHook.get_connection(connection_id)
    except AirflowNotFoundException:
        # Airflow says the same when its API server does not answer.
        raise AirflowUnavailableError(
            f"Airflow has no connection {connection_id!r}, or does not answer",
            Either(Edit("create it", "setting"), OutsideAct("start Airflow's API server")),
        ) from None
