"""Writers in JVMs of their own that race for the same names, without Spark: what was acknowledged, and what is there in the end."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.fs
import pytest

from devstack import build_jar
from tests.s3_server import S3Process
from tests.store.buckets import arrow_files
from tidegate.errors import SetupError
from tidegate.runtime import jars, java, job_environment
from tidegate.store.s3 import S3Server

PROJECT = Path(__file__).parents[2]
FOLDERS = {"commits": "table/_delta_log", "offsets": "checkpoint/offsets"}


@dataclass(frozen=True)
class Race:
    """How a race ended."""

    acknowledged: tuple[tuple[str, str], ...]
    """Name of the file, and the writer that was told that it created the file."""
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
            kind: ``commits`` to a log of Delta, each writer as fast as it can, or ``offsets`` of a checkpoint, all at the same time.
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
    """The content of each file of a log, by its number."""
    files = arrow_files(server)
    entries = files.get_file_info(pyarrow.fs.FileSelector(f"{bucket}/{folder}", allow_not_found=True))
    return {
        str(int(info.base_name.removesuffix(".json"))): files.open_input_stream(info.path).read().decode().strip()
        for info in entries
        if info.base_name.removesuffix(".json").isdigit()
    }
