"""A real Kubernetes on loopback: etcd, API server with RBAC, controller manager; and two nodes whose kubelet is a stand-in.

The stand-in binds each pod to the node that has fewest, starts the driver or executor that its container describes as a process in a
folder of its own (`tests.pods`), and says what became of it. It decides what a real node would: the image (there is none: containers have
Spark of the environment of jobs), the address of a pod (that of this machine), its volumes (a folder) and its limits (none). That a node is
lost is found by the controller manager.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import ssl
import subprocess
import threading
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from devstack.ports import LOOPBACK, free_port, listens
from tests import cluster_servers, pods
from tests.waiting import TIMEOUT_SECONDS, wait_until
from tidegate.processes import end_group

NODES = ("node-1", "node-2")
NAMESPACE = "etl"
MANIFEST = Path(__file__).parents[1] / "deploy" / "helm" / "files" / "driver.yaml"
ACCOUNT = "tidegate-driver"
"""Of the manifest."""
LOST_AFTER_SECONDS = 10
"""So long after its last heartbeat a node is lost."""
_MERGE = "application/merge-patch+json"


@dataclass
class Kubernetes:
    """One cluster."""

    folder: Path
    programs: Path
    port: int = field(default_factory=free_port)
    """Of the API server."""
    _admin: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)
    _servers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _pods: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _nodes: dict[str, str] = field(default_factory=dict)
    """By pod."""
    _lost: set[str] = field(default_factory=set)
    _ended: threading.Event = field(default_factory=threading.Event)
    _kubelet: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Of the API server."""
        return f"https://{LOOPBACK}:{self.port}"

    def pids(self) -> list[int]:
        """The processes of the servers."""
        return [process.pid for process in self._servers.values()]

    def log(self, server: str) -> str:
        """What a server, or the stand-in (``kubelet``), says."""
        return (self.folder / f"{server}.log").read_text(errors="replace")

    def start(self) -> None:
        """Start servers and nodes; wait until the nodes are ready."""
        client, peer = (f"http://{LOOPBACK}:{free_port()}" for _ in range(2))
        self._start(
            "etcd",
            f"--data-dir={self.folder}/etcd",
            *(f"--{name}-client-urls={client}" for name in ("listen", "advertise")),
            *(f"--{name}-peer-urls={peer}" for name in ("listen", "initial-advertise")),
            *(f"--initial-cluster=default={peer}", "--unsafe-no-fsync"),
        )
        wait_until(lambda: listens(int(client.rpartition(":")[2])), "etcd listens")
        key, tokens = self.folder / "accounts.key", self.folder / "tokens.csv"
        subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True)
        tokens.write_text(f"{self._admin},admin,admin,system:masters\n")
        self._start(
            "kube-apiserver",
            *(f"--etcd-servers={client}", f"--bind-address={LOOPBACK}", f"--advertise-address={LOOPBACK}"),
            *(f"--secure-port={self.port}", f"--cert-dir={self.folder}/certificates"),
            *("--service-cluster-ip-range=10.0.0.0/24", "--endpoint-reconciler-type=none"),
            *("--service-account-issuer=https://kubernetes.default.svc", f"--service-account-key-file={key}"),
            *(f"--service-account-signing-key-file={key}", f"--token-auth-file={tokens}", "--authorization-mode=RBAC"),
            *(f"--default-{name}-toleration-seconds=1" for name in ("not-ready", "unreachable")),
        )
        wait_until(self._is_ready, "the API server is ready")
        self._start(
            "kube-controller-manager",
            *(f"--kubeconfig={self.kubeconfig('admin', self._admin)}", f"--bind-address={LOOPBACK}"),
            *(f"--secure-port={free_port()}", f"--cert-dir={self.folder}/certificates-of-manager"),
            *(f"--service-account-private-key-file={key}", "--leader-elect=false"),
            *(f"--node-monitor-grace-period={LOST_AFTER_SECONDS}s", "--node-monitor-period=1s"),
        )
        self.call("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        for name in NODES:
            self._create_node(name)
        self._kubelet = threading.Thread(target=self._work, name="kubelet", daemon=True)
        self._kubelet.start()
        wait_until(lambda: all(not self.taints(name) for name in NODES), "the nodes are ready")
        self.apply(*yaml.safe_load_all(MANIFEST.read_text()))
        settings = {"spark.kubernetes.namespace": NAMESPACE, "spark.kubernetes.container.image": "none"}
        own = {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
        in_pods = {
            "spark.kubernetes.authenticate.driver.serviceAccountName": ACCOUNT,
            # A driver with executors finds the API server by the name of its service.
            "spark.kubernetes.driver.master": self.url,
        }
        for mode, more in (("client", own), ("cluster", in_pods)):
            folder = self.folder / f"spark-conf-{mode}"
            folder.mkdir()
            lines = "".join(f"{key} {value}\n" for key, value in {**settings, **more}.items())
            (folder / "spark-defaults.conf").write_text(lines)

    def kubeconfig(self, name: str, token: str) -> Path:
        """A file by which a client of the API server is somebody."""
        authority = self.folder / "certificates" / "apiserver.crt"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "own",
            "clusters": [{"name": "own", "cluster": {"server": self.url, "certificate-authority": str(authority)}}],
            "users": [{"name": name, "user": {"token": token}}],
            "contexts": [{"name": "own", "context": {"cluster": "own", "user": name, "namespace": NAMESPACE}}],
        }
        path = self.folder / f"{name}.kubeconfig"
        path.touch(mode=0o600)
        path.write_text(json.dumps(config))
        return path

    @property
    def variables(self) -> dict[str, str]:
        """The environment of drivers, which have the shipped account."""
        return {
            "TIDEGATE_MASTER": f"k8s://{self.url}",
            "KUBECONFIG": str(self.kubeconfig(ACCOUNT, self.token_of(ACCOUNT))),
            "SPARK_CONF_DIR": str(self.folder / "spark-conf-client"),
            "SPARK_LOCAL_IP": LOOPBACK,
        }

    @property
    def variables_of_pods(self) -> dict[str, str]:
        """The environment of spark-submit that creates the pods of drivers."""
        return {**self.variables, "SPARK_CONF_DIR": str(self.folder / "spark-conf-cluster")}

    def token_of(self, account: str) -> str:
        """A token by which a client of the API server is an account of the namespace."""
        path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token"
        return str(self.call("POST", path, {"spec": {"expirationSeconds": 7200}})["status"]["token"])

    def may(self, account: str, verb: str, resource: str) -> bool:
        """Whether an account has a right in the namespace."""
        spec = {
            "user": f"system:serviceaccount:{NAMESPACE}:{account}",
            "resourceAttributes": {"namespace": NAMESPACE, "verb": verb, "resource": resource},
        }
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        answer = self.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        return bool(answer["status"]["allowed"])

    def apply(self, *manifests: dict[str, Any]) -> None:
        """Create objects in the namespace, as their administrator does."""
        kinds = {
            "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
            "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
            "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
        }
        for manifest in manifests:
            self.call("POST", kinds[manifest["kind"]].format(NAMESPACE), manifest)

    def pods(self) -> dict[str, dict[str, Any]]:
        """The pods of the namespace by name."""
        listed = self.call("GET", f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]
        return {pod["metadata"]["name"]: pod for pod in listed}

    def taints(self, node: str) -> list[str]:
        """Why pods do not stay on a node."""
        return [taint["key"] for taint in self.call("GET", f"/api/v1/nodes/{node}")["spec"].get("taints", [])]

    def executors(self) -> list[str]:
        """The names of the pods of executors that run."""
        return [
            name
            for name, pod in self.pods().items()
            if pod["metadata"]["labels"].get("spark-role") == "executor" and pod["status"].get("phase") == "Running"
        ]

    def drivers(self) -> dict[str, str]:
        """The phase of each pod of a driver, by its name."""
        return {
            name: pod["status"]["phase"]
            for name, pod in self.pods().items()
            if pod["metadata"]["labels"].get("spark-role") == "driver"
        }

    def output_of(self, pod: str) -> str:
        """What the container of a pod has printed."""
        return (self.folder / "pods" / pod / "log").read_text(errors="replace")

    def delete_pod(self, name: str) -> None:
        """Delete a pod at once, as one with a higher priority or a person does."""
        self.call("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods/{name}", {"gracePeriodSeconds": 0})

    def node_of(self, pod: str) -> str:
        """The node on which a pod is."""
        return self._nodes[pod]

    def lose_node(self, name: str) -> None:
        """Let a node be switched off: its processes end at once, and nothing is heard of it again."""
        self._lost.add(name)
        for pod, node in self._nodes.items():
            if node == name and self._pods[pod].poll() is None:
                end_group(self._pods[pod].pid, grace=0)

    def stop(self) -> None:
        """End all servers and pods."""
        self._ended.set()
        if self._kubelet is not None:
            self._kubelet.join(TIMEOUT_SECONDS)
        for process in (*self._pods.values(), *reversed(self._servers.values())):
            end_group(process.pid, grace=0)
            process.wait()

    def call(self, method: str, path: str, body: Any = None, *, content: str = "application/json") -> Any:
        """Ask the API server as its administrator."""
        request = urllib.request.Request(
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._admin}", "Content-Type": content},
        )
        trusted = ssl.create_default_context(cafile=str(self.folder / "certificates" / "apiserver.crt"))
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS, context=trusted) as answer:
            text = answer.read()
        return json.loads(text) if text.startswith(b"{") else text.decode()

    def _start(self, program: str, *options: str) -> None:
        with (self.folder / f"{program}.log").open("ab") as log:
            self._servers[program] = subprocess.Popen(
                [self.programs / "bin" / program, *options],
                cwd=self.folder,
                stdout=log,
                stderr=log,
                env={"PATH": os.environ["PATH"], "HOME": str(self.folder)},
                start_new_session=True,
            )

    def _is_ready(self) -> bool:
        assert self._servers["kube-apiserver"].poll() is None, self.log("kube-apiserver")[-4000:]
        with contextlib.suppress(OSError):
            return bool(self.call("GET", "/readyz") == "ok")
        return False

    # The stand-in.

    def _create_node(self, name: str) -> None:
        self.call("POST", "/api/v1/nodes", {"metadata": {"name": name}})
        self._beat(name)
        condition = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "lastHeartbeatTime": _now()[:19] + "Z",
        }
        size = {"cpu": "4", "memory": "8Gi", "pods": "20"}
        status = {"conditions": [condition], "capacity": size, "allocatable": size}
        self.call("PATCH", f"/api/v1/nodes/{name}/status", {"status": status}, content=_MERGE)

    def _beat(self, node: str) -> None:
        leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
        spec = {"holderIdentity": node, "leaseDurationSeconds": LOST_AFTER_SECONDS, "renewTime": _now()}
        try:
            self.call("PATCH", f"{leases}/{node}", {"spec": spec}, content=_MERGE)
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            self.call("POST", leases, {"metadata": {"name": node}, "spec": spec})

    def _work(self) -> None:
        with (self.folder / "kubelet.log").open("a", buffering=1) as log:
            while not self._ended.wait(0.3):
                for step in (self._beat_all, self._sync):
                    try:
                        step()
                    except (OSError, ValueError) as error:
                        # An object that has changed or is gone is looked at again.
                        log.write(f"{step.__name__}: {error!r}\n")

    def _beat_all(self) -> None:
        for node in NODES:
            if node not in self._lost:
                self._beat(node)

    def _sync(self) -> None:
        listed = self.pods()
        for name, process in self._pods.items():
            if name not in listed and self._nodes[name] not in self._lost and process.poll() is None:
                end_group(process.pid, grace=0)
        for name, pod in listed.items():
            phase, path = pod.get("status", {}).get("phase"), f"/api/v1/namespaces/{NAMESPACE}/pods/{name}"
            if self._nodes.get(name) in self._lost:
                continue
            started = self._pods.get(name)
            if pod["metadata"].get("deletionTimestamp"):
                if started is not None:
                    end_group(started.pid, grace=1.0)
                    started.wait()
                self.call("DELETE", path, {"gracePeriodSeconds": 0})
            elif started is None and phase == "Pending":
                if name not in self._nodes:
                    self._bind(name, path)
                self._pods[name] = self._start_container(name, pod)
                self._say(path, pod, "Running", {"running": {"startedAt": _now()[:19] + "Z"}})
            elif started is not None and started.poll() is not None and phase == "Running":
                code = started.returncode if started.returncode >= 0 else 128 - started.returncode
                self._say(path, pod, "Failed" if code else "Succeeded", {"terminated": {"exitCode": code}})

    def _bind(self, name: str, path: str) -> None:
        used = Counter(
            node for pod, node in self._nodes.items() if pod in self._pods and self._pods[pod].poll() is None
        )
        node = min((each for each in NODES if each not in self._lost), key=lambda each: used[each])
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        self.call(
            "POST",
            f"{path}/binding",
            {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target},
        )
        self._nodes[name] = node

    def _start_container(self, name: str, pod: Mapping[str, Any]) -> subprocess.Popen[bytes]:
        container, folder = pod["spec"]["containers"][0], self.folder / "pods" / name
        folder.mkdir(parents=True, exist_ok=True)
        if pods.is_driver(container):
            self._mount(pod, folder)
        command, own = pods.command(container, folder), pods.variables(pod, folder)
        with (folder / "log").open("ab") as log:
            return subprocess.Popen(command, env=own, cwd=folder, stdout=log, stderr=log, start_new_session=True)

    def _mount(self, pod: Mapping[str, Any], folder: Path) -> None:
        """Put the settings of a driver into its folder, and the token of its account. They may be created after the pod."""
        for volume in pod["spec"]["volumes"]:
            if "configMap" in volume:
                path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{volume['configMap']['name']}"
                pods.mount(volume, self.call("GET", path)["data"], pod["spec"]["containers"][0], folder)
        (folder / pods.TOKEN).write_text(self.token_of(pod["spec"]["serviceAccountName"]))
        authority = self.folder / "certificates" / "apiserver.crt"
        (folder / pods.AUTHORITY).write_bytes(authority.read_bytes())

    def _say(self, path: str, pod: Mapping[str, Any], phase: str, state: Mapping[str, Any]) -> None:
        container = pod["spec"]["containers"][0]
        running = phase == "Running"
        known = {"name": container["name"], "image": container["image"], "imageID": "", "restartCount": 0}
        status = {
            "phase": phase,
            "podIP": LOOPBACK,
            "hostIP": LOOPBACK,
            "conditions": [{"type": "Ready", "status": str(running)}],
            "containerStatuses": [{**known, "ready": running, "state": state}],
        }
        self.call("PATCH", f"{path}/status", {"status": status}, content=_MERGE)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


@contextmanager
def kubernetes(folder: Path) -> Iterator[Kubernetes]:
    """A running cluster. Skips the test where `make cluster-servers` has put no servers of Kubernetes into the cache."""
    cluster = Kubernetes(folder, cluster_servers.folder_of("kubernetes"))
    folder.mkdir(parents=True)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
