"""Writers in JVMs of their own that race for the same names, without Spark: what was acknowledged, and what is there in the end."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.fs
import pytest

from devstack import build_jar
from tests.s3_server import S3Process
from tests.store.buckets import arrow_files
from tests.store.proxy import S3Proxy, ServerFault
from tidegate.errors import SetupError
from tidegate.runtime import jars, java, job_environment
from tidegate.store.s3 import S3Server

PROJECT = Path(__file__).parents[2]
FAULTS: tuple[tuple[int, str, bool], ...] = (
    (0, "", True),
    (0, "", False),
    (500, "InternalError", True),
    (500, "InternalError", False),
    (503, "SlowDown", False),
    (409, "ConditionalRequestConflict", False),
)
"""Of a write: the status of the answer, 0 for a reset; its code; whether the write had its effect, so that its acknowledgement is lost."""
NAME = re.compile(r"/(?:(\d+)/_delta_log/)?(\d+)(?:\.json)?$")
"""Of a commit of a table, or of an offset."""
FOLDERS = {"commits": "tables", "offsets": "checkpoint/offsets"}


@dataclass(frozen=True)
class Race:
    """How a race ended."""

    acknowledged: tuple[tuple[str, str], ...]
    """The file, ``<table>/<version>`` or a number, and the writer that was told that it created the file."""
    failed: int
    """Writes that ended with an error: they may have happened."""
    present: dict[str, str]
    """The content of each file that is there."""

    @property
    def lost(self) -> int:
        """Writes that were acknowledged, and whose content is not there."""
        return sum(self.present.get(name) != writer for name, writer in self.acknowledged)

    @property
    def winners(self) -> Counter[str]:
        """How many writers were told that they created a file, by its name."""
        return Counter(name for name, _ in self.acknowledged)


def fail_in_turn(proxy: S3Proxy, paths: Iterable[str]) -> list[ServerFault]:
    """Let the first write of each file meet one of `FAULTS`, the next one each time.

    Args:
        proxy: Before the server.
        paths: A regular expression for each file.
    """
    faults = zip(paths, itertools.cycle(FAULTS), strict=False)
    return [
        proxy.fail(ServerFault("PUT", path, status=status, code=code, after=after))
        for path, (status, code, after) in faults
    ]


def compiled(folder: Path, name: str) -> list[str]:
    """Compile a program beside this module.

    Args:
        folder: For the class files.
        name: Its class.

    Returns:
        The command that runs it, without arguments.
    """
    libraries = [jars.class_path(PROJECT, "spark"), jars.class_path(PROJECT, "s3"), str(jars.OWN_JAR)]
    class_path = os.pathsep.join([str(folder), str(job_environment.spark_home() / "jars" / "*"), *libraries])
    try:
        compiler = build_jar.compiler()
    except SetupError as error:
        pytest.skip(str(error))
    subprocess.run([compiler, "-d", folder, "-cp", class_path, Path(__file__).with_name(f"{name}.java")], check=True)
    options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-cp", class_path]
    return [str(java.find().executable), *options, name]


def settings_file(file: Path, settings: Mapping[str, str]) -> str:
    """The path of a new file with settings of Hadoop, as the programs read them."""
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return str(file)


class Writers:
    """Compiled once, started for each race.

    Args:
        folder: For the class files and settings.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._command = compiled(folder, "Writers")

    def race(
        self,
        kind: str,
        implementation: str,
        server: S3Process,
        endpoint: str = "",
        *,
        processes: int,
        threads: int,
        each: int,
        settings: Mapping[str, str] | None = None,
    ) -> Race:
        """Let writers race in a new bucket, and wait for all of them.

        Args:
            kind: ``commits`` to logs of Delta, 200 to each one, each writer as fast as it can, or ``offsets`` of a checkpoint, all at
                the same time.
            implementation: The class of the log store or of the checkpoint files.
            server: The server.
            endpoint: The address of something in front of the server.
            each: Writes of each writer.
            settings: Hadoop's, beside those of the server.
        """
        bucket = server.new_bucket()
        variables = {**server.variables, "AWS_ENDPOINT_URL_S3": endpoint or server.endpoint}
        hadoop = S3Server(variables).hadoop_settings | dict(settings or {})
        file = settings_file(self._folder / f"{bucket}.settings", hadoop)
        command = [*self._command, kind, implementation, f"s3a://{bucket}/{FOLDERS[kind]}"]
        started = [
            subprocess.Popen(
                [*command, f"w{number}", str(threads), str(each), file],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, **variables},
            )
            for number in range(processes)
        ]
        # All begin when the last one is ready.
        for process in started:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
        for process in started:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        outputs = [process.communicate()[0] for process in started]
        assert [process.returncode for process in started] == [0] * processes
        return _ended(
            [line.split() for output in outputs for line in output.splitlines()],
            _contents(server, bucket, FOLDERS[kind]),
        )


def _ended(lines: Sequence[Sequence[str]], present: dict[str, str]) -> Race:
    acknowledged = tuple((number, writer) for number, writer, outcome in lines if outcome == "acknowledged")
    return Race(acknowledged=acknowledged, failed=len(lines) - len(acknowledged), present=present)


def _contents(server: S3Process, bucket: str, folder: str) -> dict[str, str]:
    """The content of each file of the logs, by its table and version, or of each file of offsets by its number."""
    files = arrow_files(server)
    entries = files.get_file_info(pyarrow.fs.FileSelector(f"{bucket}/{folder}", allow_not_found=True, recursive=True))
    present = {}
    for info in entries:
        if info.is_file and (name := NAME.search(info.path)):
            table, number = name.groups()
            content = files.open_input_stream(info.path).read().decode().strip()
            present[f"{table}/{int(number)}" if table else number] = content
    return present
