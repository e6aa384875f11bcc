"""Executes single tasks of a DAG run in this process, with the context that Airflow would pass to them.

There is no scheduler and no database. How Airflow handles the exceptions and events of tasks (states of later tasks, retries,
stored events) is tested in ``test_whole_runs.py`` and in ``tests/live``.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from airflow.sdk import AssetAlias
from airflow.sdk.definitions.param import process_params
from airflow.sdk.exceptions import AirflowSkipException, DownstreamTasksSkipped
from airflow.sdk.execution_time.context import OutletEventAccessors

from tidegate.airflow.failure import TaskFailure

EventsByAsset = dict[str, list[dict[str, Any]]]
"""The extras of each table's Asset events, oldest first; several runs can share it."""


@dataclass
class InProcessRun:
    """One DAG run whose tasks a test executes in any order."""

    dag: Any
    conf: dict[str, Any] | None = None
    events: EventsByAsset = field(default_factory=dict)
    run_id: str = "manual__1"
    run_type: str = "manual"
    user: str | None = "ada"
    interval: tuple[Any, Any] = (None, None)
    xcoms: dict[tuple[str, str], Any] = field(default_factory=dict)
    message: str = ""
    """The message of the last task that failed or was skipped."""

    def execute(self, task_id: str) -> str:
        """Execute a task and return its state; ``short circuit`` when it succeeds and all later tasks are skipped.

        ``up for retry`` if its own retries apply to its failure.
        """
        # Airflow executes a new copy of the task for each try.
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
        except TaskFailure as failure:
            self.message = failure.message
            return "up for retry" if failure.retry else "failed"
        for asset in task.outlets:
            accessor = context["outlet_events"][asset]
            if isinstance(asset, AssetAlias):
                for event in accessor.asset_alias_events:
                    self.events.setdefault(event.dest_asset_key.name, []).append(event.extra)
            else:
                self.events.setdefault(asset.name, []).append(accessor.extra)
        return state

    def xcom(self, task_id: str, key: str) -> Any:
        """The last XCom value of a task under a key."""
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
    """Airflow's accessor for the events of inlets, as far as tasks use it."""

    events: EventsByAsset

    def __getitem__(self, asset: Any) -> _Newest:
        return _Newest(self.events.get(asset.name, []))


@dataclass
class _Newest:
    extras: list[dict[str, Any]]

    def ascending(self, flag: bool) -> _Newest:
        assert not flag, "the newest come first"
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter(SimpleNamespace(extra=extra) for extra in self.extras)

    def limit(self, number: int) -> list[Any]:
        return [SimpleNamespace(extra=extra) for extra in reversed(self.extras)][:number]
