"""Fetches the pinned jars at set-up. Jobs download nothing.

The jars are downloaded from Maven Central with Apache Ivy, whose own jar ships with PySpark, so only Java has to be
installed. They are stored in a cache that all clones share and linked into the git-ignored ``jars/spark`` and
``jars/broker``. Each fetch compares every jar with the sha256 in ``jars.lock.json``. On a machine without a network, the jars
can be copied into the cache by hand.

Usable as ``python -m devstack.fetch_jars``.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from devstack import ivy
from tidegate.errors import SetupError, TidegateError
from tidegate.runtime import jars, paths

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidegate.runtime.jars import Jar

log = logging.getLogger(__name__)


def fetch(project_root: Path, progress: ivy.Progress | None = None) -> int:
    """Fill ``jars/spark`` and ``jars/broker`` with exactly the pinned jars.

    All jars are verified before the first one is installed. Each file is installed atomically.

    Args:
        progress: Reports the downloads; by default they are not reported.

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
    _download([jar for jar in lacking if _sha256(_cached(jar)) != jar.sha256], progress or ivy.Progress())
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


def _download(wanted: list[Jar], progress: ivy.Progress) -> None:
    if not wanted:
        return
    shared = cache_dir() / "jars"
    shared.mkdir(parents=True, exist_ok=True)
    # In the cache and not in /tmp, so that a jar moves into the cache with one rename.
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=shared) as scratch:
        progress.start(len(wanted), sum(jar.size for jar in wanted))
        sizes = {jar.coordinate: jar.size for jar in wanted}
        fetched = ivy.retrieve(list(sizes), Path(scratch), lambda name: progress.downloaded(name, sizes[name]))
        problems = []
        for jar in wanted:
            file = fetched.get(jar.coordinate)
            checksum = file and _sha256(file)
            if file is None:
                problems.append(f"{jar.coordinate} could not be downloaded")
            elif checksum != jar.sha256:
                size = file.stat().st_size
                problems.append(f"{jar.coordinate} has sha256 {checksum} ({size} bytes), not {jar.sha256}")
            else:
                # Also when another jar fails, so that the next attempt downloads less.
                _cached(jar).parent.mkdir(parents=True, exist_ok=True)
                file.replace(_cached(jar))
        if problems:
            raise SetupError(
                f"{'; '.join(problems)}. No jar was installed. If the network is the cause, try again (proxy settings "
                f"go into JAVA_TOOL_OPTIONS) or copy the jar into {shared}/<group>/. If a checksum is wrong repeatedly, "
                f"find out why before you change jars.lock.json."
            )


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
        with ivy.progress_for(sys.stderr) as progress:
            count = fetch(project_root, progress)
    except TidegateError as error:
        log.error("%s", error)
        return error.exit_code
    if count:
        log.info("%d jars were installed", count)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path.cwd()))
