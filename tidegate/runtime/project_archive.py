"""The code that executors import, as one archive, named by the hash of its content: `PACKAGES` of the project, and the platform.

Executors on other machines have neither. Spark gives them the archive of their application, and unpacks it into a folder of their working
directory, which is on their ``PYTHONPATH`` (`tidegate.requests.launch`). Equal content is an equal archive, on every machine.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import tidegate

FOLDER = "tidegate-project"
"""Where an executor has the content, in its working directory."""
PACKAGES = ("pipelines", "spark_jobs")
"""Those of the project that executors import."""
ON_DRIVER = frozenset(
    {
        *(
            "airflow",
            "alerting",
            "cli",
            "expectations",
            "pages",
            "planning",
            "quarantine",
            "requests",
            "runs",
            "runtime",
        ),
        *("scaffolding", "testing", "trace", "spark/derivation", "spark/gate", "spark/reprocessing"),
    }
)
"""Packages of the platform that no function of an executor imports: two fifths of its code."""
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The first time that a zip file can hold."""


@dataclass(frozen=True)
class ProjectArchive:
    """One version of the code."""

    sha256: str
    """Of all names and contents. Two archives with the same one are equal."""
    contents: tuple[tuple[str, bytes], ...] = field(compare=False, repr=False)
    """Name and content of each file, by name."""

    @classmethod
    def read(cls, project: Path) -> ProjectArchive:
        """The present code of a project.

        Raises:
            OSError: A file cannot be read.
        """
        contents = tuple(sorted(_files(project)))
        digest = hashlib.sha256()
        for name, content in contents:
            digest.update(f"{name}\0{hashlib.sha256(content).hexdigest()}\n".encode())
        return cls(digest.hexdigest(), contents)

    @property
    def file_name(self) -> str:
        """The name of its file."""
        return f"{self.sha256}.zip"

    def write(self, folder: Path) -> Path:
        """Write the file: the same bytes for the same content.

        Raises:
            OSError: It cannot be written.
        """
        path = folder / self.file_name
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in self.contents:
                entry = zipfile.ZipInfo(name, _EPOCH)
                entry.external_attr = 0o644 << 16
                archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
        return path


def _files(project: Path) -> Iterator[tuple[str, bytes]]:
    """Modules of the platform, and all files of the project's packages: a transform may read one that is beside it."""
    platform = Path(tidegate.__file__).parent
    for folder, pattern in ((platform, "*.py"), *((project / name, "*") for name in PACKAGES)):
        for path in folder.rglob(pattern):
            inside = path.relative_to(folder)
            if any(part == "__pycache__" or part.startswith(".") for part in inside.parts) or not path.is_file():
                continue
            if folder == platform and not ON_DRIVER.isdisjoint(parent.as_posix() for parent in inside.parents):
                continue
            yield f"{folder.name}/{inside.as_posix()}", path.read_bytes()
