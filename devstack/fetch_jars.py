"""Fetches the pinned jars at set-up; jobs download nothing.

jgo, a Maven client in Python, downloads them by their exact coordinates, without their dependencies: from Maven Central, or
from the repository that ``TIDEGATE_MAVEN_REPOSITORY`` names. Proxies and passwords are those of the environment
(``HTTPS_PROXY``, ``~/.netrc``). The jars are stored in a cache that all clones share and linked into the git-ignored
``jars/spark``, ``jars/s3`` and ``jars/broker``. Each fetch compares every jar with the sha256 in ``jars.lock.json``. On a machine without a
network, the jars can be copied into the cache by hand.

Usable as ``python -m devstack.fetch_jars``.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import logging
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.advice import Either, OutsideAct
from tidegate.errors import SetupError, TidegateError
from tidegate.runtime import jars, paths

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from tidegate.runtime.jars import Jar

log = logging.getLogger(__name__)

_ATTEMPTS = 3
_SILENCE_SECONDS = 60
"""A connection on which nothing arrives for so long counts as broken."""


def fetch(project_root: Path) -> int:
    """Fill ``jars/spark``, ``jars/s3`` and ``jars/broker`` with exactly the pinned jars.

    All jars are verified before the first one is installed. Each file is installed atomically.

    Returns:
        How many jars were installed: 0 when none was missing.

    Raises:
        SetupError: A jar cannot be downloaded, or has another checksum.
    """
    sets = jars.pinned(project_root)
    wanted = {
        jar: paths.jars_dir(project_root, set_name) / jar.file_name
        for set_name, pinned in sets.items()
        for jar in pinned
    }
    lacking = {jar: target for jar, target in wanted.items() if _sha256(target) != jar.sha256}
    if downloads := [jar for jar in lacking if _sha256(_cached(jar)) != jar.sha256]:
        _download(downloads)
    for jar, target in lacking.items():
        _install(_cached(jar), target)
    for set_name in sets:
        _remove_others(paths.jars_dir(project_root, set_name), wanted.values())
    return len(lacking)


def cache_dir() -> Path:
    """The cache that all clones on this machine share: ``$TIDEGATE_CACHE``, else the user's own cache folder."""
    chosen = os.environ.get("TIDEGATE_CACHE")
    if chosen:
        return Path(chosen).expanduser().absolute()
    # The XDG specification says to ignore relative paths.
    shared = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (shared if shared.is_absolute() else Path.home() / ".cache") / "tidegate"


def _cached(jar: Jar) -> Path:
    return cache_dir() / "jars" / jar.coordinate.split(":")[0] / jar.file_name


def _sha256(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def _download(downloads: Sequence[Jar]) -> None:
    """Download jars into the cache. Each jar is there as soon as it is verified, so another attempt downloads less."""
    shared = cache_dir() / "jars"
    shared.mkdir(parents=True, exist_ok=True)
    problems = []
    # In the cache and not in /tmp, so that a jar moves into the cache with one rename.
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=shared) as scratch, _progress(downloads) as report:
        for jar in downloads:
            try:
                file = _retrieve(jar.coordinate, Path(scratch))
            except RuntimeError:
                problems.append(f"{jar.coordinate} could not be downloaded: the repository does not deliver it")
                continue
            except OSError as error:
                # The other jars would fail too, each after several time-outs.
                problems.append(f"{jar.coordinate} could not be downloaded: {error}")
                break
            if (checksum := _sha256(file)) != jar.sha256:
                size = file.stat().st_size
                problems.append(f"{jar.coordinate} has sha256 {checksum} ({size} bytes), not {jar.sha256}")
                continue
            _cached(jar).parent.mkdir(parents=True, exist_ok=True)
            file.replace(_cached(jar))
            report(jar)
    if problems:
        raise SetupError(
            f"{'; '.join(problems)}. No jar was installed.",
            Either(
                OutsideAct(
                    "if the network is the cause, try again (HTTPS_PROXY sets a proxy, TIDEGATE_MAVEN_REPOSITORY another Maven repository)"
                ),
                OutsideAct(f"copy the jar into {shared}/<group>/"),
                OutsideAct("if a checksum is wrong repeatedly, find out why before you change jars.lock.json"),
            ),
        )


def _retrieve(coordinate: str, folder: Path) -> Path:
    """Download one jar to a path below a folder.

    Raises:
        RuntimeError: The repository answers without the jar.
        OSError: The repository does not answer, the connection breaks, or the file cannot be written.
    """
    for attempt in range(1, _ATTEMPTS):
        try:
            return _resolve(coordinate, folder / str(attempt))
        except (RuntimeError, OSError):
            log.warning("attempt %d of %d to download %s failed", attempt, _ATTEMPTS, coordinate)
            time.sleep(attempt)
    return _resolve(coordinate, folder / "last")


def _resolve(coordinate: str, folder: Path) -> Path:
    """One attempt, in a folder of its own: jgo would use the incomplete file of the previous attempt."""
    # Imported here: it takes as long as a whole set-up with nothing to do.
    from jgo.maven import MavenContext

    repository = os.environ.get("TIDEGATE_MAVEN_REPOSITORY")
    context = MavenContext(
        repo_cache=folder,
        remote_repos={"repository": repository.rstrip("/")} if repository else None,
        timeout=_SILENCE_SECONDS,
    )
    group, artifact, version = coordinate.split(":")
    return context.project(group, artifact).at_version(version).artifact().resolve()


@contextlib.contextmanager
def _progress(downloads: Sequence[Jar]) -> Iterator[Callable[[Jar], None]]:
    """A function to call with each downloaded jar, for a progress bar in a terminal and log lines elsewhere."""
    count, size = len(downloads), sum(jar.size for jar in downloads)
    if not sys.stderr.isatty():
        log.info("downloading %d jars (%.0f MB)", count, size / 1e6)
        numbers = itertools.count(1)
        yield lambda jar: log.info("  %d/%d %s (%.1f MB)", next(numbers), count, jar.coordinate, jar.size / 1e6)
        return
    # Imported here, as jgo is.
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (TextColumn("jars"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, TextColumn("{task.description}"), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=size)
        yield lambda jar: bar.update(task, advance=jar.size, description=jar.file_name)


def _install(cached: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    # A temporary name and a rename, so that a starting job never reads an incomplete jar.
    part = target.with_name(f".{target.name}.{os.getpid()}")
    part.unlink(missing_ok=True)
    try:
        os.link(cached, part)
    except OSError:
        # Another file system. Keeps the modification time, for which class data archives are valid.
        shutil.copy2(cached, part)
    part.replace(target)


def _remove_others(folder: Path, wanted: Iterable[Path]) -> None:
    """Remove the jars of earlier versions, which a wildcard class path would include."""
    keep = set(wanted)
    for path in folder.glob("*.jar"):
        if path not in keep:
            path.unlink()


def main(project_root: Path) -> int:
    """Fetch the missing jars and log the result in one line; returns the exit code."""
    logging.basicConfig(format="%(message)s", level=logging.INFO, stream=sys.stderr)
    try:
        count = fetch(project_root)
    except TidegateError as error:
        log.error("%s", error)
        return error.exit_code
    if count:
        log.info("%d jars were installed", count)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path.cwd()))
