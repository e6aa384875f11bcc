"""The services of `docker-compose.yaml` as processes on loopback, by the commands and settings of that file.

Names of services with a port are free ports of this machine, and paths of containers are in one folder. What the file leaves to images
and to Docker is here: the programs, ports that would collide, and small heaps.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from devstack import s3_server
from devstack.certificates import Authority
from devstack.ports import LOOPBACK, free_port, listens
from tests.waiting import TIMEOUT_SECONDS, wait_until
from tidegate.processes import end_group
from tidegate.runtime import java, job_environment
from tidegate.runtime.jars import class_path

PROJECT = Path(__file__).parents[1]
TEXT = (PROJECT / "docker-compose.yaml").read_text(encoding="utf-8")
FILE: dict[str, Any] = yaml.safe_load(TEXT)
SERVICES: dict[str, dict[str, Any]] = FILE["services"]
BROKERS = ("kafka-1", "kafka-2", "kafka-3")
HISTORY = "127.0.0.1:18080"
"""Where the file publishes the history server."""
_ADDRESS = re.compile(rf"(?<![\w-])(?:{'|'.join(SERVICES)}):\d+|{re.escape(HISTORY)}")
_VARIABLE = re.compile(r"\$\{(\w+):[?-][^}]*\}")
_FOREIGN = ("AIRFLOW", "AWS_", "SPARK_", "TIDEGATE_LAKE", "TIDEGATE_LANDING", "TIDEGATE_KAFKA", "TIDEGATE_MASTER")


@dataclass
class Composed:
    """The services that a test has started.

    Args:
        folder: For all files.
        secrets: The variables of the file ``.env``.
    """

    folder: Path
    secrets: Mapping[str, str]
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    """By the names of their services."""
    ports: dict[str, int] = field(default_factory=dict)
    """By the addresses of the file."""

    def __post_init__(self) -> None:
        for name in ("airflow", "buckets", "certificates", "logs", "secrets", "spark-conf", "spark-events"):
            (self.folder / name).mkdir(parents=True)
        for name, each in FILE["secrets"].items():
            (self.folder / "secrets" / name).write_text(self.secrets[each["environment"]])
        for path in (PROJECT / "devstack/compose").iterdir():
            (self.folder / "spark-conf" / path.name).write_text(self.text(path.read_text(encoding="utf-8")))

    def port(self, address: str) -> int:
        """The port of this machine for an address of the file."""
        if address not in self.ports:
            self.ports[address] = free_port()
        return self.ports[address]

    def text(self, text: str, service: str = "") -> str:
        """A text of the file with addresses and paths of this machine, and with the secrets."""
        text = _VARIABLE.sub(lambda match: self.secrets.get(match[1], ""), text)
        text = text.replace("@postgres/", f"@{LOOPBACK}:{self.port('postgres:5432')}/")
        text = _ADDRESS.sub(lambda match: f"{_host(match[0])}:{self.port(match[0])}", text)
        paths = {
            "/opt/tidegate/devstack/compose": self.folder / "spark-conf",
            "/opt/tidegate": PROJECT,
            "/opt/airflow": self.folder / "airflow",
            "/run/secrets": self.folder / "secrets",
            "/var/lib/kafka/data": self.folder / "data" / service,
            **{f"/{name}": self.folder / name for name in ("buckets", "certificates", "spark-events")},
        }
        return re.sub("|".join(map(re.escape, paths)), lambda match: str(paths[match[0]]), text)

    def environment(self, service: str) -> dict[str, str]:
        """The variables of a service's processes: the file's, and what an image has."""
        base = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
        home = java.find()
        own = {name: self.text(value, service) for name, value in SERVICES[service].get("environment", {}).items()}
        if (connection := own.get("AIRFLOW_CONN_SPARK_DEFAULT")) is not None:
            of_master = json.loads(connection)
            port = self.port(f"spark-master:{of_master['port']}")
            own["AIRFLOW_CONN_SPARK_DEFAULT"] = json.dumps(
                of_master | {"host": of_master["host"].replace("spark-master", LOOPBACK), "port": port}
            )
        if (database := own.get("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN")) is not None:
            # The environment of the tests has the newer driver alone, for both kinds of connections.
            named = database.replace("+psycopg2", "+psycopg")
            own |= {f"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN{end}": named for end in ("", "_ASYNC")}
        return {
            **base,
            **home.variables,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), base["PATH"]]),
            "PYTHONPATH": str(PROJECT),
            "PYTHONUNBUFFERED": "1",
            "TIDEGATE_PROJECT": str(PROJECT),
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_DAEMON_MEMORY": "256m",
            **own,
        }

    def command(self, service: str) -> list[str]:
        """The command of a service that is no broker and no database."""
        declared = SERVICES[service]
        if "build" in declared:
            program, *entry = declared.get("entrypoint", ["tini", "--", "airflow"])[2:]
        else:
            program, *entry = [str(s3_server.built())]
        programs = {
            "airflow": [sys.executable, "-m", "airflow"],
            "python": [sys.executable],
            "spark-class": [str(job_environment.spark_home() / "bin" / "spark-class")],
        }
        words = [*programs.get(program, [program]), *(self.text(word, service) for word in entry)]
        for before, word in itertools.pairwise(("", *declared.get("command", ()))):
            if before == "--port":
                port = self.port(f"{service}:{word.lstrip(':')}")
                words.append(f"{LOOPBACK}:{port}" if word.startswith(":") else str(port))
            else:
                words.append(LOOPBACK if word in SERVICES else self.text(word, service))
        return words

    def log(self, service: str) -> Path:
        """The output of a service."""
        return self.folder / "logs" / service

    def start(self, service: str, *more: str, **variables: str) -> None:
        """Start the process of a service.

        Args:
            more: Behind its command.
            variables: More of its environment.
        """
        self._start(service, [*self.command(service), *more], self.folder, {**self.environment(service), **variables})

    def complete(self, service: str, *more: str) -> None:
        """Run the command of a service until it ends well, as Docker does."""
        command, environment = [*self.command(service), *more], self.environment(service)

        def is_complete() -> bool:
            with self.log(service).open("ab") as log:
                done = subprocess.run(
                    command, env=environment, cwd=PROJECT, stdout=log, stderr=log, check=False, timeout=TIMEOUT_SECONDS
                )
            return done.returncode == 0

        wait_until(is_complete, f"{service} ends well")

    def certify(self) -> None:
        """What the service certificates does, for brokers on this machine: all have its name."""
        authority = Authority(self.folder / "certificates", "authority")
        for name in (*BROKERS, "admin"):
            authority.issue(name)

    def start_broker(self, service: str) -> None:
        """Start a broker with the variables of its service."""
        folder = self.folder / service
        folder.mkdir()
        (folder / "server.properties").write_text(self.properties(service))
        command = [str(java.find().executable), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command += ["-cp", class_path(PROJECT, "broker")]
        cluster = SERVICES[service]["environment"]["CLUSTER_ID"]
        formatted = ["kafka.tools.StorageTool", "format", "-c", "server.properties", "-t", cluster]
        subprocess.run([*command, *formatted], cwd=folder, check=True, capture_output=True)
        self._start(service, [*command, "kafka.Kafka", "server.properties"], folder, dict(os.environ))

    def properties(self, service: str) -> str:
        """The file that the image of Kafka makes of its variables.

        Names: ``docker/resources/common-scripts`` and ``KafkaDockerWrapper`` in Kafka's source.
        """
        lines = []
        for variable, value in SERVICES[service]["environment"].items():
            if not variable.startswith("KAFKA_"):
                continue
            name = variable.removeprefix("KAFKA_").replace("___", "-").replace("__", ".").replace("_", ".").lower()
            if name == "listeners":
                value = re.sub(r"://:(\d+)", rf"://{service}:\1", value)
            lines.append(f"{name}={self.text(value, service)}")
        return "\n".join([*lines, "offsets.topic.num.partitions=1", "group.initial.rebalance.delay.ms=0", ""])

    def start_spark(self) -> None:
        """Start the master, the workers and the history server, and wait until the master knows the workers."""
        self.start("spark-master", "--webui-port", "0")
        wait_until(lambda: listens(self.port("spark-master:7077")), "the master listens")
        workers = [name for name in SERVICES if name.startswith("spark-worker")]
        for name in workers:
            folder = str(self.folder / "work" / name)
            self.start(name, "--host", LOOPBACK, "--webui-port", "0", "--work-dir", folder)
        options = self.environment("history-server")["SPARK_HISTORY_OPTS"]
        port = f"-Dspark.history.ui.port={self.port(HISTORY)}"
        self.start("history-server", SPARK_HISTORY_OPTS=f"{options} {port}")
        master = self.log("spark-master")
        wait_until(lambda: master.read_text().count("Registering worker") == len(workers), "the workers are registered")

    def kill(self, service: str) -> None:
        """End the processes of a service at once, with those that they have started, as a machine that is switched off."""
        process = self.processes[service]
        end_group(process.pid, grace=0)
        process.wait()

    def stop(self) -> None:
        """End all, the last first."""
        for process in reversed(self.processes.values()):
            end_group(process.pid, grace=0)
            process.wait()

    def _start(self, service: str, command: list[str], folder: Path, environment: Mapping[str, str]) -> None:
        with self.log(service).open("ab") as log:
            self.processes[service] = subprocess.Popen(
                command, env=dict(environment), cwd=folder, stdout=log, stderr=log, start_new_session=True
            )


def _host(address: str) -> str:
    """The name of a service's machine: that of the certificates for brokers."""
    return "localhost" if address.startswith(BROKERS) else LOOPBACK


@contextlib.contextmanager
def composed(folder: Path, **secrets: str) -> Iterator[Composed]:
    """No service yet; those that are started are stopped at the end."""
    made = Composed(folder, secrets)
    try:
        yield made
    finally:
        made.stop()
