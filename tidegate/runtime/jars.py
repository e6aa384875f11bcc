"""The pinned jars, and class paths made of them.

``jars.lock.json`` in this package lists the jars with their checksums; a project that needs others has a file of this name in its
folder. Set-up fetches them into the git-ignored ``jars/spark``, ``jars/s3`` and ``jars/broker`` (``python -m devstack.fetch_jars``);
jobs download nothing. The platform's own jar is kept in this package.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from tidegate.advice import Command, Edit, OutsideAct
from tidegate.errors import SetupError
from tidegate.runtime import paths

OWN_JAR = Path(__file__).with_name("tidegate-s3.jar")
"""The log store and the checkpoint files of buckets, from the sources in ``jvm/`` (``python -m devstack.build_jar``)."""


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


def pinned(project_root: Path) -> dict[str, tuple[Jar, ...]]:
    """The sets of ``jars.lock.json``: ``spark``, ``s3`` and ``broker``, each sorted by file name.

    Raises:
        SetupError: The file cannot be parsed.
    """
    path = paths.lock_file(project_root)
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        sets = {name: part["jars"] for name, part in stored.items() if isinstance(part, dict)}
        return {name: tuple(sorted(map(_jar, jars), key=lambda jar: jar.file_name)) for name, jars in sets.items()}
    except (ValueError, KeyError, TypeError) as error:
        raise SetupError(f"{path} cannot be read ({error!r})", OutsideAct("restore it from git")) from error


def _jar(entry: dict[str, object]) -> Jar:
    jar = Jar(coordinate=str(entry["coordinate"]), sha256=str(entry["sha256"]), size=int(str(entry["bytes"])))
    if jar.coordinate.count(":") != 2:
        raise ValueError(f"{jar.coordinate} is not group:artifact:version")
    return jar


def class_path(project_root: Path, set_name: str) -> str:
    """The jars of one set as a class path; arguments and errors are those of `files`."""
    return os.pathsep.join(map(str, files(project_root, set_name)))


def files(project_root: Path, set_name: str) -> list[Path]:
    """The absolute paths of the jars of one set, sorted by name, so that they are the same in every process.

    Args:
        set_name: ``spark``, ``s3`` or ``broker``.

    Raises:
        SetupError: There is no such set, or one of its jars is missing.
    """
    sets = pinned(project_root)
    if set_name not in sets:
        raise SetupError(
            f"jars.lock.json has no set {set_name!r}", Edit(f"it has: {', '.join(sorted(sets))}", "request")
        )
    absent = [name for name in missing(project_root) if name.startswith(f"{set_name}/")]
    if absent:
        raise SetupError(
            f"{len(absent)} jars are missing, for example {absent[0]}", Command.make("setup", says="run `{}`")
        )
    folder = paths.jars_dir(project_root, set_name)
    return [folder / jar.file_name for jar in sets[set_name]]


def missing(project_root: Path) -> list[str]:
    """The pinned jars that are missing or have another size, as ``set/file``. Set-up compares checksums."""
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
