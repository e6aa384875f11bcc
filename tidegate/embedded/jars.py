"""Fetches the pinned jars at set-up and builds class paths from them. Jobs download nothing.

The jars are downloaded from Maven Central with Apache Ivy, whose own jar ships with PySpark, so only Java has to be
installed. They are stored in a cache that all clones share and linked into the git-ignored ``jars/spark`` and
``jars/broker``. Each fetch compares every jar with the sha256 in ``jars.lock.json``. On a machine without a network, the jars
can be copied into the cache by hand.

Usable as ``python -m tidegate.embedded.jars``.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.embedded import ivy, paths
from tidegate.errors import SetupError, TidegateError

if TYPE_CHECKING:
    from collections.abc import Iterable

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Jar:
    """One pinned jar."""

    coordinate: str
    """``group:artifact:version``, as Maven writes it."""
    sha256: str
    """The checksum of the file, in hex."""
    size: int
    """Bytes."""

    @property
    def file_name(self) -> str:
        """The name of its file in the class path folder."""
        _, artifact, version = self.coordinate.split(":")
        return f"{artifact}-{version}.jar"

    @property
    def cached(self) -> Path:
        """Its file in the shared cache."""
        return paths.cache_dir() / "jars" / self.coordinate.split(":")[0] / self.file_name


def pinned(project_root: Path) -> dict[str, tuple[Jar, ...]]:
    """The sets of ``jars.lock.json``: ``spark`` and ``broker``, each sorted by file name.

    Raises:
        SetupError: The file is missing or cannot be parsed.
    """
    path = paths.lock_file(project_root)
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        sets = {name: part["jars"] for name, part in stored.items() if isinstance(part, dict)}
        return {name: tuple(sorted(map(_jar, jars), key=lambda jar: jar.file_name)) for name, jars in sets.items()}
    except FileNotFoundError as error:
        raise SetupError(f"{path} is missing: {project_root} is not the root of a Tidegate project.") from error
    except (ValueError, KeyError, TypeError) as error:
        raise SetupError(f"{path} cannot be read ({error!r}): restore it from git.") from error


def _jar(entry: dict[str, object]) -> Jar:
    jar = Jar(coordinate=str(entry["coordinate"]), sha256=str(entry["sha256"]), size=int(str(entry["bytes"])))
    if jar.coordinate.count(":") != 2:
        raise ValueError(f"{jar.coordinate} is not group:artifact:version")
    return jar


def class_path(project_root: Path, set_name: str) -> str:
    """The jars of one set as a class path of absolute paths, sorted by name, so that it is the same in every process.

    Args:
        set_name: ``spark`` or ``broker``.

    Raises:
        SetupError: There is no such set, or one of its jars is missing.
    """
    sets = pinned(project_root)
    if set_name not in sets:
        raise SetupError(f"jars.lock.json has no set {set_name!r}; it has: {', '.join(sorted(sets))}.")
    absent = [name for name in missing(project_root) if name.startswith(f"{set_name}/")]
    if absent:
        raise SetupError(f"{len(absent)} jars are missing, for example {absent[0]}: run `make setup`.")
    folder = paths.jars_dir(project_root, set_name)
    return os.pathsep.join(str(folder / jar.file_name) for jar in sets[set_name])


def missing(project_root: Path) -> list[str]:
    """The pinned jars that are missing or have another size, as ``set/file``. Only ``fetch`` compares checksums."""
    return [
        f"{set_name}/{jar.file_name}"
        for set_name, jars in pinned(project_root).items()
        for jar in jars
        if not _has_size(paths.jars_dir(project_root, set_name) / jar.file_name, jar.size)
    ]


def _has_size(path: Path, size: int) -> bool:
    try:
        return path.stat().st_size == size
    except OSError:
        return False


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
    sets = pinned(project_root)
    wanted = {
        jar: paths.jars_dir(project_root, set_name) / jar.file_name for set_name, jars in sets.items() for jar in jars
    }
    lacking = {jar: target for jar, target in wanted.items() if _sha256(target) != jar.sha256}
    _download([jar for jar in lacking if _sha256(jar.cached) != jar.sha256], progress or ivy.Progress())
    for jar, target in lacking.items():
        _install(jar.cached, target)
    for set_name in sets:
        _remove_others(paths.jars_dir(project_root, set_name), wanted.values())
    return len(lacking)


def _sha256(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def _download(jars: list[Jar], progress: ivy.Progress) -> None:
    if not jars:
        return
    shared = paths.cache_dir() / "jars"
    shared.mkdir(parents=True, exist_ok=True)
    # In the cache and not in /tmp, so that a jar moves into the cache with one rename.
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=shared) as scratch:
        progress.start(len(jars), sum(jar.size for jar in jars))
        sizes = {jar.coordinate: jar.size for jar in jars}
        fetched = ivy.retrieve(list(sizes), Path(scratch), lambda name: progress.downloaded(name, sizes[name]))
        problems = []
        for jar in jars:
            file = fetched.get(jar.coordinate)
            checksum = file and _sha256(file)
            if file is None:
                problems.append(f"{jar.coordinate} could not be downloaded")
            elif checksum != jar.sha256:
                size = file.stat().st_size
                problems.append(f"{jar.coordinate} has sha256 {checksum} ({size} bytes), not {jar.sha256}")
            else:
                # Also when another jar fails, so that the next attempt downloads less.
                jar.cached.parent.mkdir(parents=True, exist_ok=True)
                file.replace(jar.cached)
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
