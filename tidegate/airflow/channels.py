"""Sends notifications of alerts to one channel: the type of the connection that the setting ``alerts`` names selects it.

=================  ====================================  ========================================================
type               package                               needs
=================  ====================================  ========================================================
``http``           none                                  ``host``: the whole URL, or with ``schema`` and ``port``
``slackwebhook``   apache-airflow-providers-slack        as for Slack's hook
``slack``          apache-airflow-providers-slack        as for Slack's hook, and ``channel`` in ``extra``
``smtp``           apache-airflow-providers-smtp         as for the SMTP hook, with ``from_email`` and ``to`` in ``extra``
=================  ====================================  ========================================================

Every opening and resolution is logged by the task as well. A notification contains names of pipelines, flows and rules, and
numbers; never a data value.
"""

from __future__ import annotations

import html
import importlib
import json
import logging
import ssl
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import Connection, Context

from tidegate import formatting
from tidegate.advice import Advice, Edit, OutsideAct, with_advice
from tidegate.airflow.compat import AirflowNotFoundException
from tidegate.alerting.alerts import cause_in
from tidegate.alerting.rules import RULES
from tidegate.environment.settings import CONNECTION
from tidegate.errors import SetupError

if TYPE_CHECKING:
    from tidegate.alerting.episodes import Episode, Kind

TYPES = ("http", "slackwebhook", "slack", "smtp")
SECONDS = 10.0
"""Timeout of a webhook request."""


class ChannelRefusedError(Exception):
    """The channel answered with an error; the message does not contain the URL."""

    def __init__(self, problem: str, advice: Advice) -> None:
        super().__init__(with_advice(problem, advice))


@dataclass(frozen=True, kw_only=True)
class Notification:
    """The opening or the resolution of one episode, to be sent once."""

    pipeline: str
    episode: Episode
    kind: Kind

    @property
    def title(self) -> str:
        """Subject line: ``flights/silver: lag opened``, ``flights/silver: lag resolved``."""
        name = f"{self.pipeline}/{self.episode.flow}" if self.episode.flow else self.pipeline
        return f"{name}: {self.episode.rule} {self.kind}"

    @property
    def text(self) -> str:
        """The title and the episode's message; of a resolved episode the duration and the cause."""
        if self.kind == "opened" or self.episode.resolved_at is None:
            return f"{self.title}: {self.episode.message}"
        duration = formatting.span(self.episode.resolved_at - self.episode.opened_at)
        return f"{self.title} after {duration}: {cause_in(self.episode.message)}"

    def to_json(self) -> dict[str, Any]:
        """The JSON body for a webhook. Chats that accept ``{"text": …}`` can use it as is."""
        return {
            "format": 1,
            "event": self.kind,
            "pipeline": self.pipeline,
            "flow": self.episode.flow or None,
            "rule": self.episode.rule,
            "severity": RULES[self.episode.rule].severity if self.episode.rule in RULES else None,
            "message": self.episode.message,
            "opened_at": self.episode.opened_at.isoformat(),
            "resolved_at": _moment(self.episode.resolved_at),
            "text": self.text,
        }


def find(reference: str) -> Connection | None:
    """The connection that a reference names; None when it does not exist."""
    try:
        connection: Connection = Connection.get(reference.removeprefix(f"{CONNECTION}:"))
    except AirflowNotFoundException:
        return None
    return connection


def send(connection: Connection, notification: Notification, context: Context) -> None:
    """Send a notification to the channel that the connection's type selects.

    Raises:
        SetupError: The connection has another type, or lacks a field, or the provider's package is not installed.
        ChannelRefusedError: The channel answered with an error.
        Exception: Any error of the provider's library, or of httpx; its text may contain the URL.
    """
    extra = connection.extra_dejson
    match connection.conn_type:
        case "http":
            _post(connection, extra, notification)
        case "slackwebhook":
            notifier = _notifier(connection, "slack", "slack.notifications.slack_webhook", "SlackWebhookNotifier")
            notifier(slack_webhook_conn_id=connection.conn_id, text=_for_slack(notification)).notify(context)
        case "slack":
            notifier = _notifier(connection, "slack", "slack.notifications.slack", "SlackNotifier")
            notifier(
                slack_conn_id=connection.conn_id,
                text=_for_slack(notification),
                channel=_required(connection, "channel"),
            ).notify(context)
        case "smtp":
            notifier = _notifier(connection, "smtp", "smtp.notifications.smtp", "SmtpNotifier")
            notifier(
                smtp_conn_id=connection.conn_id,
                to=_required(connection, "to"),
                from_email=_required(connection, "from_email"),
                subject=f"Tidegate: {notification.title}",
                html_content=f"<p>{html.escape(notification.text)}</p>",
            ).notify(context)
        case other:
            raise SetupError(
                f"connection {connection.conn_id!r} has the type {other!r}",
                Edit(f"change it to one of {', '.join(TYPES)}", "setting"),
            )


def _for_slack(notification: Notification) -> str:
    # Slack interprets text in angle brackets as commands, such as `<!channel>`.
    return html.escape(notification.text, quote=False)


def _post(connection: Connection, extra: dict[str, Any], notification: Notification) -> None:
    host = connection.host or ""
    url = host if "://" in host else f"{connection.schema or 'http'}://{host}"
    if connection.port and "://" not in host:
        url += f":{connection.port}"
    if not host or not url.startswith(("http://", "https://")):
        raise SetupError(
            f"connection {connection.conn_id!r} has no URL",
            Edit("set its host to the URL of the webhook, for example https://chat/hook", "setting"),
        )
    import httpx

    # The URL may be a secret: neither it nor the response may be logged. httpx logs the URL of each request at level INFO.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    # A redirect counts as an error: a POST would be repeated as a GET without its body.
    with httpx.stream(
        "POST",
        url,
        content=json.dumps(notification.to_json()),
        headers={"Content-Type": "application/json", **extra.get("headers", {})},
        auth=(connection.login, connection.password or "") if connection.login else None,
        timeout=SECONDS,
        follow_redirects=False,
        # The certificates of the system, which may contain those of a company; the default are only public ones.
        verify=ssl.create_default_context(),
    ) as response:
        # The status alone counts: an error while reading the body would cause a second notification.
        if not response.is_success:
            raise ChannelRefusedError(
                f"the webhook answered {response.status_code}",
                Edit(f"if it goes on, correct connection {connection.conn_id!r}", "setting"),
            )


def _notifier(connection: Connection, package: str, module: str, name: str) -> Any:
    try:
        return getattr(importlib.import_module(f"airflow.providers.{module}"), name)
    except ModuleNotFoundError as error:
        raise SetupError(
            f"connection {connection.conn_id!r} needs the package apache-airflow-providers-{package}",
            OutsideAct("install it where Airflow's tasks run"),
        ) from error


def _required(connection: Connection, name: str) -> str:
    value = connection.extra_dejson.get(name)
    if not isinstance(value, str) or not value:
        raise SetupError(f"connection {connection.conn_id!r} has no {name!r} in its extra", Edit("add it", "setting"))
    return value


def _moment(value: datetime | None) -> str | None:
    return None if value is None else value.isoformat()
