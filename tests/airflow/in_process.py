"""A run of a DAG in this process, for what its tasks decide: each is executed with the context that Airflow hands to it.

No scheduler, no database. What Airflow makes of what tasks raise and send (colours below them, retries, stored events)
is the subject of the whole runs in ``test_tasks.py`` and of ``tests/live``.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from airflow.sdk.definitions.param import process_params
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, DownstreamTasksSkipped
from airflow.sdk.execution_time.context import OutletEventAccessors

EventsByAsset = dict[str, list[dict[str, Any]]]
"""The extras of each table's events, oldest first; what several runs share."""


@dataclass
class InProcessRun:
    """One run, task by task, in whatever order a test likes."""

    dag: Any
    conf: dict[str, Any] | None = None
    events: EventsByAsset = field(default_factory=dict)
    run_id: str = "manual__1"
    run_type: str = "manual"
    user: str | None = "ada"
    interval: tuple[Any, Any] = (None, None)
    xcoms: dict[tuple[str, str], Any] = field(default_factory=dict)
    message: str = ""
    """What the last task that was red or skipped gave as its reason."""

    def execute(self, task_id: str) -> str:
        """Execute a task and return its state; ``short circuit`` when it is green and everything below is skipped."""
        # A task that runs in Airflow is a fresh one.
        task = copy.copy(self.dag.task_dict[task_id])
        context = self._context(task)
        state = "success"
        try:
            task.execute(context)
        except DownstreamTasksSkipped as skipped:
            assert set(skipped.tasks) == task.get_flat_relative_ids(upstream=False)
            state = "short circuit"
        except AirflowSkipException as error:
            self.message = str(error)
            return "skipped"
        except AirflowFailException as error:
            self.message = str(error)
            return "failed"
        for asset in task.outlets:
            self.events.setdefault(asset.name, []).append(context["outlet_events"][asset].extra)
        return state

    def xcom(self, task_id: str, key: str) -> Any:
        """What a task pushed last under a key."""
        return self.xcoms.get((task_id, key))

    def _context(self, task: Any) -> Any:
        conf = self.conf or {}
        return {
            "dag_run": SimpleNamespace(
                dag_id=self.dag.dag_id,
                run_id=self.run_id,
                run_type=self.run_type,
                conf=conf,
                triggering_user_name=self.user,
                data_interval_start=self.interval[0],
                data_interval_end=self.interval[1],
            ),
            "params": process_params(self.dag, task, conf, suppress_exception=False),
            "ti": SimpleNamespace(
                map_index=-1,
                xcom_push=lambda key, value: self.xcoms.__setitem__((task.task_id, key), value),
                xcom_pull=lambda task_ids, key: self.xcom(task_ids, key),
            ),
            "inlet_events": _InletEvents(self.events),
            "outlet_events": OutletEventAccessors(),
        }


@dataclass
class _InletEvents:
    """The events of tables, as a task asks for the newest of them."""

    events: EventsByAsset

    def __getitem__(self, asset: Any) -> _Newest:
        return _Newest(self.events.get(asset.name, []))


@dataclass
class _Newest:
    extras: list[dict[str, Any]]

    def ascending(self, flag: bool) -> _Newest:
        assert not flag, "the newest come first"
        return self

    def limit(self, number: int) -> list[Any]:
        return [SimpleNamespace(extra=extra) for extra in reversed(self.extras)][:number]
