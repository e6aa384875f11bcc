"""Apache Ivy from the jar that PySpark ships, as a downloader of exactly named jars, without any other tool.

Ivy resolves nothing here: no POM is read, so neither a half-filled local Maven repository nor a dependency of a
dependency can change or break what is fetched.
"""

from __future__ import annotations

import contextlib
import logging
import re
import subprocess
from typing import IO, TYPE_CHECKING
from xml.sax.saxutils import quoteattr

from tidegate.embedded import java, places
from tidegate.errors import SetupError

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
    """Is told about downloads; this one says nothing."""

    def start(self, jars: int, size: int) -> None:
        """So many jars and bytes will be downloaded."""

    def got(self, coordinate: str, size: int) -> None:
        """One jar of so many bytes has arrived."""


class _LogLines(Progress):
    def start(self, jars: int, size: int) -> None:
        self._jars, self._arrived = jars, 0
        log.info("downloading %d jars (%.0f MB)", jars, size / 1e6)

    def got(self, coordinate: str, size: int) -> None:
        self._arrived += 1
        log.info("  %d/%d %s (%.1f MB)", self._arrived, self._jars, coordinate, size / 1e6)


class _Bar(Progress):
    def __init__(self, stream: IO[str], until_the_end: contextlib.ExitStack) -> None:
        self._stream, self._until_the_end = stream, until_the_end

    def start(self, jars: int, size: int) -> None:
        # Imported late: rich costs as much as all the rest of a set-up that finds everything there.
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
        from rich.progress import Progress as Bars

        columns = (TextColumn("jars"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
        bars = Bars(*columns, TextColumn("{task.description}"), console=Console(file=self._stream), transient=True)
        self._bars = self._until_the_end.enter_context(bars)
        self._task = bars.add_task("", total=size)

    def got(self, coordinate: str, size: int) -> None:
        self._bars.update(self._task, advance=size, description=coordinate.split(":")[1])


@contextlib.contextmanager
def progress_for(stream: IO[str]) -> Iterator[Progress]:
    """A progress bar when the stream is a terminal, log lines otherwise; nothing at all while nothing is downloaded."""
    with contextlib.ExitStack() as until_the_end:
        yield _Bar(stream, until_the_end) if stream.isatty() else _LogLines()


def retrieve(coordinates: Sequence[str], scratch: Path, got: Callable[[str], None]) -> dict[str, Path]:
    """Downloads jars by their exact coordinates.

    Args:
        coordinates: ``group:artifact:version`` of each jar.
        scratch: An empty folder of the caller's; everything is written in there, Ivy's cache too.
        got: Called with the coordinate when a jar has arrived.

    Returns:
        Coordinate to file, for those that could be fetched.

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
    arrived: set[str] = set()

    def told(coordinate: str) -> None:
        if coordinate not in arrived:
            arrived.add(coordinate)
            got(coordinate)

    files = {coordinate: cache.joinpath(*_file_of(coordinate)) for coordinate in coordinates}
    for attempt in range(1, _ATTEMPTS + 1):
        # What has arrived stays in Ivy's cache of this call, so another attempt asks only for the rest.
        last_lines = _run(command, told)
        if all(file.is_file() for file in files.values()):
            break
        log.warning("attempt %d of %d to download jars did not get all of them", attempt, _ATTEMPTS)
    else:
        log.error("%s", "\n".join(last_lines))
    return {coordinate: file for coordinate, file in files.items() if file.is_file()}


def _run(command: list[str], told: Callable[[str], None]) -> list[str]:
    """Runs Ivy and returns the end of what it said; its exit code says less than the files that are there."""
    last_lines: list[str] = []
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as running:
        for line in running.stdout or ():
            # Ivy: "[SUCCESSFUL ] io.delta#delta-storage;4.4.0!delta-storage.jar (99ms)"
            if arrived := re.search(r"\[SUCCESSFUL \] ([^#\s]+)#([^;\s]+);([^!\s]+)!", line):
                told(":".join(arrived.groups()))
            # Its own progress is lines of dots.
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
    found = sorted((places.spark_home() / "jars").glob("ivy-*.jar"))
    if not found:
        raise SetupError("The installed PySpark has no Ivy jar: run `make setup` to install the pinned one.")
    return found[-1]
