"""The DAG ``alerts``: evaluates the alert rules of all flows every five minutes and sends notifications.

It is a separate DAG, because an alert may be about runs that do not happen. It starts no JVM. For each pipeline it evaluates
the rules, records which episodes open and which are resolved, and sends the notifications that the channel has not received yet.

A notification is sent first and recorded afterwards. If the task is killed in between, the next run sends the notification
again: delivery is at least once.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import pendulum
from airflow.sdk import DAG, BaseOperator, Connection, Context

from tidegate import formatting
from tidegate.airflow import channels, compat, gauges
from tidegate.airflow.attempt import ALERTS
from tidegate.airflow.channels import Notification
from tidegate.airflow.compat import CronTriggerTimetable
from tidegate.airflow.failure import TaskFailure, plain_failures
from tidegate.airflow.retry import LONGEST_DELAY, RETRY_DELAY, FailureRetryPolicy
from tidegate.alerting.episodes import Episode, Event, pending_notifications, transitions
from tidegate.environment import Environment
from tidegate.errors import SetupError
from tidegate.lake.layout import Layout
from tidegate.lake.place import PipelinePlace

if TYPE_CHECKING:
    from tidegate.status.evaluation import PipelineAlerts

__all__ = ["build_alerts_dag"]

TASK = "evaluate"
"""The id of the one task."""
EVERY = "*/5 * * * *"
SEND_SECONDS = 60.0
"""How long one run may send notifications; the next run sends the remaining ones."""


def build_alerts_dag() -> DAG:
    """The DAG that watches all pipelines of a deployment; bind it to a global name in a file under ``dags/``."""
    with DAG(
        dag_id=ALERTS,
        description="Evaluates the alert rules of all flows, records episodes and sends notifications.",
        doc_md=__doc__,
        schedule=CronTriggerTimetable(EVERY, timezone="UTC"),
        start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
        catchup=False,
        max_active_runs=1,
        # Alerts must work without somebody having to unpause the DAG first.
        is_paused_upon_creation=False,
        **compat.LATEST_VERSION,
        tags=["tidegate"],
    ) as dag:
        # For an Airflow that cannot be reached. After a failure of its own, the next run is the retry.
        EvaluateAlerts(
            task_id=TASK,
            retries=1,
            retry_delay=RETRY_DELAY,
            **compat.retries(FailureRetryPolicy(), LONGEST_DELAY),
        )
    return dag


class EvaluateAlerts(BaseOperator):
    """Evaluates all rules of all flows, records episodes, and logs and sends a notification of each opening and resolution."""

    @plain_failures
    def execute(self, context: Context) -> None:
        """Evaluate once.

        Raises:
            TaskFailure: A history could not be written or a notification was not sent; the next run tries again.
                All other pipelines and notifications were processed.
        """
        from tidegate.ops import plans
        from tidegate.status import evaluation, status_cache

        environment = Environment.read()
        layout = Layout.of(environment)
        now = pendulum.now("UTC")
        problems: list[str] = []
        histories: dict[str, tuple[Episode, ...]] = {}
        judged = evaluation.evaluate_pipelines(environment, list(status_cache.declarations(environment).items()), now)
        for each in judged:
            if each.error is None:
                plans.record_watched(PipelinePlace(layout, each.pipeline))
            try:
                histories[each.pipeline] = self._record(layout, each, now)
            except Exception as error:
                problems.append(f"the alerts of {each.pipeline} were not recorded ({type(error).__name__})")
        for pipeline in sorted(_pipelines_with_alerts(layout) - {each.pipeline for each in judged}):
            try:
                histories[pipeline] = self._resolve_all(PipelinePlace(layout, pipeline), now)
            except Exception as error:
                problems.append(f"the alerts of {pipeline} were not resolved ({type(error).__name__})")
        problems += self._send_notifications(layout, environment.alerts, histories, now, context)
        if problems:
            raise TaskFailure("\n".join([*problems, "The next run tries again."]))

    def _record(self, layout: Layout, judged: PipelineAlerts, now: datetime) -> tuple[Episode, ...]:
        """Record and log which episodes open and which are resolved; returns all episodes."""
        from tidegate.ops import alert_history

        place = PipelinePlace(layout, judged.pipeline)
        history = alert_history.episodes(place)
        flows = sorted({each.flow for each in history if each.resolved_at is None})
        self._record_events(place, transitions(history, judged.findings_including(flows), now))
        episodes = alert_history.episodes(place)
        open_episodes = [each for each in episodes if each.resolved_at is None]
        self.log.info("%s: %s", judged.pipeline, formatting.count(len(open_episodes), "open alert"))
        gauges.send_lags(judged.readings)
        gauges.send_ages(judged.readings, now)
        gauges.send_open_alerts(
            judged.pipeline, [finding.flow for finding in judged.findings if finding.flow], open_episodes
        )
        return episodes

    def _resolve_all(self, place: PipelinePlace, now: datetime) -> tuple[Episode, ...]:
        """Resolve the open episodes of a pipeline that is no longer declared."""
        from tidegate.ops import alert_history

        events = transitions(alert_history.episodes(place), (), now)
        self._record_events(place, events)
        return alert_history.episodes(place) if events else ()

    def _record_events(self, place: PipelinePlace, events: Sequence[Event]) -> None:
        """Log the events and append them to the history."""
        from tidegate.ops import alert_history

        for event in events:
            name = f"{place.pipeline}/{event.flow}" if event.flow else place.pipeline
            write_log = self.log.warning if event.kind == "opened" else self.log.info
            write_log("%s: %s %s: %s", name, event.rule, event.kind, event.message)
        alert_history.append(place, events)

    def _send_notifications(
        self, layout: Layout, alerts: str, histories: Mapping[str, tuple[Episode, ...]], now: datetime, context: Context
    ) -> list[str]:
        """Send the notifications that the channel has not received yet; returns what failed, one message per reason."""
        connection = channels.find(alerts)
        if connection is None:
            return []
        notifications = [
            Notification(pipeline=pipeline, episode=episode, kind=kind)
            for pipeline, episodes in histories.items()
            for episode, kind in pending_notifications(episodes, str(connection.conn_type), now)
        ]
        reasons: Counter[str] = Counter()
        until = time.monotonic() + SEND_SECONDS
        for notification in notifications:
            # One that fails does not stop the others, but an unreachable channel must not delay the next evaluation.
            if time.monotonic() > until:
                reasons[f"the limit of {SEND_SECONDS:.0f} s was reached"] += 1
                continue
            try:
                self._send(layout, connection, notification, now, context)
            except channels.ChannelRefusedError as error:
                reasons[str(error)] += 1
            except SetupError as error:
                return [error.message]
            except Exception as error:
                # The error's text may contain the URL, which may be a secret.
                reasons[f"connection {connection.conn_id!r} failed ({type(error).__name__})"] += 1
        return [
            f"{formatting.count(many, 'notification was not sent', 'notifications were not sent')}: {reason}"
            for reason, many in reasons.items()
        ]

    def _send(
        self, layout: Layout, connection: Connection, notification: Notification, now: datetime, context: Context
    ) -> None:
        from tidegate.ops import alert_history

        channels.send(connection, notification, context)
        episode = notification.episode
        sent = Event(
            flow=episode.flow,
            rule=episode.rule,
            opened_at=episode.opened_at,
            kind=notification.kind,
            recorded_at=now,
            message=episode.message,
            channel=str(connection.conn_type),
        )
        alert_history.append(PipelinePlace(layout, notification.pipeline), [sent])
        self.log.info("sent to %s: %s", connection.conn_type, notification.title)


def _pipelines_with_alerts(layout: Layout) -> set[str]:
    """Pipelines with an alert history in the lake, declared or not."""
    return {
        folder.name
        for folder in PipelinePlace(layout, "any").ops("alerts").parent.parent.list()
        if PipelinePlace(layout, folder.name).ops("alerts").exists()
    }
