"""The DAG `alerts` records episodes and sends one notification per opening and per resolution."""

from __future__ import annotations

import base64
import json
import logging
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Any, ClassVar, cast
from urllib.parse import parse_qsl

import pytest
from airflow.sdk import BaseOperator, Context

from tidegate.airflow import channels
from tidegate.airflow.failure import TaskFailure
from tidegate.alerting.episodes import Episode
from tidegate.environment import Environment
from tidegate.lake.layout import Layout
from tidegate.lake.place import PipelinePlace
from tidegate.ops import alert_history, plans

pytestmark = pytest.mark.airflow


class Webhook:
    """A webhook on loopback. It keeps the accepted requests, and answers with the status that a test sets."""

    def __init__(self) -> None:
        self.received: list[dict[str, Any]] = []
        self.authorization: str | None = None
        self.status = 200
        hook = self

        class Answer(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                hook.authorization = self.headers["Authorization"]
                if hook.status == 200:
                    hook.received.append(body)
                self.send_response(hook.status)
                self.send_header("Location", "/moved")
                self.end_headers()

            def do_GET(self) -> None:
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Nothing."""

        self._server = HTTPServer(("127.0.0.1", 0), Answer)
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook/a-secret"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def new_events(self) -> list[tuple[str, str, str]]:
        """Flow, rule and event of each notification since the last call."""
        received, self.received = self.received, []
        return sorted((f"{each['pipeline']}/{each['flow']}", each["rule"], each["event"]) for each in received)

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    server = Webhook()
    yield server
    server.stop()


@pytest.fixture
def layout(project_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    """With a file in place of a landing folder and without a broker: the flows with an external source are unreadable."""
    monkeypatch.setenv("TIDEGATE_KAFKA", "127.0.0.1:9")
    layout = Layout.local(project_dir / ".data/lake", project_dir / ".data/landing")
    layout.landing("flights").put(b"a file in place of the folder")
    return layout


def connect(monkeypatch: pytest.MonkeyPatch, **fields: Any) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_TIDEGATE_ALERTS", json.dumps(fields))


def evaluate() -> None:
    """Execute the DAG's task once, without Airflow."""
    from dags.alerts import dag

    cast(BaseOperator, dag.get_task("evaluate")).execute(cast(Context, {}))


OPENED = [(f"{name}/bronze", "unreadable", "opened") for name in ("clickstream", "flights", "payments")]


def test_each_opening_and_each_resolution_is_sent_once(
    layout: Layout, webhook: Webhook, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    connect(monkeypatch, conn_type="http", host=webhook.url)
    evaluate()
    opened = next(each for each in webhook.received if each["pipeline"] == "flights")
    assert "flights/bronze: unreadable opened: landing folder" in opened["text"]
    assert (opened["format"], opened["resolved_at"]) == (1, None)
    assert webhook.new_events() == OPENED
    evaluate()
    assert webhook.new_events() == []
    layout.landing("flights").delete()
    evaluate()
    resolved = webhook.received[0]
    assert "flights/bronze: unreadable resolved after " in resolved["text"]
    assert resolved["opened_at"] == opened["opened_at"] < resolved["resolved_at"]
    assert webhook.new_events() == [("flights/bronze", "unreadable", "resolved")]
    evaluate()
    assert webhook.new_events() == []
    (episode,) = alert_history.episodes(PipelinePlace(layout, "flights"))
    assert episode.notified == {("opened", "http"), ("resolved", "http")}
    log = capsys.readouterr().out
    assert "sent to http: flights/bronze: unreadable resolved" in log
    assert "a-secret" not in log


def test_the_next_run_sends_the_notifications_of_an_unreachable_channel(
    layout: Layout, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(monkeypatch, conn_type="http", host=webhook.url)
    webhook.status = 503
    with pytest.raises(
        TaskFailure, match=f"{len(OPENED)} notifications were not sent: the webhook answered 503"
    ) as error:
        evaluate()
    assert "a-secret" not in str(error.value)
    assert len(alert_history.episodes(PipelinePlace(layout, "flights"))) == 1, "the episode is recorded"
    webhook.status = 302
    with pytest.raises(TaskFailure, match="the webhook answered 302"):
        evaluate()
    connect(monkeypatch, conn_type="http", host="http://127.0.0.1:9/away")
    with pytest.raises(TaskFailure, match=f"{len(OPENED)} notifications were not sent"):
        evaluate()
    connect(monkeypatch, conn_type="http", host=webhook.url)
    webhook.status = 200
    evaluate()
    assert webhook.new_events() == OPENED


def test_a_webhook_gets_user_and_password_and_its_url_is_not_logged(
    layout: Layout, webhook: Webhook, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    logging.getLogger("httpx").setLevel(logging.NOTSET)
    caplog.set_level(logging.INFO)
    connect(monkeypatch, conn_type="http", host=webhook.url, login="jörg", password="p:ß")
    evaluate()
    assert webhook.authorization == f"Basic {base64.b64encode('jörg:p:ß'.encode()).decode()}"
    assert "a-secret" not in caplog.text


def test_a_notification_that_was_sent_and_not_recorded_is_sent_again(
    layout: Layout, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(monkeypatch, conn_type="http", host=webhook.url)
    append = alert_history.append

    def killed(place: PipelinePlace, events: Any) -> None:
        if any(event.channel for event in events):
            raise KeyboardInterrupt
        append(place, events)

    monkeypatch.setattr(alert_history, "append", killed)
    with pytest.raises(KeyboardInterrupt):
        evaluate()
    assert len(webhook.new_events()) == 1
    monkeypatch.setattr(alert_history, "append", append)
    evaluate()
    assert webhook.new_events() == OPENED


class Mailbox(StreamRequestHandler):
    """An SMTP server, as far as one mail needs it; keeps each mail as text."""

    mails: ClassVar[list[str]] = []

    def handle(self) -> None:
        self.wfile.write(b"220 mailbox\r\n")
        for line in self.rfile:
            word = line[:4].upper()
            if word == b"DATA":
                self.wfile.write(b"354 go on\r\n")
                self.mails.append(b"".join(iter(self.rfile.readline, b".\r\n")).decode())
            self.wfile.write(b"221 bye\r\n" if word == b"QUIT" else b"250 ok\r\n")


def test_a_mailbox_gets_a_mail_for_each_notification(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"disable_ssl": True, "disable_tls": True, "from_email": "tidegate@example.com", "to": "data@example.com"}
    with ThreadingTCPServer(("127.0.0.1", 0), Mailbox) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        connect(monkeypatch, conn_type="smtp", host="127.0.0.1", port=server.server_address[1], extra=extra)
        evaluate()
        evaluate()
        server.shutdown()
    assert len(Mailbox.mails) == len(OPENED)
    assert any("Subject: Tidegate: flights/bronze: unreadable opened" in mail for mail in Mailbox.mails)
    assert all("To: data@example.com" in mail for mail in Mailbox.mails)


class Slack:
    """A server on loopback that answers like Slack to an incoming webhook and to a bot; keeps each message."""

    def __init__(self) -> None:
        self.webhook: list[dict[str, Any]] = []
        self.bot: list[tuple[str | None, dict[str, Any]]] = []
        self.refuses = False
        slack = self

        class Answer(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                json_sent = self.headers["Content-Type"].startswith("application/json")
                message = json.loads(body) if json_sent else dict(parse_qsl(body))
                if slack.refuses:
                    answer, kind = b"no_service", "text/plain"
                elif self.path == "/services/T0/B0/a-secret":
                    slack.webhook.append(message)
                    answer, kind = b"ok", "text/plain"
                else:
                    assert self.path == "/api/chat.postMessage"
                    slack.bot.append((self.headers["Authorization"], message))
                    answer, kind = b'{"ok": true}', "application/json"
                self.send_response(404 if slack.refuses else 200)
                self.send_header("Content-Type", kind)
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: Any) -> None:
                """Nothing."""

        self._server = HTTPServer(("127.0.0.1", 0), Answer)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def slack() -> Iterator[Slack]:
    server = Slack()
    yield server
    server.stop()


def test_a_slack_webhook_gets_each_notification_once_and_its_url_is_never_logged(
    layout: Layout, slack: Slack, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    connect(monkeypatch, conn_type="slackwebhook", host=f"{slack.address}/services", password="T0/B0/a-secret")
    slack.refuses = True
    with pytest.raises(
        TaskFailure, match=f"{len(OPENED)} notifications were not sent: connection 'tidegate_alerts' failed"
    ) as error:
        evaluate()
    slack.refuses = False
    evaluate()
    evaluate()
    assert len(slack.webhook) == len(OPENED)
    assert any(message["text"].startswith("flights/bronze: unreadable opened: landing") for message in slack.webhook)
    layout.landing("flights").delete()
    evaluate()
    assert slack.webhook[len(OPENED)]["text"].startswith("flights/bronze: unreadable resolved after ")
    assert "a-secret" not in capsys.readouterr().out + str(error.value)


def test_a_slack_bot_writes_into_the_channel_of_the_connection(
    layout: Layout, slack: Slack, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = {"channel": "#data", "base_url": f"{slack.address}/api/"}
    connect(monkeypatch, conn_type="slack", password="xoxb-a-secret", extra=extra)
    evaluate()
    evaluate()
    assert [(token, message["channel"]) for token, message in slack.bot] == [("Bearer xoxb-a-secret", "#data")] * len(
        OPENED
    )
    assert any(message["text"].startswith("flights/bronze: unreadable opened") for _, message in slack.bot)


def test_slack_commands_in_a_message_are_escaped(layout: Layout, slack: Slack, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = datetime(2026, 1, 5, tzinfo=UTC)
    episode = Episode(flow="silver", rule="refused", opened_at=opened, message="<!channel> a & b")
    notification = channels.Notification(pipeline="flights", episode=episode, kind="opened")
    connect(monkeypatch, conn_type="slackwebhook", host=f"{slack.address}/services", password="T0/B0/a-secret")
    connection = channels.find("airflow-connection:tidegate_alerts")
    assert connection is not None
    channels.send(connection, notification, cast(Context, {}))
    assert slack.webhook[0]["text"] == "flights/silver: refused opened: &lt;!channel&gt; a &amp; b"


def test_without_a_connection_episodes_are_logged(layout: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    evaluate()
    assert "flights/bronze: unreadable opened: landing folder" in capsys.readouterr().out
    evaluate()
    again = capsys.readouterr().out
    assert "opened" not in again
    assert "flights: 1 open alert" in again


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"conn_type": "slack", "password": "x"}, "has no 'channel' in its extra"),
        ({"conn_type": "ftp"}, "has the type 'ftp'; change it to one of http, slackwebhook, slack, smtp"),
        ({"conn_type": "http"}, "has no URL"),
        ({"conn_type": "smtp", "host": "127.0.0.1"}, "has no 'to' in its extra"),
    ],
)
def test_an_invalid_connection_says_how_to_correct_it_and_loses_no_episode(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], message: str
) -> None:
    connect(monkeypatch, **fields)
    with pytest.raises(TaskFailure, match=message):
        evaluate()
    assert len(alert_history.episodes(PipelinePlace(layout, "flights"))) == 1


@pytest.mark.parametrize(
    ("conn_type", "module", "package"),
    [
        ("slackwebhook", "slack.notifications.slack_webhook", "slack"),
        ("slack", "slack.notifications.slack", "slack"),
        ("smtp", "smtp.notifications.smtp", "smtp"),
    ],
)
def test_a_missing_package_of_a_channel_is_named(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, conn_type: str, module: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, f"airflow.providers.{module}", None)
    extra = {"channel": "#data", "to": "data@example.com", "from_email": "tidegate@example.com"}
    connect(monkeypatch, conn_type=conn_type, password="x", extra=extra)
    with pytest.raises(TaskFailure, match=f"needs the package apache-airflow-providers-{package}"):
        evaluate()


def test_the_first_evaluation_is_recorded_for_a_pipeline_without_plans(layout: Layout) -> None:
    evaluate()
    first = plans.last_activity(PipelinePlace(layout, "flights"))
    assert first is not None
    evaluate()
    assert plans.last_activity(PipelinePlace(layout, "flights")) == first


def test_a_broken_history_of_one_pipeline_does_not_stop_notifications_of_others(
    layout: Layout, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(monkeypatch, conn_type="http", host=webhook.url)
    log = PipelinePlace(layout, "clickstream").ops("alerts") / "_delta_log"
    log.make_folder()
    (log / f"{0:020d}.json").put(b"no log")
    with pytest.raises(TaskFailure, match="the alerts of clickstream were not recorded"):
        evaluate()
    assert webhook.new_events() == OPENED[1:]


def test_episodes_of_a_pipeline_that_is_no_longer_declared_are_resolved_and_sent_once(
    layout: Layout, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidegate.status import status_cache

    connect(monkeypatch, conn_type="http", host=webhook.url)
    evaluate()
    webhook.new_events()
    declared = status_cache.declarations(Environment.read())
    del declared["clickstream"]
    monkeypatch.setattr(status_cache, "declarations", lambda _: declared)
    evaluate()
    assert ("clickstream/bronze", "unreadable", "resolved") in webhook.new_events()
    before = [
        episode
        for episode in alert_history.episodes(PipelinePlace(layout, "clickstream"))
        if episode.resolved_at is None
    ]
    assert before == []
    evaluate()
    assert webhook.new_events() == []


@pytest.mark.nightly
def test_airflow_runs_the_dag(runs: Any, layout: Layout, webhook: Webhook, monkeypatch: Any) -> None:
    from dags.alerts import dag

    assert (dag.max_active_runs, dag.catchup, dag.is_paused_upon_creation) == (1, False, False)
    connect(monkeypatch, conn_type="http", host=webhook.url)
    assert runs.states(runs.start(dag)) == {"evaluate": "success"}
    assert webhook.new_events() == OPENED
