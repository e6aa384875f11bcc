"""A Kafka broker on loopback for the demo and the tests: pinned jars and a JVM, no container. Others may join its cluster.

::

    with Broker(folder, class_path=jars.class_path(project_root, "broker")) as broker:
        broker.create_topic("clicks", partitions=3)
        producer = Producer({"bootstrap.servers": broker.bootstrap})

The folder contains all files: ``data/`` (kept across restarts), ``logs/``, the configuration and the process ids.
"""

from __future__ import annotations

import atexit
import base64
import os
import secrets
import subprocess
import time
from typing import TYPE_CHECKING, Self

from devstack import broker_files
from devstack.broker_files import Listeners
from devstack.ports import free_port, is_free, listens
from tidegate.advice import OutsideAct
from tidegate.environment.clusters import Cluster
from tidegate.errors import SetupError
from tidegate.processes import Process
from tidegate.runtime import java

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_HEAP = "512m"
_START_SECONDS = 90.0
_STOP_SECONDS = 20.0
_POLL_SECONDS = 0.1
_PORT_ATTEMPTS = 3


class Broker:
    """One broker in one folder. It can be started and stopped repeatedly; its data is kept.

    Args:
        data_dir: The folder, for this broker only; created when it is missing.
        class_path: The jars of the ``broker`` set.
        port: The preferred port on 127.0.0.1. The broker listens on its last port if that is free, else on this one, else on any
            free one.
        listeners: Listeners besides that one, which is open to everybody on this machine.
        joins: The first broker of the cluster, which has its controller and must run; by default this is the first.
        node: The id of a broker that joins another, from 2.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        class_path: str,
        port: int | None = None,
        listeners: Listeners | None = None,
        joins: Broker | None = None,
        node: int = 1,
    ) -> None:
        self._joins, self._node = joins, node
        self._controller_port = 0
        self.data_dir = data_dir.absolute()
        self._class_path = class_path
        self._preferred_port = port
        self._listeners = listeners or Listeners()
        self._listener_ports: dict[str, int] = {}
        self._port: int | None = None
        self._popen: subprocess.Popen[bytes] | None = None
        self._process: Process | None = None
        self._owner = os.getpid()

    @property
    def bootstrap(self) -> str:
        """``host:port`` for clients.

        Raises:
            RuntimeError: The broker was never started, so it has no port yet.
        """
        if self._port is None:
            raise RuntimeError("The broker was not started: it has no port yet.")
        return f"127.0.0.1:{self._port}"

    @property
    def cluster(self) -> Cluster:
        """The same as the platform names it."""
        return Cluster(servers=self.bootstrap)

    def address(self, listener: str) -> str:
        """``localhost:port`` of one of `Listeners`."""
        return f"localhost:{self._listener_ports[listener]}"

    @property
    def pid(self) -> int | None:
        """The process id of the running broker, which leads its own process group; None when it does not run."""
        return self._process.pid if self._process and self._process.alive else None

    def start(self) -> Self:
        """Start the broker and wait until it answers. An orphaned broker in this folder is stopped first.

        Raises:
            MissingJavaError: There is no Java.
            SetupError: Another living process runs a broker in this folder, or the broker did not start.
        """
        if self.pid is not None:
            return self
        self._stop_orphan()
        for folder in (self.data_dir, self.data_dir / "logs"):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        ports = filter(is_free, filter(None, (self._recorded_port(), self._preferred_port)))
        for attempt in range(1, _PORT_ATTEMPTS + 1):
            self._port = next(ports, None) or free_port()
            self._launch(self._port)
            if self._answers():
                (self.data_dir / "port").write_text(f"{self._port}\n", encoding="ascii")
                return self
            log_tail = self._log_tail()
            self.stop()
            # Another process may bind the free port before the broker does.
            if "BindException" not in log_tail or attempt == _PORT_ATTEMPTS:
                break
        raise SetupError(
            f"The Kafka broker in {self.data_dir} did not start. The end of its log:\n{log_tail}",
            OutsideAct("remove the cause, and start again"),
        )

    def stop(self) -> None:
        """Stop the broker with SIGTERM, and with SIGKILL after 20 s. Does nothing when it does not run."""
        # A forked child inherits this object and must not stop the broker of its parent when it ends.
        if self._process is None or self._owner != os.getpid():
            return
        self._process.stop_group(_STOP_SECONDS)
        self._clear()

    def leave_running(self) -> None:
        """Keep the broker running when this process ends; `take_over` attaches to it again."""
        atexit.unregister(self.stop)
        (self.data_dir / "owner.pid").unlink(missing_ok=True)

    def take_over(self) -> bool:
        """Attach to a broker that runs in this folder without an owner; ``stop`` then stops it.

        Returns:
            Whether there is one that answers.
        """
        orphan, owner = Process.read(self.data_dir / "broker.pid"), Process.read(self.data_dir / "owner.pid")
        port = self._recorded_port()
        if orphan is None or not orphan.alive or (owner is not None and owner.alive) or port is None:
            return False
        self._process, self._port, self._owner = orphan, port, os.getpid()
        return listens(port)

    def kill(self) -> None:
        """End the broker with SIGKILL, as in a crash. For tests; ``start`` starts it again."""
        if self._process is not None:
            self._process.kill_group()
            self._clear()

    def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None, *, replicas: int = 1
    ) -> bool:
        """Create a topic and wait until clients see it.

        Args:
            replicas: On how many brokers of the cluster each partition is.
            config: Settings of the topic, for example ``{"retention.ms": "1000"}``.

        Returns:
            Whether it was created; False when a topic of this name exists.

        Raises:
            confluent_kafka.KafkaException: The broker refuses the request.
            SetupError: The broker created the topic but does not list it.
        """
        from confluent_kafka import KafkaError, KafkaException
        from confluent_kafka.admin import AdminClient
        from confluent_kafka.cimpl import NewTopic

        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        topic = NewTopic(name, num_partitions=partitions, replication_factor=replicas, config=dict(config or {}))
        try:
            admin.create_topics([topic], operation_timeout=30)[name].result(timeout=60)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return False
            raise
        # The controller has created it; the broker that clients connect to lists it a moment later.
        until = time.monotonic() + _START_SECONDS
        while len(admin.list_topics(topic=name, timeout=30).topics[name].partitions) < partitions:
            if time.monotonic() > until:
                raise SetupError(
                    f"The Kafka broker at {self.bootstrap} does not list the topic {name} that it created.",
                    OutsideAct("try again, or look into its log"),
                )
            time.sleep(_POLL_SECONDS)
        return True

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    # ------------------------------------------------------------------------------------------------------- private

    def _launch(self, port: int) -> None:
        for name in self._listeners.protocols.keys() - self._listener_ports.keys():
            self._listener_ports[name] = free_port(excluded=port)
        self._controller_port = free_port(excluded=port) if self._joins is None else self._joins._controller_port
        broker_files.write(
            self.data_dir,
            node=self._node,
            port=port,
            controller_port=self._controller_port,
            listeners=self._listeners,
            listener_ports=self._listener_ports,
        )
        command = [
            *(str(java.find().executable), f"-Xmx{_HEAP}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *self._listeners.jvm_options,
            *("-Djava.awt.headless=true", "-Dlog4j2.configurationFile=log4j2.properties", "-cp", self._class_path),
        ]
        if not (self.data_dir / "data" / "meta.properties").exists():
            storage_tool = (*command, "kafka.tools.StorageTool", "format", "-c", "server.properties")
            users = (part for user in self._listeners.users for part in ("--add-scram", user))
            cluster_id = _cluster_id() if self._joins is None else self._joins._recorded_cluster_id()
            self._format([*storage_tool, "-t", cluster_id, *users])
        with (self.data_dir / "logs" / "console.log").open("wb") as console:
            # A session of its own, so that Ctrl-C in the terminal signals only the parent, which then stops the broker.
            self._popen = subprocess.Popen(
                [*command, "kafka.Kafka", "server.properties"],
                cwd=self.data_dir,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._owner = os.getpid()
        atexit.register(self.stop)
        self._process = Process.of(self._popen.pid)
        if self._process is not None:
            self._process.write(self.data_dir / "broker.pid")
        if owner := Process.of(self._owner):
            owner.write(self.data_dir / "owner.pid")

    def _format(self, command: list[str]) -> None:
        process = subprocess.run(
            command, cwd=self.data_dir, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if process.returncode:
            raise SetupError(
                f"The storage of the Kafka broker in {self.data_dir} could not be formatted: {process.stderr.strip()}",
                OutsideAct("remove the cause, and start again"),
            )

    def _answers(self) -> bool:
        """Wait until this broker serves clients; False when it ended or took too long.

        A broker of another cluster may answer instead: one that has bound the port before this one, which then ends.
        """
        until = time.monotonic() + _START_SECONDS
        # Poll the port first: a Kafka client would log each refused connection.
        while not listens(self._port or 0):
            if self.pid is None or time.monotonic() > until:
                return False
            time.sleep(_POLL_SECONDS)
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        while self.pid is not None and time.monotonic() < until:
            try:
                # The broker lists itself when its controller has unfenced it.
                listed = admin.list_topics(timeout=5)
                if listed.cluster_id == self._recorded_cluster_id() and self._node in listed.brokers:
                    return True
            except KafkaException:
                pass
            time.sleep(_POLL_SECONDS)
        return False

    def _clear(self) -> None:
        if self._popen is not None:
            self._popen.wait()
        self._process = self._popen = None
        atexit.unregister(self.stop)
        for name in ("broker.pid", "owner.pid"):
            (self.data_dir / name).unlink(missing_ok=True)

    def _stop_orphan(self) -> None:
        orphan = Process.read(self.data_dir / "broker.pid")
        if orphan is None or not orphan.alive:
            return
        owner = Process.read(self.data_dir / "owner.pid")
        if owner is not None and owner.alive:
            raise SetupError(
                f"Process {owner.pid} runs a Kafka broker in {self.data_dir} (process {orphan.pid})",
                OutsideAct("stop it first"),
            )
        orphan.stop_group(_STOP_SECONDS)

    def _recorded_port(self) -> int | None:
        try:
            return int((self.data_dir / "port").read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None

    def _recorded_cluster_id(self) -> str:
        lines = (self.data_dir / "data" / "meta.properties").read_text(encoding="ascii").splitlines()
        return next(line.partition("=")[2] for line in lines if line.startswith("cluster.id="))

    def _log_tail(self) -> str:
        text = ""
        for name in ("console.log", "broker.log"):
            path = self.data_dir / "logs" / name
            if path.exists():
                text += path.read_text(encoding="utf-8", errors="replace")[-3000:]
        return text or "(empty)"


def _cluster_id() -> str:
    """16 random bytes in URL-safe base64 without padding, as Kafka's ``Uuid.randomUuid`` generates them.

    Ids that begin with a dash are excluded: ``kafka-storage`` would parse them as options.
    """
    while (cluster_id := base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")).startswith("-"):
        pass
    return cluster_id
