"""Drivers whose account lacks a right on Kubernetes, or whose API server is not there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from devstack.ports import free_port
from tests.clusters.kinds import Kinds, end_of
from tests.kubernetes import MANIFEST, NAMESPACE, Kubernetes
from tidegate.errors import EX_CONFIG, EX_TEMPFAIL

pytestmark = [pytest.mark.nightly, pytest.mark.jvm, pytest.mark.kafka, pytest.mark.chaos, pytest.mark.timeout(1800)]


def test_a_driver_that_may_not_list_or_create_pods_ends_with_what_to_do(
    kinds: Kinds, cluster: Kubernetes, tmp_path: Path
) -> None:
    kinds.land()
    cluster.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "nobody"}})
    account = str(cluster.kubeconfig("nobody", cluster.token_of("nobody")))
    output = end_of(kinds.start(KUBECONFIG=account), exit_code=EX_CONFIG)
    assert f"refuses the application: GET of pods in the namespace {NAMESPACE}: Forbidden" in output
    assert MANIFEST.name in output

    account = str(cluster.kubeconfig("unknown", "no-token"))
    output = end_of(kinds.start(KUBECONFIG=account), exit_code=EX_CONFIG)
    assert f"refuses the application: GET of pods in the namespace {NAMESPACE}: Unauthorized" in output

    reading = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}
    settings = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "get", "list", "watch", "delete"]}
    cluster.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reader"}},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": "reader"},
            "rules": [reading, settings],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "reader"},
            "subjects": [{"kind": "ServiceAccount", "name": "reader"}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        },
    )
    account = str(cluster.kubeconfig("reader", cluster.token_of("reader")))
    output = end_of(kinds.start(KUBECONFIG=account), exit_code=EX_CONFIG)
    assert "started no executor, and Spark gave up" in output

    nowhere = f"127.0.0.1:{free_port()}"
    config = json.loads(Path(account).read_text())
    config["clusters"][0]["cluster"]["server"] = f"https://{nowhere}"
    (tmp_path / "nowhere.kubeconfig").write_text(json.dumps(config))
    variables = {"KUBECONFIG": str(tmp_path / "nowhere.kubeconfig"), "TIDEGATE_MASTER": f"k8s://https://{nowhere}"}
    output = end_of(kinds.start(**variables), exit_code=EX_TEMPFAIL)
    assert f"the cluster of the master k8s://https://{nowhere} does not answer" in output
