"""`deploy/helm` renders what a real API server admits, and names settings, paths and secrets that exist.

Helm and the servers of Kubernetes are put into the cache by `make cluster-servers`; without them nothing is run.
"""

from __future__ import annotations

import importlib.util
import subprocess
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import cluster_servers
from tests.kubernetes import ACCOUNT, MANIFEST, NAMESPACE, Kubernetes, kubernetes
from tidegate.environment import Environment
from tidegate.environment.settings import SETTINGS

pytestmark = [pytest.mark.nightly]

PROJECT = Path(__file__).parents[2]
CHART = PROJECT / "deploy" / "helm"
EXAMPLES = sorted((CHART / "examples").glob("*.yaml"))
Objects = list[dict[str, Any]]


def render(*options: str) -> subprocess.CompletedProcess[str]:
    """Render the chart for the version of the servers of the tests."""
    program = cluster_servers.folder_of("helm") / "bin" / "helm"
    own = ["--namespace", NAMESPACE, "--kube-version", "1.34.4", *options]
    return subprocess.run([program, "template", "own", CHART, *own], capture_output=True, text=True, check=False)


def rendered(values: Path) -> Objects:
    """The objects of the chart with the values of a file."""
    result = render("--values", str(values))
    assert result.returncode == 0, result.stderr
    return [each for each in yaml.safe_load_all(result.stdout) if each]


def named(objects: Objects, kind: str, name: str) -> dict[str, Any]:
    (only,) = (each for each in objects if (each["kind"], each["metadata"]["name"]) == (kind, name))
    return only


def pods(objects: Objects) -> Iterator[dict[str, Any]]:
    """The specification of each pod, that of executors too."""
    for each in objects:
        if "template" in each.get("spec", {}):
            yield each["spec"]["template"]["spec"]
    yield yaml.safe_load(named(objects, "ConfigMap", "tidegate-spark")["data"]["executor.yaml"])["spec"]


@pytest.fixture(params=EXAMPLES, ids=lambda path: path.stem)
def values(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def test_there_are_three_sets_of_values_and_none_has_a_secret() -> None:
    assert len(EXAMPLES) == 3
    for path in EXAMPLES:
        settings = yaml.safe_load(path.read_text())["settings"]
        assert not [name for name in settings if "SECRET" in name or "SQL_ALCHEMY" in name]
        passwords = [value for name, value in settings.items() if "PASSWORD" in name]
        assert all(value.startswith("file:/secrets/") for value in passwords)


def test_settings_are_known_and_valid(values: Path) -> None:
    settings = named(rendered(values), "ConfigMap", "tidegate-settings")["data"]
    own = {name: value for name, value in settings.items() if name.startswith(("TIDEGATE_", "AWS_"))}
    assert [name for name in own if not any(each.names(name) for each in SETTINGS)] == []
    environment = Environment.read({**own, "TIDEGATE_PROJECT": str(PROJECT)})
    assert str(environment.lake_at) == own["TIDEGATE_LAKE"]
    spec = importlib.util.find_spec("airflow")
    assert spec is not None and spec.origin is not None
    declared = yaml.safe_load((Path(spec.origin).parent / "config_templates" / "config.yml").read_text("utf-8"))
    for name in settings:
        if name.startswith("AIRFLOW__"):
            _, section, option = name.lower().split("__")
            assert option in declared[section]["options"], name


def test_paths_are_in_the_image_or_mounted(values: Path) -> None:
    objects = rendered(values)
    settings = named(objects, "ConfigMap", "tidegate-settings")["data"]
    spark = named(objects, "ConfigMap", "tidegate-spark")["data"]
    for name, value in settings.items():
        if value.startswith("/opt/tidegate/"):
            assert (PROJECT / value.removeprefix("/opt/tidegate/")).exists(), name
        elif value.startswith("/etc/tidegate/"):
            assert value.removeprefix("/etc/tidegate/") in spark, name
        else:
            assert not value.startswith("/") or value.startswith(("/data/", "/opt/airflow", "/etc/tidegate")), name
    for pod in pods(objects):
        (container,) = pod["containers"]
        mounted = {each["mountPath"] for each in container.get("volumeMounts", ())}
        assert {each["name"] for each in container.get("volumeMounts", ())} == {
            each["name"] for each in pod.get("volumes", ())
        }
        for root in ("/data", "/secrets"):
            if any(root + "/" in value for value in settings.values()):
                assert root in mounted, container["name"]


def test_executors_get_no_secret_of_airflow(values: Path) -> None:
    objects = rendered(values)
    airflow, executor = (
        yaml.safe_load((CHART / "values.yaml").read_text())["secrets"]["airflow"],
        list(pods(objects))[-1],
    )
    assert airflow in str(objects)
    assert airflow not in str(executor)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("executors=1", "executors"),
        ("settings.lake=s3://lake", "lake"),
        ("secret=own", "secret"),
        ("settings.TIDEGATE_LANDING=null", "TIDEGATE_LANDING"),
    ],
)
def test_a_wrong_value_is_refused_and_named(value: str, message: str) -> None:
    result = render("--values", str(EXAMPLES[0]), "--set", value)
    assert result.returncode != 0
    assert message in result.stderr


def test_values_without_a_lake_are_refused() -> None:
    result = render()
    assert result.returncode != 0
    assert "TIDEGATE_LAKE" in result.stderr


PATHS = {
    "ConfigMap": "/api/v1/namespaces/{}/configmaps",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "Job": "/apis/batch/v1/namespaces/{}/jobs",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "Service": "/api/v1/namespaces/{}/services",
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets",
}


def admit(cluster: Kubernetes, manifest: dict[str, Any], namespace: str) -> None:
    """Ask the API server whether it would create an object; raises HTTPError if not."""
    cluster.call("POST", PATHS[manifest["kind"]].format(namespace) + "?dryRun=All&fieldValidation=Strict", manifest)


def test_the_api_server_admits_all_objects_of_all_sets_and_no_misspelt_one(tmp_path: Path) -> None:
    with kubernetes(tmp_path / "cluster") as cluster:
        cluster.call("POST", "/api/v1/namespaces", {"metadata": {"name": "other"}})
        for path in EXAMPLES:
            objects = rendered(path)
            assert {each["kind"] for each in objects} == set(PATHS)
            for each in objects:
                admit(cluster, each, "other")
        wrong = named(rendered(EXAMPLES[0]), "StatefulSet", "tidegate-scheduler")
        wrong["spec"]["template"]["spec"]["containers"][0]["volumeMount"] = []
        with pytest.raises(urllib.error.HTTPError):
            admit(cluster, wrong, "other")
        cluster.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "tidegate-executor"}})
        assert cluster.may(ACCOUNT, "create", "pods") and not cluster.may("tidegate-executor", "list", "pods")
        assert not cluster.may(ACCOUNT, "get", "secrets")


def test_the_account_of_the_chart_is_that_of_the_file() -> None:
    plain = list(yaml.safe_load_all(MANIFEST.read_text()))
    objects = rendered(CHART / "examples" / "executors.yaml")
    assert [named(objects, each["kind"], each["metadata"]["name"]) for each in plain] == plain
    annotated = named(rendered(CHART / "examples" / "identity.yaml"), "ServiceAccount", ACCOUNT)
    assert annotated["metadata"]["annotations"]
