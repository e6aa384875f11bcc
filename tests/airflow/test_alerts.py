"""Airflow looks at all flows, and tells people once that an alert began and once that it is over."""

from __future__ import annotations

import json
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
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowFailException

from tidegate.airflow import channels
from tidegate.alerting.episodes import Episode
from tidegate.layout import Layout
from tidegate.ops import alert_history, plans

pytestmark = pytest.mark.airflow


class Webhook:
    """A real one on loopback. It keeps what it takes, and answers as it is told."""

    def __init__(self) -> None:
        self.taken: list[dict[str, Any]] = []
        self.answer = 200
        hook = self

        class Answer(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                told = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if hook.answer == 200:
                    hook.taken.append(told)
                self.send_response(hook.answer)
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

    def told(self) -> list[tuple[str, str, str]]:
        """What came since the last time: place, rule, event."""
        taken, self.taken = self.taken, []
        return sorted((f"{each['pipeline']}/{each['flow']}", each["rule"], each["event"]) for each in taken)

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    made = Webhook()
    yield made
    made.stop()


@pytest.fixture
def layout(places: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    """Without a landing folder and without a broker, so that the flows that read from outside are unreadable."""
    monkeypatch.setenv("TIDEGATE_KAFKA", "127.0.0.1:9")
    return Layout(places / ".data/lake", places / ".data/landing")


def connect(monkeypatch: pytest.MonkeyPatch, **fields: Any) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_TIDEGATE_ALERTS", json.dumps(fields))


def look() -> None:
    """One run of the DAG's task, without Airflow around it."""
    from dags.alerts import dag

    dag.get_task("look").execute(cast(Context, {}))


OPENED = [("clickstream/bronze", "unreadable", "opened"), ("flights/bronze", "unreadable", "opened")]


def test_each_end_of_an_episode_is_told_once(
    layout: Layout, webhook: Webhook, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    connect(monkeypatch, conn_type="http", host=webhook.url)
    look()
    opened = next(each for each in webhook.taken if each["pipeline"] == "flights")
    assert "flights/bronze: unreadable opened: landing folder" in opened["text"]
    assert (opened["format"], opened["resolved_at"]) == (1, None)
    assert webhook.told() == OPENED
    look()
    assert webhook.told() == []
    (layout.landing_root / "flights").mkdir()
    look()
    over = webhook.taken[0]
    assert "flights/bronze: unreadable is over after " in over["text"]
    assert over["opened_at"] == opened["opened_at"] < over["resolved_at"]
    assert webhook.told() == [("flights/bronze", "unreadable", "resolved")]
    look()
    assert webhook.told() == []
    (episode,) = alert_history.episodes(layout, "flights")
    assert episode.told == {("opened", "http"), ("resolved", "http")}
    said = capsys.readouterr().out
    assert "told http: flights/bronze: unreadable is over" in said
    assert "a-secret" not in said


def test_a_channel_that_is_away_is_told_by_the_next_run(
    layout: Layout, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(monkeypatch, conn_type="http", host=webhook.url)
    webhook.answer = 503
    with pytest.raises(AirflowFailException, match="2 notices wait: the webhook answered 503") as red:
        look()
    assert "a-secret" not in str(red.value)
    assert len(alert_history.episodes(layout, "flights")) == 1, "the episode is recorded"
    webhook.answer = 302
    with pytest.raises(AirflowFailException, match="the webhook answered 302"):
        look()
    connect(monkeypatch, conn_type="http", host="http://127.0.0.1:9/away")
    with pytest.raises(AirflowFailException, match="2 notices wait"):
        look()
    connect(monkeypatch, conn_type="http", host=webhook.url)
    webhook.answer = 200
    look()
    assert webhook.told() == OPENED


def test_a_notice_that_was_sent_and_not_recorded_is_sent_again(
    layout: Layout, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(monkeypatch, conn_type="http", host=webhook.url)
    append = alert_history.append

    def killed(layout: Layout, pipeline: str, events: Any) -> None:
        if any(event.channel for event in events):
            raise KeyboardInterrupt
        append(layout, pipeline, events)

    monkeypatch.setattr(alert_history, "append", killed)
    with pytest.raises(KeyboardInterrupt):
        look()
    assert len(webhook.told()) == 1
    monkeypatch.setattr(alert_history, "append", append)
    look()
    assert webhook.told() == OPENED


class Mailbox(StreamRequestHandler):
    """As much SMTP as one mail takes; each mail is kept as text."""

    mails: ClassVar[list[str]] = []

    def handle(self) -> None:
        self.wfile.write(b"220 mailbox\r\n")
        for line in self.rfile:
            word = line[:4].upper()
            if word == b"DATA":
                self.wfile.write(b"354 go on\r\n")
                self.mails.append(b"".join(iter(self.rfile.readline, b".\r\n")).decode())
            self.wfile.write(b"221 bye\r\n" if word == b"QUIT" else b"250 ok\r\n")


def test_a_mailbox_gets_a_mail_for_each_notice(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"disable_ssl": True, "disable_tls": True, "from_email": "tidegate@example.com", "to": "data@example.com"}
    with ThreadingTCPServer(("127.0.0.1", 0), Mailbox) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        connect(monkeypatch, conn_type="smtp", host="127.0.0.1", port=server.server_address[1], extra=extra)
        look()
        look()
        server.shutdown()
    assert len(Mailbox.mails) == 2
    assert any("Subject: Tidegate: flights/bronze: unreadable opened" in mail for mail in Mailbox.mails)
    assert all("To: data@example.com" in mail for mail in Mailbox.mails)


class Slack:
    """What Slack's servers answer to an incoming webhook and to a bot, on loopback; each message is kept."""

    def __init__(self) -> None:
        self.webhook: list[dict[str, Any]] = []
        self.bot: list[tuple[str | None, dict[str, Any]]] = []
        self.refuses = False
        slack = self

        class Answer(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                json_sent = self.headers["Content-Type"].startswith("application/json")
                told = json.loads(body) if json_sent else dict(parse_qsl(body))
                if slack.refuses:
                    answer, kind = b"no_service", "text/plain"
                elif self.path == "/services/T0/B0/a-secret":
                    slack.webhook.append(told)
                    answer, kind = b"ok", "text/plain"
                else:
                    assert self.path == "/api/chat.postMessage"
                    slack.bot.append((self.headers["Authorization"], told))
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
    made = Slack()
    yield made
    made.stop()


def test_an_incoming_webhook_of_slack_gets_each_notice_once_and_its_address_is_never_told(
    layout: Layout, slack: Slack, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    connect(monkeypatch, conn_type="slackwebhook", host=f"{slack.address}/services", password="T0/B0/a-secret")
    slack.refuses = True
    with pytest.raises(AirflowFailException, match="2 notices wait: connection 'tidegate_alerts' failed") as red:
        look()
    slack.refuses = False
    look()
    look()
    assert len(slack.webhook) == 2
    assert any(told["text"].startswith("flights/bronze: unreadable opened: landing") for told in slack.webhook)
    (layout.landing_root / "flights").mkdir()
    look()
    assert slack.webhook[2]["text"].startswith("flights/bronze: unreadable is over after ")
    assert "a-secret" not in capsys.readouterr().out + str(red.value)


def test_a_bot_of_slack_writes_into_the_channel_that_the_connection_names(
    layout: Layout, slack: Slack, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = {"channel": "#data", "base_url": f"{slack.address}/api/"}
    connect(monkeypatch, conn_type="slack", password="xoxb-a-secret", extra=extra)
    look()
    look()
    assert [(token, told["channel"]) for token, told in slack.bot] == [("Bearer xoxb-a-secret", "#data")] * 2
    assert any(told["text"].startswith("flights/bronze: unreadable opened") for _, told in slack.bot)


def test_slack_takes_no_command_from_a_message(layout: Layout, slack: Slack, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = datetime(2026, 1, 5, tzinfo=UTC)
    episode = Episode(flow="silver", rule="refused", opened_at=opened, message="<!channel> a & b")
    notice = channels.Notice(pipeline="flights", episode=episode, kind="opened")
    connect(monkeypatch, conn_type="slackwebhook", host=f"{slack.address}/services", password="T0/B0/a-secret")
    connection = channels.find()
    assert connection is not None
    channels.send(connection, notice, cast(Context, {}))
    assert slack.webhook[0]["text"] == "flights/silver: refused opened: &lt;!channel&gt; a &amp; b"


def test_without_a_connection_the_log_tells(layout: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    look()
    assert "flights/bronze: unreadable opened: landing folder" in capsys.readouterr().out
    look()
    again = capsys.readouterr().out
    assert "opened" not in again
    assert "flights: 1 open" in again


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"conn_type": "slack", "password": "x"}, "lacks 'channel' in its extra"),
        ({"conn_type": "ftp"}, "has the type 'ftp'; give it one of http, slackwebhook, slack, smtp"),
        ({"conn_type": "http"}, "names no web address"),
        ({"conn_type": "smtp", "host": "127.0.0.1"}, "lacks 'to' in its extra"),
    ],
)
def test_a_connection_that_cannot_work_says_what_to_do_and_loses_no_episode(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], says: str
) -> None:
    connect(monkeypatch, **fields)
    with pytest.raises(AirflowFailException, match=says):
        look()
    assert len(alert_history.episodes(layout, "flights")) == 1


@pytest.mark.parametrize(
    ("conn_type", "module", "package"),
    [
        ("slackwebhook", "slack.notifications.slack_webhook", "slack"),
        ("slack", "slack.notifications.slack", "slack"),
        ("smtp", "smtp.notifications.smtp", "smtp"),
    ],
)
def test_a_channel_whose_package_is_missing_says_which(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, conn_type: str, module: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, f"airflow.providers.{module}", None)
    extra = {"channel": "#data", "to": "data@example.com", "from_email": "tidegate@example.com"}
    connect(monkeypatch, conn_type=conn_type, password="x", extra=extra)
    with pytest.raises(AirflowFailException, match=f"needs the package apache-airflow-providers-{package}"):
        look()


def test_a_pipeline_that_nobody_plans_is_noted_at_the_first_look(layout: Layout) -> None:
    look()
    first = plans.last_sign(layout, "flights")
    assert first is not None
    look()
    assert plans.last_sign(layout, "flights") == first


def test_a_broken_history_of_one_pipeline_keeps_no_other_from_being_told(
    layout: Layout, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(monkeypatch, conn_type="http", host=webhook.url)
    log = layout.ops("clickstream", "alerts") / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020d}.json").write_text("no log")
    with pytest.raises(AirflowFailException, match="the alerts of clickstream were not recorded"):
        look()
    assert webhook.told() == [("flights/bronze", "unreadable", "opened")]


def test_alerts_of_a_pipeline_that_is_no_longer_declared_end_and_are_told_once(
    layout: Layout, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidegate.status import watch

    connect(monkeypatch, conn_type="http", host=webhook.url)
    look()
    webhook.told()
    declared = watch.declarations()
    del declared["clickstream"]
    monkeypatch.setattr(watch, "declarations", lambda: declared)
    look()
    assert ("clickstream/bronze", "unreadable", "resolved") in webhook.told()
    before = [episode for episode in alert_history.episodes(layout, "clickstream") if episode.resolved_at is None]
    assert before == []
    look()
    assert webhook.told() == []


def test_the_dag_runs_as_airflow_runs_it(runs: Any, layout: Layout, webhook: Webhook, monkeypatch: Any) -> None:
    from dags.alerts import dag

    assert (dag.max_active_runs, dag.catchup, dag.is_paused_upon_creation) == (1, False, False)
    connect(monkeypatch, conn_type="http", host=webhook.url)
    assert runs.states(runs.start(dag)) == {"look": "success"}
    assert webhook.told() == OPENED
