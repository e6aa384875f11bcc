"""A real YARN on loopback: a resource manager and two node managers, with room for one executor and one more small container each.

Containers get nothing of the environment of a test but Java. Files of the cluster are in its folder, and Spark's own jars are those of the
environment of jobs, as where Spark is installed on each node.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import psutil

from devstack.ports import LOOPBACK, free_port
from tests import cluster_servers
from tests.standalone import QUICK_JAVA
from tests.waiting import TIMEOUT_SECONDS, wait_until
from tidegate.runtime import java, job_environment

_SERVER = "org.apache.hadoop.yarn.server"
_LOGGING = """\
log4j.rootLogger=INFO,out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %p %c{1}: %m%n
"""
NODES = ("node-1", "node-2")
URGENT = "urgent"
"""A queue with half of the cluster, which the queue `default` has as long as nobody asks for it."""
_PREEMPTION = {
    "scheduler.monitor.enable": "true",
    "scheduler.monitor.policies": f"{_SERVER}.resourcemanager.monitor.capacity.ProportionalCapacityPreemptionPolicy",
    "monitor.capacity.preemption.monitoring_interval": "500",
    "monitor.capacity.preemption.max_wait_before_kill": "1000",
    "monitor.capacity.preemption.total_preemption_per_round": "1",
    "monitor.capacity.preemption.natural_termination_factor": "1",
}
EXECUTOR_MB = 1280
"""Of an executor of 700 MB, with its overhead."""
NODE_MB = 2304
"""Of each node: that of an executor, and 1,024 MB of the application master of the client mode."""
LOST_AFTER_SECONDS = 15
"""So long after its last heartbeat a node is lost."""


@dataclass
class Yarn:
    """One cluster."""

    folder: Path
    jars: Path
    """Of the servers."""
    ports: Mapping[str, int] = field(
        default_factory=lambda: {
            name: free_port() for name in ("", ".scheduler", ".resource-tracker", ".admin", ".webapp")
        }
    )
    """Of the resource manager."""
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def variables(self) -> dict[str, str]:
        """The environment of a driver that submits to this cluster."""
        return {
            "TIDEGATE_MASTER": "yarn",
            "HADOOP_CONF_DIR": str(self.folder / "conf"),
            "SPARK_CONF_DIR": str(self.folder / "spark-conf"),
            "SPARK_LOCAL_IP": LOOPBACK,
        }

    def start(self) -> None:
        """Start the resource manager and two node managers; wait until both are registered."""
        for name in ("conf", "spark-conf", "staging"):
            (self.folder / name).mkdir(parents=True)
        _write(self.folder / "conf/core-site.xml", {"fs.defaultFS": "file:///", "hadoop.tmp.dir": f"{self.folder}/tmp"})
        _write(self.folder / "conf/yarn-site.xml", self._settings())
        queues = {
            "root.queues": f"default,{URGENT}",
            "root.default.capacity": "50",
            "root.default.maximum-capacity": "100",
            "root.default.user-limit-factor": "2",
            f"root.{URGENT}.capacity": "50",
            "maximum-am-resource-percent": "0.9",
        }
        _write(
            self.folder / "conf/capacity-scheduler.xml",
            {f"yarn.scheduler.capacity.{name}": value for name, value in queues.items()},
        )
        (self.folder / "conf/log4j.properties").write_text(_LOGGING)
        (self.folder / "spark-conf/spark-defaults.conf").write_text(
            f"spark.yarn.jars local:{job_environment.spark_home()}/jars/*\nspark.yarn.stagingDir file://{self.folder}/staging\n"
        )
        self._start("resource-manager", f"{_SERVER}.resourcemanager.ResourceManager", self.folder / "conf", heap="400m")
        wait_until(self._answers, "the resource manager answers")
        for name in NODES:
            self.start_node(name)
        wait_until(lambda: len(self.nodes()) == len(NODES), "the nodes are registered")

    def start_node(self, name: str) -> None:
        """Start one node manager, which has folders of its own."""
        conf = self.folder / f"conf-{name}"
        conf.mkdir(exist_ok=True)
        for file in (self.folder / "conf").iterdir():
            (conf / file.name).write_bytes(file.read_bytes())
        own = {f"yarn.nodemanager.{kind}-dirs": f"{self.folder}/{name}/{kind}" for kind in ("local", "log")}
        _write(conf / "yarn-site.xml", {**self._settings(), **own})
        self._start(name, f"{_SERVER}.nodemanager.NodeManager", conf, heap="256m")

    def pids(self) -> list[int]:
        """The processes of the servers."""
        return [process.pid for process in self._processes.values()]

    @property
    def web(self) -> str:
        """The address at which the resource manager is asked for applications."""
        return f"http://{LOOPBACK}:{self.ports['.webapp']}"

    def log(self, server: str) -> str:
        """What a server says: ``resource-manager``, ``node-1`` or ``node-2``."""
        return (self.folder / f"{server}.log").read_text(errors="replace")

    def nodes(self) -> list[str]:
        """The ids of the nodes that run."""
        nodes = (self._get("/nodes?states=RUNNING").get("nodes") or {}).get("node", [])
        return [node["id"] for node in nodes]

    def applications(self) -> dict[str, str]:
        """The state of each application, by its id."""
        apps = (self._get("/apps").get("apps") or {}).get("app", [])
        return {app["id"]: app["state"] for app in apps}

    def wait_until_idle(self) -> None:
        """Wait until no application runs."""
        ended = {"FINISHED", "FAILED", "KILLED"}
        wait_until(lambda: set(self.applications().values()) <= ended, "no application of YARN runs")

    def kill_container(self, container: str) -> None:
        """Let the node manager kill a container at once, as the resource manager orders."""
        self._call("POST", f"/containers/{container}/signal/FORCEFUL_SHUTDOWN")

    def occupy(self, memory_mb: int) -> str:
        """Submit an application to the queue `URGENT`, whose one container sleeps, and return its id."""
        application: str = self._call("POST", "/apps/new-application")["application-id"]
        self._call(
            "POST",
            "/apps",
            {
                "application-id": application,
                "application-name": "urgent",
                "application-type": "TEST",
                "queue": URGENT,
                "max-app-attempts": 1,
                "am-container-spec": {"commands": {"command": "exec sleep 600"}},
                "resource": {"memory": memory_mb, "vCores": 1},
            },
        )
        return application

    def has_room(self, application: str) -> bool:
        """Whether an application has got its container."""
        return bool(self._get(f"/apps/{application}")["app"]["allocatedMB"] > 0)

    def preempted(self) -> dict[str, int]:
        """How many containers of each application the scheduler took for another queue, by the records of the resource manager."""
        return {app["id"]: app["numNonAMContainerPreempted"] for app in self._get("/apps")["apps"]["app"]}

    def end(self, application: str) -> None:
        """Let the resource manager end an application."""
        self._call("PUT", f"/apps/{application}/state", {"state": "KILLED"})

    def wait_for_end(self, container: str) -> None:
        """Wait until the node manager of a container says that it runs no longer."""
        text = f"Container {container} transitioned from RUNNING to "
        wait_until(lambda: any(text in self.log(name) for name in NODES), f"{container} has ended")

    def kill_node(self, name: str) -> None:
        """End a node manager and all that it has started, at once, as a machine that is switched off."""
        process = self._processes.pop(name)
        started = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.wait()
        _kill(started)

    def stop(self) -> None:
        """End all servers, and the containers that they have started."""
        started = [
            child
            for process in self._processes.values()
            if process.poll() is None
            for child in psutil.Process(process.pid).children(recursive=True)
        ]
        # First those who would start containers again.
        for process in self._processes.values():
            process.kill()
            process.wait()
        _kill(started)

    def _answers(self) -> bool:
        process = self._processes["resource-manager"]
        assert process.poll() is None, self.log("resource-manager")[-4000:]
        with contextlib.suppress(OSError):
            return bool(self._get("/info"))
        return False

    def _settings(self) -> dict[str, str]:
        manager = {
            f"yarn.resourcemanager{name}.address" if name else "yarn.resourcemanager.address": f"{LOOPBACK}:{port}"
            for name, port in self.ports.items()
        }
        return {
            "yarn.resourcemanager.hostname": LOOPBACK,
            "yarn.resourcemanager.bind-host": LOOPBACK,
            **manager,
            **{f"yarn.resourcemanager.{name}": value for name, value in _PREEMPTION.items()},
            "yarn.nm.liveness-monitor.expiry-interval-ms": str(LOST_AFTER_SECONDS * 1000),
            "yarn.scheduler.minimum-allocation-mb": "256",
            "yarn.nodemanager.hostname": LOOPBACK,
            "yarn.nodemanager.bind-host": LOOPBACK,
            **{
                f"yarn.nodemanager.{name}": f"{LOOPBACK}:0"
                for name in ("address", "localizer.address", "webapp.address")
            },
            "yarn.nodemanager.resource.memory-mb": str(NODE_MB),
            "yarn.nodemanager.resource.cpu-vcores": "4",
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.pmem-check-enabled": "false",
            "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "99.9",
            "yarn.nodemanager.env-whitelist": "JAVA_HOME,PATH,JAVA_TOOL_OPTIONS",
        }

    def _start(self, name: str, server: str, conf: Path, *, heap: str) -> None:
        home = java.find()
        command = [
            str(home.executable),
            "--add-opens=java.base/java.lang=ALL-UNNAMED",
            f"-Xmx{heap}",
            *(f"-Dyarn.home.dir={self.folder}", f"-Dyarn.log.dir={self.folder}"),
            *("-cp", f"{conf}:{self.jars}/*", server),
        ]
        own = {
            "PATH": os.environ["PATH"],
            "JAVA_HOME": str(home.executable.resolve().parents[1]),
            "JAVA_TOOL_OPTIONS": QUICK_JAVA,
            "HOME": str(self.folder / "nowhere"),
        }
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                command, env=own, cwd=self.folder, stdout=log, stderr=log, start_new_session=True
            )

    def _get(self, path: str) -> Any:
        return self._call("GET", path)

    def _call(self, method: str, path: str, content: Mapping[str, Any] | None = None) -> Any:
        url = f"{self.web}/ws/v1/cluster{path}"
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        data = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(url, data=data, method=method, headers=headers)
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
            text = answer.read()
        return json.loads(text) if text.startswith(b"{") else text.decode()


def _kill(processes: Sequence[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(processes, timeout=TIMEOUT_SECONDS)


def _write(path: Path, settings: Mapping[str, str]) -> None:
    lines = [
        f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>"
        for name, value in settings.items()
    ]
    path.write_text("\n".join(["<configuration>", *lines, "</configuration>", ""]))


@contextmanager
def yarn(folder: Path) -> Iterator[Yarn]:
    """A running cluster. Skips the test where `make cluster-servers` has put no servers of YARN into the cache."""
    cluster = Yarn(folder, cluster_servers.folder_of("yarn") / "lib")
    folder.mkdir(parents=True)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
