"""Downloads jars by exact coordinates with Apache Ivy, whose jar ships with PySpark.

Ivy resolves no dependencies here and reads no POM, so neither an incomplete local Maven repository nor a transitive
dependency can affect the result.
"""

from __future__ import annotations

import contextlib
import logging
import re
import subprocess
from typing import IO, TYPE_CHECKING
from xml.sax.saxutils import quoteattr

from tidegate.errors import SetupError
from tidegate.runtime import java, paths

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

log = logging.getLogger(__name__)

_SETTINGS = """<ivysettings>
  <settings defaultResolver="central" defaultConflictManager="all"/>
  <caches defaultCacheDir={cache} resolutionCacheDir={cache}
          artifactPattern="[organisation]/[artifact]-[revision].[ext]"/>
  <resolvers><ibiblio name="central" m2compatible="true" usepoms="false"/></resolvers>
</ivysettings>
"""
_MODULE = """<ivy-module version="2.0">
  <info organisation="tidegate" module="jars"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{dependencies}
  </dependencies>
</ivy-module>
"""
_DEPENDENCY = """    <dependency org={group} name={name} rev={version} transitive="false" conf="default->*">
      <artifact name={name} type="jar" ext="jar"/></dependency>"""
_ATTEMPTS = 3
_OUTPUT_LINES_KEPT = 15


class Progress:
    """Reports the progress of downloads; this base class reports nothing."""

    def start(self, jars: int, size: int) -> None:
        """The download of so many jars and bytes begins."""

    def downloaded(self, coordinate: str, size: int) -> None:
        """One jar of so many bytes was downloaded."""


class _LogLines(Progress):
    def start(self, jars: int, size: int) -> None:
        self._jars, self._done = jars, 0
        log.info("downloading %d jars (%.0f MB)", jars, size / 1e6)

    def downloaded(self, coordinate: str, size: int) -> None:
        self._done += 1
        log.info("  %d/%d %s (%.1f MB)", self._done, self._jars, coordinate, size / 1e6)


class _Bar(Progress):
    def __init__(self, stream: IO[str], exit_stack: contextlib.ExitStack) -> None:
        self._stream, self._exit_stack = stream, exit_stack

    def start(self, jars: int, size: int) -> None:
        # Imported here: importing rich takes as long as a whole set-up with nothing to do.
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
        from rich.progress import Progress as Bars

        columns = (TextColumn("jars"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
        bars = Bars(*columns, TextColumn("{task.description}"), console=Console(file=self._stream), transient=True)
        self._bars = self._exit_stack.enter_context(bars)
        self._task = bars.add_task("", total=size)

    def downloaded(self, coordinate: str, size: int) -> None:
        self._bars.update(self._task, advance=size, description=coordinate.split(":")[1])


@contextlib.contextmanager
def progress_for(stream: IO[str]) -> Iterator[Progress]:
    """A progress bar if the stream is a terminal, log lines otherwise; no output until a download starts."""
    with contextlib.ExitStack() as exit_stack:
        yield _Bar(stream, exit_stack) if stream.isatty() else _LogLines()


def retrieve(coordinates: Sequence[str], scratch: Path, on_download: Callable[[str], None]) -> dict[str, Path]:
    """Download jars by their exact coordinates.

    Args:
        coordinates: ``group:artifact:version`` of each jar.
        scratch: An empty folder for all files, including Ivy's cache.
        on_download: Called with the coordinate of each downloaded jar.

    Returns:
        Coordinate to file, for the jars that were downloaded.

    Raises:
        MissingJavaError: There is no Java to run Ivy with.
    """
    settings, module, cache = scratch / "settings.xml", scratch / "ivy.xml", scratch / "cache"
    settings.write_text(_SETTINGS.format(cache=quoteattr(str(cache))), encoding="utf-8")
    module.write_text(_MODULE.format(dependencies="\n".join(map(_dependency, coordinates))), encoding="utf-8")
    command = [
        *(str(java.find().executable), "-XX:TieredStopAtLevel=1", "-Djava.net.useSystemProxies=true"),
        *("-Dsun.net.client.defaultConnectTimeout=20000", "-Dsun.net.client.defaultReadTimeout=60000"),
        *("-cp", str(_ivy_jar()), "org.apache.ivy.Main"),
        *("-settings", str(settings), "-ivy", str(module)),
    ]
    reported: set[str] = set()

    def report_once(coordinate: str) -> None:
        if coordinate not in reported:
            reported.add(coordinate)
            on_download(coordinate)

    files = {coordinate: cache.joinpath(*_file_of(coordinate)) for coordinate in coordinates}
    for attempt in range(1, _ATTEMPTS + 1):
        # Downloaded jars stay in Ivy's cache, so another attempt downloads only the missing ones.
        last_lines = _run(command, report_once)
        if all(file.is_file() for file in files.values()):
            break
        log.warning("attempt %d of %d to download the jars was incomplete", attempt, _ATTEMPTS)
    else:
        log.error("%s", "\n".join(last_lines))
    return {coordinate: file for coordinate, file in files.items() if file.is_file()}


def _run(command: list[str], on_download: Callable[[str], None]) -> list[str]:
    """Run Ivy and return the end of its output. The caller checks the files instead of the exit code."""
    last_lines: list[str] = []
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        for line in process.stdout or ():
            # Ivy: "[SUCCESSFUL ] io.delta#delta-storage;4.4.0!delta-storage.jar (99ms)"
            if success := re.search(r"\[SUCCESSFUL \] ([^#\s]+)#([^;\s]+);([^!\s]+)!", line):
                on_download(":".join(success.groups()))
            # Ivy prints its own progress as lines of dots.
            if line.strip() and not line.startswith("."):
                last_lines = [*last_lines[1 - _OUTPUT_LINES_KEPT :], line.rstrip()]
    return last_lines


def _dependency(coordinate: str) -> str:
    group, artifact, version = map(quoteattr, coordinate.split(":"))
    return _DEPENDENCY.format(group=group, name=artifact, version=version)


def _file_of(coordinate: str) -> tuple[str, str]:
    group, artifact, version = coordinate.split(":")
    return group, f"{artifact}-{version}.jar"


def _ivy_jar() -> Path:
    candidates = sorted((paths.spark_home() / "jars").glob("ivy-*.jar"))
    if not candidates:
        raise SetupError("The installed PySpark has no Ivy jar: run `make setup` to install the pinned PySpark.")
    return candidates[-1]
