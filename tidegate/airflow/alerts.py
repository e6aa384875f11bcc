"""The DAG ``alerts``: looks at every flow of every pipeline every few minutes, and tells people what needs one.

A DAG of its own, because an alert may be about runs that do not happen. It starts no JVM. What it does with each
pipeline: ask the rules, record which alerts begin and which end, tell the channel what it was not told yet.

A channel is told first, and that it was told is recorded then. So whoever kills the task in between causes a notice to be
sent twice, and none is ever lost: at least once.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import pendulum
from airflow.sdk import DAG, BaseOperator, Context, CronTriggerTimetable
from airflow.sdk.exceptions import AirflowFailException

from tidegate import wording
from tidegate.airflow import channels, gauges
from tidegate.airflow.attempt import ALERTS
from tidegate.airflow.channels import Notice
from tidegate.alerting.episodes import Event, settle, untold
from tidegate.environment import Environment
from tidegate.errors import SetupError
from tidegate.layout import Layout

if TYPE_CHECKING:
    from airflow.sdk import Connection

    from tidegate.alerting.episodes import Episode
    from tidegate.status.observation import Judged

TASK = "look"
"""The id of the one task."""
EVERY = "*/5 * * * *"
TELLING_SECONDS = 60.0
"""How long one run tells a channel; what is left waits for the next."""


def build_alerts_dag() -> DAG:
    """The one DAG of a deployment that watches all pipelines, to be bound to a global name of a file under ``dags/``."""
    with DAG(
        dag_id=ALERTS,
        description="Looks at all flows, records which alerts begin and end, and tells people.",
        doc_md=__doc__,
        schedule=CronTriggerTimetable(EVERY, timezone="UTC"),
        start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
        catchup=False,
        max_active_runs=1,
        # An alarm that somebody has to switch on first is none.
        is_paused_upon_creation=False,
        rerun_with_latest_version=True,
        tags=["tidegate"],
    ) as dag:
        # The next run is the retry.
        LookAround(task_id=TASK, retries=0)
    return dag


class LookAround(BaseOperator):
    """Asks all rules of all flows, records episodes, and tells the log and the channel of each beginning and end."""

    def execute(self, context: Context) -> None:
        """Look once.

        Raises:
            AirflowFailException: A history could not be written or a channel was not told; the next run does it. All
                other pipelines and notices were seen to.
        """
        from tidegate.ops import plans
        from tidegate.status import observation, watch

        environment = Environment.read()
        layout = Layout.of(environment)
        now = pendulum.now("UTC")
        troubles: list[str] = []
        histories: dict[str, tuple[Episode, ...]] = {}
        judged = observation.judge(environment, list(watch.declarations().items()), now)
        for each in judged:
            if each.error is None:
                plans.look(layout, each.pipeline)
            try:
                histories[each.pipeline] = self._record(layout, each, now)
            except Exception as error:
                troubles.append(f"the alerts of {each.pipeline} were not recorded ({type(error).__name__})")
        for pipeline in sorted(_remembered(layout) - {each.pipeline for each in judged}):
            try:
                histories[pipeline] = self._end_all(layout, pipeline, now)
            except Exception as error:
                troubles.append(f"the alerts of {pipeline} were not ended ({type(error).__name__})")
        troubles += self._tell_channel(layout, histories, now, context)
        if troubles:
            for trouble in troubles:
                self.log.error("%s", trouble)
            raise AirflowFailException(f"{'; '.join(troubles)}. The next run tries again.")

    def _record(self, layout: Layout, judged: Judged, now: datetime) -> tuple[Episode, ...]:
        """Record what begins and what ends, tell the log, and return all episodes."""
        from tidegate.ops import alert_history

        history = alert_history.episodes(layout, judged.pipeline)
        flows = sorted({each.flow for each in history if each.resolved_at is None})
        self._keep(layout, judged.pipeline, settle(history, judged.findings_beside(flows), now))
        known = alert_history.episodes(layout, judged.pipeline)
        open_ones = [each for each in known if each.resolved_at is None]
        self.log.info("%s: %s open", judged.pipeline, len(open_ones) or "no alert is")
        gauges.tell_lags(judged.pipeline, judged.lags)
        gauges.tell_ages(judged.pipeline, judged.observations, now)
        gauges.tell_alerts(judged.pipeline, [finding.flow for finding in judged.findings if finding.flow], open_ones)
        return known

    def _end_all(self, layout: Layout, pipeline: str, now: datetime) -> tuple[Episode, ...]:
        """End what is open of a pipeline that is no longer declared."""
        from tidegate.ops import alert_history

        events = settle(alert_history.episodes(layout, pipeline), (), now)
        self._keep(layout, pipeline, events)
        return alert_history.episodes(layout, pipeline) if events else ()

    def _keep(self, layout: Layout, pipeline: str, events: Sequence[Event]) -> None:
        """Tell the log what began and what ended, and write it into the history."""
        from tidegate.ops import alert_history

        for event in events:
            place = f"{pipeline}/{event.flow}" if event.flow else pipeline
            say = self.log.warning if event.kind == "opened" else self.log.info
            say("%s: %s %s: %s", place, event.rule, event.kind, event.message)
        alert_history.append(layout, pipeline, events)

    def _tell_channel(
        self, layout: Layout, histories: Mapping[str, tuple[Episode, ...]], now: datetime, context: Context
    ) -> list[str]:
        """Tell the channel what it was not told; returns what went wrong, a sentence each."""
        connection = channels.find()
        if connection is None:
            return []
        news = [
            Notice(pipeline=pipeline, episode=episode, kind=kind)
            for pipeline, episodes in histories.items()
            for episode, kind in untold(episodes, str(connection.conn_type), now)
        ]
        reasons: Counter[str] = Counter()
        until = time.monotonic() + TELLING_SECONDS
        for notice in news:
            # One that fails holds up no other, but a channel that is away must not hold up the next look.
            if time.monotonic() > until:
                reasons["there was no time left"] += 1
                continue
            try:
                self._tell(layout, connection, notice, now, context)
            except channels.RefusedError as error:
                reasons[str(error)] += 1
            except SetupError as error:
                return [error.message]
            except Exception as error:
                # Its text may name the address, which may be a secret.
                reasons[f"connection {channels.CONNECTION!r} failed ({type(error).__name__})"] += 1
        return [f"{wording.count(many, 'notice waits', 'notices wait')}: {reason}" for reason, many in reasons.items()]

    def _tell(self, layout: Layout, connection: Connection, notice: Notice, now: datetime, context: Context) -> None:
        from tidegate.ops import alert_history

        channels.send(connection, notice, context)
        episode = notice.episode
        told = Event(
            flow=episode.flow,
            rule=episode.rule,
            opened_at=episode.opened_at,
            kind=notice.kind,
            at=now,
            message=episode.message,
            channel=str(connection.conn_type),
        )
        alert_history.append(layout, notice.pipeline, [told])
        self.log.info("told %s: %s", connection.conn_type, notice.title)


def _remembered(layout: Layout) -> set[str]:
    """Pipelines of which the lake holds alerts, declared or not."""
    return {folder.parent.name for folder in layout.ops("*", "alerts").parent.parent.glob("*/alerts")}
