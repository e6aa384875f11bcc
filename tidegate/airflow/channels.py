"""Where notices of alerts go: the connection ``tidegate_alerts`` names one channel by its type.

=================  ====================================  ========================================================
type               package                               needs
=================  ====================================  ========================================================
``http``           none                                  ``host``: the whole URL, or with ``schema`` and ``port``
``slackwebhook``   apache-airflow-providers-slack        as Slack's own hook
``slack``          apache-airflow-providers-slack        as Slack's own hook, and ``channel`` in ``extra``
``smtp``           apache-airflow-providers-smtp         as SMTP's own hook, with ``from_email`` and ``to`` in ``extra``
=================  ====================================  ========================================================

The log of the task is told in any case. A notice names pipelines, flows, rules and numbers, never a value of the data.
"""

from __future__ import annotations

import html
import importlib
import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import Connection, Context
from airflow.sdk.exceptions import AirflowNotFoundException

from tidegate import web, wording
from tidegate.errors import SetupError

if TYPE_CHECKING:
    from tidegate.alerting.episodes import Episode, Kind

CONNECTION = "tidegate_alerts"
"""The id of the connection."""
TYPES = ("http", "slackwebhook", "slack", "smtp")
SECONDS = 10.0
"""How long a webhook may take to answer."""


class RefusedError(Exception):
    """The other side answered, and did not take this notice; the text names no address."""


@dataclass(frozen=True, kw_only=True)
class Notice:
    """One end of one episode, to be told once."""

    pipeline: str
    episode: Episode
    kind: Kind

    @property
    def title(self) -> str:
        """In a few words: ``flights/silver: lag is open``."""
        place = f"{self.pipeline}/{self.episode.flow}" if self.episode.flow else self.pipeline
        return f"{place}: {self.episode.rule} {'opened' if self.kind == 'opened' else 'is over'}"

    @property
    def text(self) -> str:
        """The title, and what was observed or how long it took."""
        if self.kind == "opened" or self.episode.resolved_at is None:
            return f"{self.title}: {self.episode.message}"
        lasted = wording.span(self.episode.resolved_at - self.episode.opened_at)
        return f"{self.title} after {lasted}: {self.episode.message}"

    def to_json(self) -> dict[str, Any]:
        """What a webhook gets. ``text`` alone is enough for chats that take a message by that name."""
        return {
            "format": 1,
            "event": self.kind,
            "pipeline": self.pipeline,
            "flow": self.episode.flow or None,
            "rule": self.episode.rule,
            "message": self.episode.message,
            "opened_at": self.episode.opened_at.isoformat(),
            "resolved_at": _moment(self.episode.resolved_at),
            "text": self.text,
        }


def find() -> Connection | None:
    """The connection; None when there is none."""
    try:
        found: Connection = Connection.get(CONNECTION)
    except AirflowNotFoundException:
        return None
    return found


def send(connection: Connection, notice: Notice, context: Context) -> None:
    """Tell a channel.

    Args:
        connection: Its type says which.
        notice: What.
        context: Of the task that tells.

    Raises:
        SetupError: The connection has another type, or lacks something, or its package is not installed.
        RefusedError: The other side did not take this notice.
        Exception: What the channel's own library raises, `OSError` when it cannot be reached.
    """
    extra = connection.extra_dejson
    match connection.conn_type:
        case "http":
            _post(connection, extra, notice)
        case "slackwebhook":
            made = _notifier("slack", "slack.notifications.slack_webhook", "SlackWebhookNotifier")
            made(slack_webhook_conn_id=CONNECTION, text=_for_slack(notice)).notify(context)
        case "slack":
            made = _notifier("slack", "slack.notifications.slack", "SlackNotifier")
            made(slack_conn_id=CONNECTION, text=_for_slack(notice), channel=_needed(extra, "channel")).notify(context)
        case "smtp":
            made = _notifier("smtp", "smtp.notifications.smtp", "SmtpNotifier")
            made(
                smtp_conn_id=CONNECTION,
                to=_needed(extra, "to"),
                from_email=_needed(extra, "from_email"),
                subject=f"Tidegate: {notice.title}",
                html_content=f"<p>{html.escape(notice.text)}</p>",
            ).notify(context)
        case other:
            raise SetupError(f"connection {CONNECTION!r} has the type {other!r}; give it one of {', '.join(TYPES)}")


def _for_slack(notice: Notice) -> str:
    # Slack reads what stands between these as commands, such as `<!channel>`.
    return html.escape(notice.text, quote=False)


def _post(connection: Connection, extra: dict[str, Any], notice: Notice) -> None:
    host = connection.host or ""
    url = host if "://" in host else f"{connection.schema or 'http'}://{host}"
    if connection.port and "://" not in host:
        url += f":{connection.port}"
    if not host or not url.startswith(("http://", "https://")):
        raise SetupError(
            f"connection {CONNECTION!r} names no web address; let its host be one, as in https://chat/hook"
        )
    headers = {"Content-Type": "application/json", **extra.get("headers", {})}
    if connection.login:
        headers["Authorization"] = web.basic(connection.login, connection.password or "")
    request = urllib.request.Request(url, json.dumps(notice.to_json()).encode(), headers, method="POST")
    try:
        # Taken is taken, whatever else it says: to read on could only fail, and the notice would be sent again.
        web.ask(request, SECONDS).close()
    except urllib.error.HTTPError as error:
        # The address may be a secret: neither it nor the answer belongs into a log.
        raise RefusedError(f"the webhook answered {error.code}") from None


def _notifier(package: str, module: str, name: str) -> Any:
    try:
        return getattr(importlib.import_module(f"airflow.providers.{module}"), name)
    except ModuleNotFoundError as error:
        raise SetupError(
            f"connection {CONNECTION!r} needs the package apache-airflow-providers-{package}; install it where Airflow's "
            "tasks run"
        ) from error


def _needed(extra: dict[str, Any], name: str) -> str:
    found = extra.get(name)
    if not isinstance(found, str) or not found:
        raise SetupError(f"connection {CONNECTION!r} lacks {name!r} in its extra")
    return found


def _moment(value: datetime | None) -> str | None:
    return None if value is None else value.isoformat()
