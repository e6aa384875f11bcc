"""Executes single tasks of a DAG run in this process, with the context that Airflow would pass to them.

There is no scheduler and no database. How Airflow handles the exceptions and events of tasks (states of later tasks, retries,
stored events) is tested in ``test_whole_runs.py`` and in ``tests/live``.
"""

from __future__ import annotations

import asyncio
import copy
import importlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from airflow.sdk import AssetAlias
from airflow.sdk.definitions.param import process_params
from airflow.sdk.exceptions import AirflowSkipException, DownstreamTasksSkipped, TaskDeferred
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
    try_number: int = 1
    max_tries: int = 3
    message: str = ""
    """The message of the last task that failed or was skipped."""
    trigger: Any = None
    """What the last task that was deferred waits for."""

    def execute(self, task_id: str) -> str:
        """Execute a task and return its state; ``short circuit`` when it succeeds and all later tasks are skipped.

        ``up for retry`` if its own retries apply to its failure; ``deferred`` if it waits for ``trigger``.
        """
        # Airflow executes a new copy of the task for each try.
        task = copy.copy(self.dag.task_dict[task_id])
        return self._end(task, task.execute)

    def resume(self, task_id: str) -> str:
        """Run the trigger of a deferred task until its event, as another process that knows only what is stored; then as `execute`."""
        assert self.trigger is not None
        path, arguments = self.trigger.trigger.serialize()
        module, _, name = path.rpartition(".")
        trigger = getattr(importlib.import_module(module), name)(**json.loads(json.dumps(arguments)))

        async def first() -> Any:
            return await anext(trigger.run())

        event = asyncio.run(first()).payload
        task = copy.copy(self.dag.task_dict[task_id])
        complete = getattr(task, self.trigger.method_name)
        return self._end(task, lambda context: complete(context=context, event=json.loads(json.dumps(event))))

    def _end(self, task: Any, act: Callable[[Any], Any]) -> str:
        context = self._context(task)
        state = "success"
        try:
            act(context)
        except TaskDeferred as deferred:
            self.trigger = deferred
            return "deferred"
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
                try_number=self.try_number,
                max_tries=self.max_tries,
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
