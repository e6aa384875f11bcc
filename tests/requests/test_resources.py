"""What an application asks for: of the pipeline, else of the environment, as far as it applies to the master."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.environment import Environment
from tidegate.requests.resources import allocation
from tidegate.spec import Resources

HERE = Environment.read({"TIDEGATE_DRIVER_MEMORY": "3g"})
CLUSTER = Environment.read(
    {
        "TIDEGATE_MASTER": "yarn",
        "TIDEGATE_EXECUTORS": "4",
        "TIDEGATE_EXECUTOR_MEMORY": "3g",
        "TIDEGATE_EXECUTOR_CORES": "2",
        "TIDEGATE_DYNAMIC": "true",
    }
)
FULL = Resources(
    driver_memory="4g",
    driver_cores=2,
    executors=3,
    executor_memory="6g",
    executor_cores=2,
    pod_template="pods.yaml",
    conf={"spark.executor.memoryOverhead": "1g", "spark.task.maxFailures": "8"},
)
ALL = {
    "spark.driver.memory": "4g",
    "spark.executor.instances": "3",
    "spark.executor.memory": "6g",
    "spark.executor.cores": "2",
    "spark.executor.memoryOverhead": "1g",
    "spark.task.maxFailures": "8",
}


def test_without_a_declaration_the_settings_say_what_is_asked_for() -> None:
    assert allocation(HERE, None).conf == {"spark.driver.memory": "3g"}
    own = allocation(CLUSTER, None).conf
    assert (own["spark.executor.memory"], own["spark.executor.cores"]) == ("3g", "2")
    assert own["spark.dynamicAllocation.maxExecutors"] == "4"


def test_a_declaration_takes_precedence_field_by_field() -> None:
    own = allocation(CLUSTER, Resources(executors=9, dynamic=False)).conf
    assert own["spark.executor.instances"] == "9"
    assert own["spark.executor.memory"] == "3g"
    assert own["spark.dynamicAllocation.enabled"] == "false"
    assert "spark.dynamicAllocation.maxExecutors" not in own


def test_on_a_local_master_the_memory_of_the_driver_counts_and_what_is_about_executors_is_named() -> None:
    own = allocation(HERE, FULL)
    assert own.conf == {"spark.driver.memory": "4g", "spark.task.maxFailures": "8"}
    named = ("driver_cores", "executors", "executor_memory", "executor_cores", "pod_template")
    assert own.not_applicable == (*named, "spark.executor.memoryOverhead")
    assert own.line() == (
        "requests driver.memory 4g, task.maxFailures 8 from local[2]; not applicable there: driver_cores, executors, "
        "executor_memory, executor_cores, pod_template, spark.executor.memoryOverhead"
    )


def test_a_standalone_cluster_counts_cores() -> None:
    assert allocation(HERE, FULL, master="spark://box:7077").conf == {**ALL, "spark.cores.max": "6"}
    own = allocation(HERE, Resources(executors=3), master="spark://box:7077").conf
    assert (own["spark.cores.max"], own["spark.executor.cores"]) == ("3", "1")


@pytest.mark.parametrize("on_cluster", [False, True])
def test_cores_of_the_driver_apply_where_the_cluster_runs_it(on_cluster: bool) -> None:
    own = allocation(HERE, FULL, master="yarn", driver_on_cluster=on_cluster)
    assert own.conf == ({**ALL, "spark.driver.cores": "2"} if on_cluster else ALL)
    assert ("driver_cores" in own.not_applicable) is not on_cluster


def test_kubernetes_gets_one_template_for_both_kinds_of_pod() -> None:
    own = allocation(HERE, FULL, master="k8s://https://box:6443").conf
    templates = {f"spark.kubernetes.{each}.podTemplateFile": "pods.yaml" for each in ("driver", "executor")}
    assert own == {**ALL, **templates}


def test_dynamic_allocation_needs_no_shuffle_service_and_has_the_executors_as_its_limit() -> None:
    own = allocation(HERE, Resources(dynamic=True, executors=5), master="k8s://https://box:6443").conf
    assert own["spark.dynamicAllocation.shuffleTracking.enabled"] == "true"
    assert own["spark.dynamicAllocation.maxExecutors"] == "5"
    assert "spark.executor.instances" not in own


@pytest.mark.parametrize(
    ("resources", "driver_master"),
    [
        (Resources(driver_cores=2, executor_memory="6g"), "local[2]"),
        (Resources(), "local[1]"),
        (Resources(dynamic=True), None),
        (Resources(executors=1), None),
    ],
)
def test_a_driver_in_a_pod_runs_the_tasks_by_itself_unless_executors_are_requested(
    resources: Resources, driver_master: str | None
) -> None:
    own = allocation(HERE, resources, master="k8s://https://box:6443", driver_on_cluster=True)
    assert own.conf.get("spark.kubernetes.driver.master") == driver_master
    assert ("executor_memory" in own.not_applicable) is (resources.executor_memory is not None)
    assert own.path_for_driver(Path("/opt/own.jar")) == "local:///opt/own.jar"
    assert allocation(HERE, resources, master="yarn", driver_on_cluster=True).path_for_driver(Path("/opt/own.jar")) == (
        "/opt/own.jar"
    )
