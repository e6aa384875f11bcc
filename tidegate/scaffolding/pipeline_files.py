"""The files of a new pipeline: their paths and contents, written all or none."""

from __future__ import annotations

import importlib.resources
import keyword
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import Literal

from tidegate.advice import Edit
from tidegate.environment import Environment
from tidegate.errors import RequestError, SpecError, TidegateError
from tidegate.errors.classification import raise_machine
from tidegate.lake.layout import Layout
from tidegate.project import registry
from tidegate.spec import FileSource, Flow, Pipeline, Table

Kind = Literal["files", "kafka"]


def check_name(name: str) -> None:
    """Refuse a name that no pipeline can have.

    Raises:
        RequestError: It is not a valid pipeline name, or it is a Python keyword.
    """
    probe = Flow(
        name="bronze", source=FileSource(path="probe", format="csv", schema="a STRING"), target=Table("bronze.a")
    )
    try:
        Pipeline(name=name, flows=(probe,))
    except SpecError as error:
        raise RequestError(error.problem, error.advice) from None
    if keyword.iskeyword(name):
        raise RequestError(
            f"{name!r} is a Python keyword, so pipelines/{name}.py could not be imported",
            Edit("choose another name", "request"),
        )


def files_of(environment: Environment, name: str, kind: Kind) -> dict[Path, str | Path]:
    """Path to contents of every file of a new pipeline, the landing file last. Of one that is copied, the contents are its path."""
    texts = {
        "pipelines": _render(f"{kind}/pipeline.py", name),
        "spark_jobs": _render("spark_job.py", name),
        "expectations": _render("suite.json", name),
        "tests": _render("test.py", name),
    }
    files = drafted_files(environment, name, texts)
    if kind == "files":
        sample = Path(Layout.of(environment).landing(name) / f"{name}_sample.csv")
        files[sample] = _render("files/sample.csv", name)
    return files


def drafted_files(environment: Environment, name: str, texts: Mapping[str, str]) -> dict[Path, str | Path]:
    """Path to contents of the files in the project.

    Args:
        texts: Those of the declaration, the transforms, the suite and the tests, by folder.
    """
    project = environment.project
    return {
        project / "pipelines" / f"{name}.py": texts["pipelines"],
        project / "spark_jobs" / f"{name}.py": texts["spark_jobs"],
        project / "expectations" / name / "__init__.py": _render("suites.py", name),
        project / "expectations" / name / "silver.json": texts["expectations"],
        project / "dags" / f"{name}.py": _render("dag.py", name),
        project / "tests" / "spark_jobs" / f"test_{name}.py": texts["tests"],
    }


def landing_place(layout: Layout, name: str, file: Path) -> tuple[str, Path | None]:
    """The landing folder that the pipeline reads, and where a copy of the file is landed.

    A file in the landing zone stays where it is; its pipeline reads its folder, without folders of partitions. Another one is
    copied to the landing folder of the pipeline's name, under a name that a run does not ignore.
    """
    root = Path(layout.landing_root).absolute()
    folder = file.absolute().parent
    while "=" in folder.name:
        folder = folder.parent
    if root in folder.parents:
        return str(folder.relative_to(root)), None
    return name, Path(layout.landing(name) / (file.name.lstrip("._") or "sample"))


def check_absent(name: str, files: Mapping[Path, str | Path]) -> None:
    """Refuse to overwrite a file, or to write another pipeline's table.

    Raises:
        RequestError: A file or table exists already; the message lists them.
    """
    existing = [str(path) for path in files if path.exists()]
    if existing:
        raise RequestError(
            f"nothing was written, because these files exist already: {', '.join(existing)}",
            Edit("choose another name", "request"),
        )
    writers = _writers_of({f"bronze.{name}", f"silver.{name}", f"gold.{name}"})
    if writers:
        tables = ", ".join(f"{table} by {pipeline}" for table, pipeline in sorted(writers.items()))
        raise RequestError(
            f"nothing was written: another pipeline writes a table of that name ({tables})",
            Edit("choose another name", "request"),
        )


def write(files: Mapping[Path, str | Path]) -> None:
    """Write all the files, or none; each appears under its final name in one step."""
    written: list[Path] = []
    try:
        for path, content in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            # A job may read the landing folder at any moment; it ignores names that begin with a dot.
            draft = path.parent / f".{path.name}.draft"
            if isinstance(content, Path):
                shutil.copyfile(content, draft)
            else:
                draft.write_text(content, encoding="utf-8")
            os.link(draft, path)  # unlike a rename, it fails if the file exists meanwhile
            written.append(path)
            draft.unlink()
    except OSError as error:
        for path in written:
            path.unlink()
        raise_machine(error, "nothing was written")
        raise RequestError(
            f"nothing was written: {error.strerror} ({error.filename})",
            Edit("remove the cause and try again", "request"),
        ) from error


def _render(template: str, name: str) -> str:
    source = importlib.resources.files("tidegate.scaffolding").joinpath("templates", f"{template}.txt")
    return Template(source.read_text(encoding="utf-8")).substitute(name=name, title=name.replace("_", " ").capitalize())


def _writers_of(tables: set[str]) -> dict[str, str]:
    """Table to the declared pipeline that writes it, for those of the given tables that are written."""
    writers: dict[str, str] = {}
    for name, pipeline in registry.declarations().items():
        if not isinstance(pipeline, TidegateError):
            writers |= {flow.target.name: name for flow in pipeline.flows if flow.target.name in tables}
    return writers
