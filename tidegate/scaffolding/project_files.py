"""The files of a new project. What exists already is left as it is."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import tidegate
from tidegate.environment import Environment
from tidegate.scaffolding import pipeline_files
from tidegate.scaffolding.pipeline_files import Files, modules, render
from tidegate.store import Address

SAMPLE = "orders"
"""The pipeline of a project that has none yet."""
DAGS = "dags/tidegate_dags.py"
"""The file with all DAGs. Its name is that of no package of the project: Airflow puts its folder on the path."""
SETTINGS = "tidegate.toml"
TEMPLATES = {
    "pipelines/__init__.py": "pipelines.py",
    "spark_jobs/__init__.py": "spark_jobs.py",
    "expectations/__init__.py": "expectations.py",
    DAGS: "dags.py",
    "conftest.py": "conftest.py",
    ".github/workflows/tests.yml": "tests.yml",
    "requirements.txt": "requirements.txt",
    ".gitignore": "gitignore",
    ".airflowignore": "airflowignore",
    "README.md": "README.md",
    SETTINGS: "tidegate.toml",
}
"""Template of each file that every project has, by its path."""


@dataclass(frozen=True, kw_only=True)
class NewProject:
    """What a folder gets to be a project that runs."""

    folder: Path
    files: Files
    """What is to be written. The declaration of the sample is the last file: with it, nothing is missing."""
    left: tuple[str, ...]
    """Paths of existing files with another content."""

    @classmethod
    def of(cls, folder: Path, environment: Environment, job_python: str = "") -> NewProject:
        """What a folder lacks.

        Args:
            folder: The folder, which need not exist.
            environment: Its settings, of which the landing zone gets the sample.
            job_python: The Python of jobs, absolute or relative to the folder; empty: that of the commands.
        """
        wanted = {folder / path: text for path, text in _texts(folder, job_python).items()}
        files: Files = {Address.local(path): text for path, text in wanted.items()}
        if all(module.name.startswith("_") for module in modules(folder / "pipelines")):
            files |= _sample(environment)
        # The settings without a Python of jobs, as an earlier `init` wrote them, are no work of a person.
        earlier = {folder / SETTINGS: _texts(folder, "")[SETTINGS]}
        missing, left = Files(), []
        for address, text in files.items():
            content = _content(address)
            if content is None or (content != text and content == earlier.get(Path(address))):
                missing[address] = text
            elif content != text:
                left.append(str(address).removeprefix(f"{folder}/"))
        return cls(folder=folder, files=missing, left=tuple(left))

    def write(self) -> None:
        """Write what is missing: all of it, or nothing. A command that was killed in between is given again.

        Raises:
            RequestError: A file cannot be written.
        """
        for address in self.files:
            if _content(address) is not None:
                address.delete()
        pipeline_files.write(self.files)

    def paths(self) -> Iterator[str]:
        """The files that `write` writes, relative to the folder where they are in it."""
        for address in self.files:
            yield str(address).removeprefix(f"{self.folder}/")


def _texts(folder: Path, job_python: str) -> Mapping[str, str]:
    """The files of every project, by their paths."""
    values = {
        "name": SAMPLE,
        "project": re.sub(r"[^A-Za-z0-9._-]+", "-", folder.name).strip("-._") or "project",
        "version": tidegate.__version__,
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "job": f'job.python = "{job_python}"\n' if job_python else "",
        "pytest": f"{job_python or 'python'} -m pytest",
    }
    return {path: render(f"project/{template}", **values) for path, template in TEMPLATES.items()}


def _sample(environment: Environment) -> Files:
    """The sample pipeline with its tests, its declaration last."""
    files = pipeline_files.files_of(environment, SAMPLE, "files")
    project = environment.project
    declaration = Address.local(project / "pipelines" / f"{SAMPLE}.py")
    tests, dag = project / "tests", Address.local(project / "dags" / f"{SAMPLE}.py")
    return {
        **{address: text for address, text in files.items() if address not in (declaration, dag)},
        Address.local(tests / "test_increments.py"): render("project/test_increments.py", name=SAMPLE),
        Address.local(tests / "fixtures" / f"{SAMPLE}.csv"): render("files/sample.csv", name=SAMPLE),
        declaration: files[declaration],
    }


def _content(address: Address) -> str | None:
    """The text of a file; None if there is none. Of what is no text, one that no file here has."""
    if not address.exists():
        return None
    return address.read().data.decode(errors="replace") if address.stat().kind == "content" else ""
