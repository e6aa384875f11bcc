"""The tasks, settings, form and documentation of a pipeline's DAG."""

from __future__ import annotations

import dataclasses
import json
from datetime import timedelta
from typing import Any

import pendulum
import pytest
from airflow.sdk import Asset, AssetAlias, AssetAny, CronDataIntervalTimetable
from airflow.serialization.serialized_objects import DagSerialization

from pipelines.clickstream import pipeline as clickstream
from pipelines.flights import pipeline as flights
from tidegate.airflow import build_dag
from tidegate.airflow.alerts import build_alerts_dag
from tidegate.airflow.approval import build_schema_approval
from tidegate.airflow.dag import _schedule
from tidegate.airflow.failure import TaskFailure
from tidegate.airflow.quarantine import build_quarantine_dag
from tidegate.airflow.retry import RETRIES, ReportRetryPolicy
from tidegate.errors import SpecError
from tidegate.spec import (
    AfterTables,
    ChangeFeed,
    FileSource,
    Flow,
    Gate,
    Intervals,
    KafkaSource,
    Pipeline,
    Table,
    Tables,
    TopicIntervals,
)
from tidegate.spec.pipeline import SHARED_DAGS, SHARED_TASKS

pytestmark = pytest.mark.airflow


def _branching() -> Pipeline:
    other = Flow(
        name="by_month",
        source=ChangeFeed("silver.flights"),
        transform="flights:daily_delay",
        target=Table("gold.by_month", keys=("month",)),
    )
    return dataclasses.replace(flights, flows=(*flights.flows, other))


def test_the_tasks_are_plan_run_and_one_for_each_flow_in_graph_order() -> None:
    dag = build_dag(flights)
    assert list(dag.task_dict) == ["plan", "run", "bronze", "silver", "gold"]
    assert {task.task_id: task.upstream_task_ids for task in dag.tasks} == {
        "plan": set(),
        "run": {"plan"},
        "bronze": {"run"},
        "silver": {"bronze"},
        "gold": {"silver"},
    }


def test_two_flows_that_read_the_same_table_do_not_wait_for_each_other() -> None:
    dag = build_dag(_branching())
    assert dag.task_dict["gold"].upstream_task_ids == {"silver"}
    assert dag.task_dict["by_month"].upstream_task_ids == {"silver"}


def test_a_flow_with_several_sources_waits_for_all_flows_that_write_them() -> None:
    branching = _branching()
    sources = (ChangeFeed("silver.flights"), ChangeFeed("gold.by_month", on={"month": "month"}))
    joined = Flow(
        name="joined", sources=sources, transform="flights:joined", target=Table("gold.joined", keys=("carrier",))
    )
    dag = build_dag(dataclasses.replace(branching, flows=(joined, *branching.flows)))
    assert dag.task_dict["joined"].upstream_task_ids == {"silver", "by_month"}
    assert dag.task_dict["joined"].trigger_rule.value == "none_failed"
    assert "changes of `gold.by_month`, about 1g a batch, joined by `month` = `month`" in str(dag.doc_md)


def test_run_is_the_setup_task_of_all_flows_so_that_clearing_one_clears_run() -> None:
    dag = build_dag(flights)
    assert [task.task_id for task in dag.tasks if task.is_setup] == ["run"]
    assert set(dag.partial_subset(task_ids=["silver"], include_downstream=True, include_upstream=False).task_dict) == {
        "run",
        "silver",
        "gold",
    }


def test_a_skipped_flow_does_not_skip_the_next_and_a_refused_flow_stops_it() -> None:
    rules = {task.task_id: task.trigger_rule.value for task in build_dag(flights).tasks}
    assert rules["bronze"] == "all_success", "Airflow allows nothing else directly below a setup task"
    assert rules["silver"] == rules["gold"] == "none_failed"


def test_plan_and_run_have_the_declared_retries_and_run_has_the_report_retry_policy() -> None:
    tasks = build_dag(dataclasses.replace(flights, retries=7)).task_dict
    assert {name: task.retries for name, task in tasks.items()} == {
        "plan": 7,
        "run": 7,
        "bronze": RETRIES,
        "silver": RETRIES,
        "gold": RETRIES,
    }
    assert [name for name, task in tasks.items() if isinstance(task.retry_policy, ReportRetryPolicy)] == ["run"]


def test_one_run_at_a_time_without_a_custom_pool() -> None:
    dag = build_dag(flights)
    assert dag.max_active_runs == 1
    assert dag.task_dict["run"].max_active_tis_per_dag == 1
    assert {task.pool for task in dag.tasks} == {"default_pool"}


@pytest.mark.parametrize("schedule", ["@daily", "@hourly", "*/2 * * * *"])
def test_a_schedule_has_data_intervals_longer_than_zero(schedule: str) -> None:
    dag = build_dag(dataclasses.replace(flights, schedule=schedule, timezone="Europe/Paris"))
    assert isinstance(dag.timetable, CronDataIntervalTimetable)
    core = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag))
    assert core.start_date is not None
    interval = core.timetable.infer_manual_data_interval(
        run_after=pendulum.instance(core.start_date + timedelta(days=1, minutes=7))
    )
    assert interval.start < interval.end
    assert not dag.catchup


def test_a_pipeline_without_a_schedule_has_a_dag_without_one() -> None:
    assert build_dag(dataclasses.replace(flights, schedule=None)).schedule is None


def test_a_pipeline_that_follows_tables_is_scheduled_by_any_of_their_assets() -> None:
    dag = build_dag(dataclasses.replace(flights, schedule=AfterTables("silver.clicks", "gold.page_views")))
    core = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag))
    assert core.timetable.asset_condition.as_expression() == {
        "any": [
            {"asset": {"uri": f"x-tidegate://{table}", "name": table.replace("/", "."), "group": "tidegate"}}
            for table in ("silver/clicks", "gold/page_views")
        ]
    }
    assert "after new rows in `silver.clicks` or `gold.page_views`" in str(dag.doc_md)


def test_a_pipeline_can_wait_for_complete_intervals() -> None:
    bronze = flights.flow("bronze")
    assert isinstance(bronze.source, FileSource)
    days = dataclasses.replace(bronze.source, intervals=Intervals("%Y-%m-%d", quiet_hours=6))
    topic = KafkaSource(topic="flights", schema=days.schema, intervals=TopicIntervals(quiet_hours=6))
    name = "bronze.flights/intervals"
    for source in (days, topic):
        own = dataclasses.replace(bronze, source=source)
        measured = dataclasses.replace(flights, flows=(own, *flights.flows[1:]))
        for task in (build_dag(measured).task_dict[each] for each in ("plan", "bronze")):
            assert name in [asset.name for asset in task.inlets if isinstance(asset, Asset)]
            assert name in [asset.name for asset in task.outlets if isinstance(asset, AssetAlias)]
    assert all(isinstance(asset, Asset) for asset in build_dag(measured).task_dict["silver"].outlets)

    schedule = AfterTables("bronze.clicks", intervals=True)
    with pytest.raises(SpecError, match=r"flow 'bronze', which writes it, declares none"):
        build_dag(dataclasses.replace(flights, schedule=schedule))
    condition = _schedule(dataclasses.replace(flights, schedule=schedule))
    assert isinstance(condition, AssetAny)
    assert [asset.uri for asset in condition.objects if isinstance(asset, Asset)] == [
        "x-tidegate://bronze/clicks/intervals"
    ]


def test_a_cleared_run_uses_the_current_declaration() -> None:
    assert build_dag(flights).rerun_with_latest_version is True


def test_owner_and_tags_come_from_the_declaration() -> None:
    dag = build_dag(clickstream)
    assert dag.tags == {"tidegate", "bronze", "silver", "gold", "kafka", "example"}
    assert {task.owner for task in dag.tasks} == {"web-analytics"}


def test_the_documentation_contains_the_declaration() -> None:
    doc = build_dag(flights).doc_md
    assert doc is not None
    for text in ("`silver.flights`: upsert by flight_id", "`flights/silver`", "`flights:clean`", "dep_delay INT", "v1"):
        assert text in doc


def test_a_table_with_two_writers_or_a_source_that_no_flow_writes_is_an_import_error() -> None:
    copy = dataclasses.replace(flights, name="copy")
    with pytest.raises(SpecError, match=r"flow 'bronze': flow 'bronze' in pipelines/flights\.py writes .* too"):
        build_dag(copy)
    lost = dataclasses.replace(flights.flows[2], source=ChangeFeed("silver.lost"))
    with pytest.raises(SpecError, match=r"flow 'gold': no declared flow writes its source table 'silver\.lost'"):
        build_dag(dataclasses.replace(flights, flows=(*flights.flows[:2], lost)))


def test_a_missing_suite_or_transform_is_in_the_documentation_and_the_log_and_the_dag_is_imported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bronze, silver, gold = flights.flows
    silver = dataclasses.replace(silver, gate=Gate("flights/lost"))
    gold = dataclasses.replace(gold, transform="flights:lost")

    dag = build_dag(dataclasses.replace(flights, flows=(bronze, silver, gold)))

    doc = str(dag.doc_md)
    assert "**`silver` cannot run.** pipelines/flights.py, flow 'silver': suite 'flights/lost'" in doc
    assert "**`gold` cannot run.** pipelines/flights.py, flow 'gold': transform 'flights:lost'" in doc
    assert "suite 'flights/lost' (flights/lost.json) does not exist" in caplog.text
    assert "cannot run" not in str(build_dag(flights).doc_md)
    assert set(dag.partial_subset("gold", include_upstream=True).task_dict) >= {"plan", "run", "gold"}


def _landed(name: str, path: str) -> Flow:
    return Flow(name=name, source=FileSource(path=path, format="csv", schema="a INT"), target=Table(f"bronze.{name}"))


def test_a_table_of_a_list_that_is_not_valid_has_a_task_of_its_own_which_fails_and_stops_no_other() -> None:
    listed = [{"name": "orders", "path": "orders"}, {"name": "tills"}]
    dag = build_dag(Pipeline(name="shop", tables=Tables(listed, _landed)))

    assert set(dag.task_dict) == {"plan", "run", "orders", "tills-invalid"}
    invalid: Any = dag.task_dict["tills-invalid"]
    assert not invalid.upstream_task_ids | invalid.downstream_task_ids
    assert "**Table `tills` cannot run.** entry 2 of Tables, table 'tills': path is missing" in str(dag.doc_md)
    assert "broken" in dag.tags
    with pytest.raises(TaskFailure, match="path is missing") as failure:
        invalid.execute({})
    assert failure.value.code == 78
    assert json.dumps(DagSerialization.serialize_dag(dag), default=str)
    assert set(dag.partial_subset("orders", include_upstream=True).task_dict) == {"plan", "run", "orders"}


@pytest.mark.parametrize(
    "changed",
    [
        dataclasses.replace(flights, description="Something else."),
        dataclasses.replace(flights, retries=1),
        dataclasses.replace(
            flights, flows=(*flights.flows[:2], dataclasses.replace(flights.flows[2], checkpoint_version=2))
        ),
    ],
)
def test_a_changed_declaration_has_another_fingerprint_in_the_documentation(changed: Pipeline) -> None:
    assert _fingerprint(changed) != _fingerprint(flights)
    assert _fingerprint(flights) == _fingerprint(dataclasses.replace(flights))


def test_the_serialized_tasks_contain_no_paths() -> None:
    tasks = json.dumps(DagSerialization.serialize_dag(build_dag(flights))["tasks"], default=str)
    assert "spark_jobs" not in tasks
    assert "/jars" not in tasks


def test_the_reserved_names_are_those_of_the_shared_dags_and_tasks() -> None:
    shared = [build_alerts_dag(), build_schema_approval(), build_quarantine_dag()]
    assert sorted(dag.dag_id for dag in shared) == sorted(SHARED_DAGS)
    own = set(build_dag(flights).task_dict) - {flow.name for flow in flights.flows}
    assert own == set(SHARED_TASKS)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"mode": "incremental"},
        {"flows": None},
        {"flows": ["silver", "gold"]},
        {"flows": []},
        {"mode": "backfill", "from_date": "2013-01-01", "to_date": "2013-01-31"},
        {"mode": "full_refresh", "dry_run": True},
        {"mode": "reingest", "gaps": True},
        {"accept": None},
        {"accept": ["silver:deleted=355", "silver:quarantined=427"]},
    ],
)
def test_the_form_accepts_valid_params(changes: dict[str, object]) -> None:
    params = build_dag(flights).params
    params.update(changes)
    params.validate()


@pytest.mark.parametrize(
    "changes",
    [
        {"mode": "everything"},
        {"flows": ["platinum"]},
        {"flows": "silver"},
        {"flows": ["gold", "gold"]},
        {"from_date": "garbage; rm"},
        {"from_date": "2013-13-01"},
        {"to_date": "2013-01-01T00:00:00Z"},
        {"dry_run": "yes"},
        {"gaps": "yes"},
        {"accept": "silver:deleted=355"},
        {"accept": ["355"]},
        {"accept": ["silver:deleted=all"]},
    ],
)
def test_the_form_refuses_an_invalid_mode_flow_or_date(changes: dict[str, object]) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    params = build_dag(flights).params
    with pytest.raises(ParamValidationError):
        params.update(changes)
        params.validate()


def _fingerprint(pipeline: Pipeline) -> str:
    doc = build_dag(pipeline).doc_md
    assert doc is not None
    return doc.rpartition("`")[0].rpartition("`")[2]
