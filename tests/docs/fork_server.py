"""Runs `tidegate` and its Spark applications in processes that are forked from one that has imported everything.

A command of a few rows takes seconds to import its packages and to start a JVM, and a fraction of one to do its work. In a shell
whose `PATH` begins with `ForkServer.commands`, `tidegate` is a small program that hands its arguments, environment, folder and open
files to the server, and ends with the exit code of the process that the server forks. That process runs the command from its `main`
on: it imports the project itself, prints and exits as the command does, and what it caches ends with it. An application that it
starts is forked in the same way, and uses the JVM of the tests.

Functions of a project that run in Spark's Python workers are not found: these were started without the project.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import runpy
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from tidegate.processes import end_group

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CLIENT = """#!{python} -IS
import json, os, socket, sys

connection = socket.socket(socket.AF_UNIX)
connection.connect({address!r})
socket.send_fds(connection, [b"0"], [0, 1, 2])
request = {{"program": {program!r}, "argv": sys.argv[1:], "folder": os.getcwd(), "variables": dict(os.environ)}}
connection.sendall(json.dumps(request).encode())
connection.shutdown(socket.SHUT_WR)
code = connection.recv(16)
sys.exit(int(code) if code else "the fork server has ended")
"""
_JVM = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")
"""With these variables PySpark connects to a JVM, as under spark-submit."""
SAME_LAKE = "TEST_LAKE"
"""A variable: of commands with one value of it, only the first forgets what Delta has cached of tables in the JVM."""
_PACKAGES = ("tidegate.cli", "tidegate.spark", "tidegate.planning", "tidegate.status", "tidegate.trace")
_LIBRARIES = ("deltalake", "duckdb", "pandas", "pyarrow.dataset", "great_expectations", "jinja2")


class ForkServer:
    """A running server.

    Args:
        folder: An empty folder, for its socket and the programs that call it.
        spark: The session whose JVM the applications use.
    """

    def __init__(self, folder: Path, spark: SparkSession) -> None:
        self.commands = folder / "bin"
        """The folder of `tidegate`, to be the first of a shell's `PATH`."""
        gateway: Any = spark.sparkContext._gateway
        self._gateway = gateway
        address = folder / "socket"
        self.commands.mkdir()
        for program in ("tidegate", "spark-submit"):
            client = self.commands / program
            client.write_text(_CLIENT.format(python=sys.executable, address=str(address), program=program))
            client.chmod(0o755)
        parameters = gateway.gateway_parameters
        jvm = dict(zip(_JVM, (str(parameters.port), parameters.auth_token), strict=True))
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(address))
            listening.listen()
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(listening.fileno()), str(self.commands)],
                cwd=Path(__file__).parents[2],
                env={**os.environ, **jvm, "GX_ANALYTICS_ENABLED": "false"},
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                pass_fds=[listening.fileno()],
                start_new_session=True,
            )

    def stop(self) -> None:
        """End the server with all that it has forked; the JVM calls this process again."""
        end_group(self._process.pid, grace=0)
        self._process.communicate()
        if self._gateway.__dict__.get("_callback_server") is not None:
            from py4j.java_gateway import JavaObject

            server: Any = JavaObject("GATEWAY_SERVER", self._gateway._gateway_client)
            server.resetCallbackClient(server.getCallbackClient().getAddress(), self._gateway._python_proxy_port)


@contextmanager
def running(folder: Path, spark: SparkSession) -> Iterator[ForkServer]:
    """A server that ends with the context."""
    server = ForkServer(folder, spark)
    try:
        yield server
    finally:
        server.stop()


def _serve(listening: socket.socket, commands: Path) -> NoReturn:
    """Fork a process for each connection."""
    sys.path.remove(str(Path.cwd()))
    _import_everything()
    _use_the_running_jvm()
    _start_applications_with(commands / "spark-submit")
    # What is compiled here is in no file: an edit within a second that keeps the size of a file is read again.
    sys.dont_write_bytecode = True
    jvm = {name: os.environ[name] for name in _JVM}
    # Standard input ends with the process of the tests, also if that is killed.
    while sys.stdin not in select.select([listening, sys.stdin], [], [])[0]:
        connection, _ = listening.accept()
        with connection:
            if os.fork() == 0:
                listening.close()
                _answer(connection, jvm)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
    os._exit(0)


def _answer(connection: socket.socket, jvm: dict[str, str]) -> NoReturn:
    """Fork the process of one request and answer with its exit code."""
    _, files, _, _ = socket.recv_fds(connection, 1, 3)
    received = bytearray()
    while part := connection.recv(1 << 16):
        received += part
    request = json.loads(received)
    child = os.fork()
    if child == 0:
        connection.close()
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        _number_proxies()
        _run(request, jvm)
    for file in files:
        os.close(file)
    _, status = os.waitpid(child, 0)
    with suppress(OSError):  # the one who asks may have been ended
        connection.sendall(str(os.waitstatus_to_exitcode(status) % 256).encode())
    os._exit(0)


def _number_proxies() -> None:
    """Give the Python objects that the JVM calls numbers that no process before had.

    The JVM collects those of an ended process at some later time, and tells the process that is connected then which number it
    may forget. Each process begins at 0 by itself, so it would forget an object that is in use.
    """
    from py4j.java_gateway import PythonProxyPool

    def starts_at_own_number(pool: Any, create: Any = PythonProxyPool.__init__) -> None:
        create(pool)
        pool.next_id = os.getpid() << 32

    PythonProxyPool.__init__ = starts_at_own_number


def _run(request: dict[str, Any], jvm: dict[str, str]) -> NoReturn:
    """Become the process of the program."""
    os.environ.clear()
    os.environ.update(request["variables"] | jvm)
    os.chdir(request["folder"])
    sys.path_importer_cache.clear()
    sys.path[:0] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    try:
        if request["program"] == "tidegate":
            sys.argv = ["tidegate", *request["argv"]]
            importlib.import_module("tidegate.cli").main()
        script = next(number for number, each in enumerate(request["argv"]) if each.endswith(".py"))
        sys.argv = request["argv"][script:]
        runpy.run_path(sys.argv[0], run_name="__main__")
    finally:
        # Neither leaves without `exit_now`.
        os._exit(1)


def _import_everything() -> None:
    for name in _LIBRARIES:
        importlib.import_module(name)
    for name in _PACKAGES:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            importlib.import_module(module.name)
    assert not {"pipelines", "spark_jobs"} & {*sys.modules}


def _use_the_running_jvm() -> None:
    """Let a process use the context of the JVM, and leave it running."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from tidegate.spark.driver import session
    from tidegate.testing.session import ONE_TASK, SMALL_DATA_CONF

    def running_context(context: Any, _: Any) -> Any:
        names = context._jvm
        lake = os.environ.get(SAME_LAKE, "")
        if names.System.setProperty(SAME_LAKE, lake) != lake or not lake:
            # Delta caches the log of each path in the JVM, and this may be another table at the path of one before.
            names.org.apache.spark.sql.delta.DeltaLog.clearCache()
        return names.JavaSparkContext.fromSparkContext(names.org.apache.spark.SparkContext.getOrCreate())

    SparkContext._initialize_context = running_context  # type: ignore[method-assign,assignment]
    SparkSession.stop = lambda self: None  # type: ignore[method-assign]
    session.SETTINGS |= SMALL_DATA_CONF | ONE_TASK


def _start_applications_with(submit: Path) -> None:
    from tidegate.requests import launch

    command = launch.command

    def forked(*application: Any) -> list[str]:
        return [str(submit), *command(*application)[1:]]

    launch.command = forked  # type: ignore[assignment]


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])), Path(sys.argv[2]))
