"""The pinned jars, and class paths made of them.

``jars.lock.json`` in this package lists the jars with their checksums; a project that needs others has a file of this name in its
folder. They are in the cache of this user, where `tidegate.runtime.repository` puts them. The platform's own jar is in this package.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tidegate.advice import Command, Edit, OutsideAct
from tidegate.errors import SetupError
from tidegate.formatting import count
from tidegate.runtime import paths

OWN_JAR = Path(__file__).with_name("tidegate.jar")
"""The log store and the checkpoint files of buckets, and what appends tell Delta; from ``jvm/`` (``python -m devstack.build_jar``)."""


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
        """The name of its file."""
        _, artifact, version = self.coordinate.split(":")
        return f"{artifact}-{version}.jar"

    @property
    def path(self) -> Path:
        """Its place in the cache of this user."""
        return paths.cache_dir() / "jars" / self.coordinate.partition(":")[0] / self.file_name

    @property
    def is_cached(self) -> bool:
        """Whether a file of its size is there. `is_verified` compares the checksum, too."""
        try:
            return self.path.stat().st_size == self.size
        except OSError:
            return False

    @property
    def is_verified(self) -> bool:
        """Whether a file with its checksum is there; reads the file."""
        try:
            with self.path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest() == self.sha256
        except OSError:
            return False


def pinned(project_root: Path) -> dict[str, tuple[Jar, ...]]:
    """The sets of ``jars.lock.json``: ``spark``, ``s3``, ``msk`` and ``broker``, each sorted by file name.

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
        set_name: ``spark``, ``s3``, ``msk`` or ``broker``.

    Raises:
        SetupError: There is no such set, or one of its jars is missing.
    """
    wanted = of_set(project_root, set_name)
    if absent := missing(wanted):
        raise SetupError(
            f"{count(len(absent), 'jar')} of {len(wanted)} missing in the cache {paths.cache_dir()}, for example {absent[0].file_name}",
            Command.tidegate("setup", says="run `{}`"),
        )
    return [jar.path for jar in wanted]


def of_set(project_root: Path, *set_names: str) -> tuple[Jar, ...]:
    """The jars of some sets, each once.

    Raises:
        SetupError: There is no such set.
    """
    sets = pinned(project_root)
    for name in set_names:
        if name not in sets:
            raise SetupError(
                f"jars.lock.json has no set {name!r}", Edit(f"it has: {', '.join(sorted(sets))}", "request")
            )
    return tuple(dict.fromkeys(jar for name in set_names for jar in sets[name]))


def missing(wanted: Iterable[Jar], *, verify: bool = False) -> list[Jar]:
    """Those of some jars that are not in the cache, or are damaged there.

    Args:
        verify: Read each file and compare its checksum, which takes a tenth of a second; otherwise its size.
    """
    return [jar for jar in wanted if not (jar.is_verified if verify else jar.is_cached)]
