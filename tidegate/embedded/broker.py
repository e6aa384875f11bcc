"""A real single-node Kafka broker on loopback, for the demo and the tests: the pinned jars, a JVM, no container.

::

    with Broker(folder, class_path=jars.class_path(project_root, "broker")) as broker:
        broker.create_topic("clicks", partitions=3)
        producer = Producer({"bootstrap.servers": broker.bootstrap})

The folder holds everything: ``data/`` (kept over restarts), ``logs/``, the configuration, and who runs on it.
"""

from __future__ import annotations

import atexit
import base64
import os
import secrets
import subprocess
import time
from typing import TYPE_CHECKING, Self

from tidegate.embedded import broker_files, java
from tidegate.embedded.ports import free_port, is_free, listens
from tidegate.embedded.processes import Process
from tidegate.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_HEAP = "512m"
_START_SECONDS = 90.0
_STOP_SECONDS = 20.0
_POLL_SECONDS = 0.1
_PORT_ATTEMPTS = 3


class Broker:
    """One broker on one folder. ``start`` and ``stop`` may alternate; what was written stays.

    Args:
        data_dir: The folder of this broker alone; made when it is missing.
        class_path: The jars of the ``broker`` set.
        port: Where clients connect, on 127.0.0.1. By default the port it had last time if that is free, else any.
    """

    def __init__(self, data_dir: Path, *, class_path: str, port: int | None = None) -> None:
        self.data_dir = data_dir.absolute()
        self._class_path = class_path
        self._wanted_port = port
        self._port: int | None = None
        self._popen: subprocess.Popen[bytes] | None = None
        self._process: Process | None = None
        self._owner = os.getpid()

    @property
    def bootstrap(self) -> str:
        """``host:port`` for clients.

        Raises:
            RuntimeError: It was never started, so it has no port yet.
        """
        if self._port is None:
            raise RuntimeError("The broker was not started: it has no port yet.")
        return f"127.0.0.1:{self._port}"

    @property
    def pid(self) -> int | None:
        """The process id of the running broker, which leads a process group of its own; None when it does not run."""
        return self._process.pid if self._process and self._process.alive else None

    def start(self) -> Self:
        """Starts it and waits until it answers. A broker that a killed process left on this folder is stopped first.

        Raises:
            MissingJavaError: There is no Java.
            SetupError: Another living process runs a broker on this folder, or it did not come up; the message holds
                the end of its log.
        """
        if self.pid is not None:
            return self
        self._stop_left_over()
        for folder in (self.data_dir, self.data_dir / "logs"):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for attempt in range(1, _PORT_ATTEMPTS + 1):
            self._port = self._wanted_port or self._last_port() or free_port()
            self._launch(self._port)
            if self._answers():
                (self.data_dir / "port").write_text(f"{self._port}\n", encoding="ascii")
                return self
            told = self._log_tail()
            self.stop()
            # Between our choice of a free port and the broker's bind, somebody else may take it.
            if self._wanted_port or "BindException" not in told or attempt == _PORT_ATTEMPTS:
                break
            (self.data_dir / "port").unlink(missing_ok=True)
        raise SetupError(f"The Kafka broker in {self.data_dir} did not come up. The end of its log:\n{told}")

    def stop(self) -> None:
        """Stops it, by its own id: SIGTERM, and SIGKILL after 20 s. Does nothing when it does not run."""
        # A forked child has this object too, and must not stop the broker of its parent when it ends.
        if self._process is None or self._owner != os.getpid():
            return
        self._process.stop_group(_STOP_SECONDS)
        self._forget()

    def leave_running(self) -> None:
        """Lets it run on when this process ends; `take_over` finds it again."""
        atexit.unregister(self.stop)
        (self.data_dir / "owner.pid").unlink(missing_ok=True)

    def take_over(self) -> bool:
        """Makes a broker that somebody left running on this folder this object's own; ``stop`` then stops it.

        Returns:
            Whether there is one that answers.
        """
        left, owner = Process.read(self.data_dir / "broker.pid"), Process.read(self.data_dir / "owner.pid")
        port = self._recorded_port()
        if left is None or not left.alive or (owner is not None and owner.alive) or port is None:
            return False
        self._process, self._port, self._owner = left, port, os.getpid()
        return listens(port)

    def kill(self) -> None:
        """Ends it at once and without a goodbye, as a crash would. For tests; ``start`` brings it back."""
        if self._process is not None:
            self._process.kill_group()
            self._forget()

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> bool:
        """Makes a topic and waits until it is there.

        Args:
            name: Its name.
            partitions: How many partitions it gets.
            config: Settings of the topic, for example ``{"retention.ms": "1000"}``.

        Returns:
            Whether it was made; False when there was one of this name.

        Raises:
            confluent_kafka.KafkaException: The broker refuses.
            SetupError: It made the topic and does not show it.
        """
        from confluent_kafka import KafkaError, KafkaException
        from confluent_kafka.admin import AdminClient
        from confluent_kafka.cimpl import NewTopic

        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(config or {}))
        try:
            admin.create_topics([topic], operation_timeout=30)[name].result(timeout=60)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return False
            raise
        # The controller knows it; the broker that clients ask hears of it a moment later.
        until = time.monotonic() + _START_SECONDS
        while len(admin.list_topics(topic=name, timeout=30).topics[name].partitions) < partitions:
            if time.monotonic() > until:
                raise SetupError(f"The Kafka broker at {self.bootstrap} does not show the topic {name} that it made.")
            time.sleep(_POLL_SECONDS)
        return True

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    # ------------------------------------------------------------------------------------------------------- private

    def _launch(self, port: int) -> None:
        broker_files.write(self.data_dir, port=port, controller_port=free_port(taken=port))
        command = [
            *(str(java.find().executable), f"-Xmx{_HEAP}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *("-Djava.awt.headless=true", "-Dlog4j2.configurationFile=log4j2.properties", "-cp", self._class_path),
        ]
        if not (self.data_dir / "data" / "meta.properties").exists():
            storage_tool = (*command, "kafka.tools.StorageTool", "format", "-c", "server.properties")
            self._format([*storage_tool, "-t", _cluster_id()])
        with (self.data_dir / "logs" / "console.log").open("wb") as console:
            # A session of its own: Ctrl-C in the terminal is for the parent, which then stops the broker in order.
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
        done = subprocess.run(
            command, cwd=self.data_dir, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SetupError(f"The storage of the Kafka broker in {self.data_dir} could not be made: {done.stderr}")

    def _answers(self) -> bool:
        """Waits until clients are served; False when the broker ended or took too long."""
        until = time.monotonic() + _START_SECONDS
        # First the bare port: a Kafka client would log each refused connection.
        while not listens(self._port or 0):
            if self.pid is None or time.monotonic() > until:
                return False
            time.sleep(_POLL_SECONDS)
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        while self.pid is not None and time.monotonic() < until:
            try:
                # The broker lists itself only when its controller lets it serve.
                if admin.list_topics(timeout=5).brokers:
                    return True
            except KafkaException:
                time.sleep(_POLL_SECONDS)
        return False

    def _forget(self) -> None:
        if self._popen is not None:
            self._popen.wait()
        self._process = self._popen = None
        atexit.unregister(self.stop)
        for name in ("broker.pid", "owner.pid"):
            (self.data_dir / name).unlink(missing_ok=True)

    def _stop_left_over(self) -> None:
        left = Process.read(self.data_dir / "broker.pid")
        if left is None or not left.alive:
            return
        owner = Process.read(self.data_dir / "owner.pid")
        if owner is not None and owner.alive:
            raise SetupError(
                f"Process {owner.pid} runs a Kafka broker on {self.data_dir} (process {left.pid}): stop that one first."
            )
        left.stop_group(_STOP_SECONDS)

    def _recorded_port(self) -> int | None:
        try:
            return int((self.data_dir / "port").read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None

    def _last_port(self) -> int | None:
        port = self._recorded_port()
        return port if port is not None and is_free(port) else None

    def _log_tail(self) -> str:
        told = ""
        for name in ("console.log", "broker.log"):
            path = self.data_dir / "logs" / name
            if path.exists():
                told += path.read_text(encoding="utf-8", errors="replace")[-3000:]
        return told or "(empty)"


def _cluster_id() -> str:
    """16 random bytes in URL-safe base64 without padding, as Kafka's ``Uuid.randomUuid`` draws them.

    One that begins with a dash is drawn again: ``kafka-storage`` takes it for an option.
    """
    while (drawn := base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")).startswith("-"):
        pass
    return drawn
