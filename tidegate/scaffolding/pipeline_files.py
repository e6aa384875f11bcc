"""The files of a new pipeline: their paths and contents, written all or none."""

from __future__ import annotations

import importlib.resources
import keyword
import os
from collections.abc import Mapping
from contextlib import suppress
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
from tidegate.store import Address
from tidegate.store.location import parse_location

Kind = Literal["files", "kafka"]
Files = dict[Address, str | Address]
"""The contents of files to write. Of one that is copied, the content is its address."""
LARGEST_COPY = 256 * 2**20
"""Bytes of the largest file that is landed as a copy, which is read as a whole."""


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


def files_of(environment: Environment, name: str, kind: Kind) -> Files:
    """Every file of a new pipeline, the landing file last."""
    texts = {
        "pipelines": render(f"{kind}/pipeline.py", name=name, title=name.replace("_", " ").capitalize()),
        "spark_jobs": render("spark_job.py", name=name),
        "expectations": render("suite.json", name=name),
        "tests": render("test.py", name=name),
    }
    files = drafted_files(environment, name, texts)
    if kind == "files":
        files[Layout.of(environment).landing(name) / f"{name}_sample.csv"] = render("files/sample.csv", name=name)
    return files


def drafted_files(environment: Environment, name: str, texts: Mapping[str, str]) -> Files:
    """The files in the project.

    Args:
        texts: Those of the declaration, the transforms, the suite and the tests, by folder.
    """
    files = {
        f"pipelines/{name}.py": texts["pipelines"],
        f"spark_jobs/{name}.py": texts["spark_jobs"],
        f"expectations/{name}/__init__.py": render("suites.py", name=name),
        f"expectations/{name}/silver.json": texts["expectations"],
        f"tests/spark_jobs/test_{name}.py": texts["tests"],
    }
    if not _has_dags_of_all(environment.project):
        files[f"dags/{name}.py"] = render("dag.py", name=name)
    return {Address.local(environment.project / path): text for path, text in files.items()}


def named_file(environment: Environment, text: str) -> Address:
    """The file that a person names: a path, ``file:///…`` or ``s3://<bucket>/<key>``.

    Raises:
        RequestError: It names no file.
        SetupError: As `parse_location`.
    """
    text = text.removeprefix("file://").replace("s3a://", "s3://")
    folder, _, name = text.rpartition("/")
    if "://" not in text:
        return Address.local(Path(os.path.normpath(Path(text).absolute())))
    if not name or folder.endswith("/"):
        raise RequestError(f"{text} names no file", Edit("name one, as in s3://bucket/folder/file.csv", "request"))
    with suppress(ValueError):
        # Below the landing zone, the names of folders may have other characters than its own.
        return Layout.of(environment).landing_root.of_uri(text)
    return Address(environment.store_of(parse_location("--from", folder)), name)


def landing_place(layout: Layout, name: str, address: Address) -> tuple[str, Address | None]:
    """The landing folder that the pipeline reads, and where a copy of the file is landed.

    A file in the landing zone stays where it is; its pipeline reads its folder, without folders of partitions. Another one is
    copied to the landing folder of the pipeline's name, under a name that a run does not ignore.

    Raises:
        RequestError: The file is too large for a copy.
    """
    with suppress(ValueError):
        folders = layout.landing_root.of_uri(address.uri).key.split("/")[:-1]
        while folders and "=" in folders[-1]:
            folders.pop()
        if folders:
            return "/".join(folders), None
    target = layout.landing(name) / (address.name.lstrip("._") or "sample")
    if address.stat().size > LARGEST_COPY:
        raise RequestError(
            f"{address} has more than {LARGEST_COPY // 2**20} MB, and is not in the landing zone",
            Edit(f"copy it to {target}, and name that with --from", "request"),
        )
    return name, target


def check_absent(name: str, files: Files) -> None:
    """Refuse to overwrite a file, or to write another pipeline's table.

    Raises:
        RequestError: A file or table exists already; the message lists them.
    """
    existing = [str(address) for address in files if address.exists()]
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


def write(files: Files) -> None:
    """Write all the files, or none; each appears under its final name in one step, and replaces none that exists meanwhile.

    Raises:
        RequestError: A file cannot be written.
    """
    written: list[Address] = []
    try:
        for address, content in files.items():
            address.put_if(content.encode() if isinstance(content, str) else content.read().data, None)
            written.append(address)
    except (OSError, TidegateError) as error:
        for address in written:
            address.delete()
        raise_machine(error, "nothing was written")
        if not isinstance(error, OSError):
            raise
        raise RequestError(
            f"nothing was written: {error.strerror} ({error.filename})",
            Edit("remove the cause and try again", "request"),
        ) from error


def render(template: str, **values: str) -> str:
    """The text of a template, with values for its placeholders."""
    source = importlib.resources.files("tidegate.scaffolding").joinpath("templates", f"{template}.txt")
    return Template(source.read_text(encoding="utf-8")).substitute(values)


def modules(folder: Path) -> list[Address]:
    """The Python files in a folder; none if there is no such folder, or a file in its place."""
    address = Address.local(folder)
    if not address.exists() or address.stat().kind == "content":
        return []
    return [address.at(entry) for entry in address.list() if entry.kind == "content" and entry.key.endswith(".py")]


def _has_dags_of_all(project: Path) -> bool:
    """Whether a file in ``dags/`` has the DAGs of all pipelines."""
    return any(b"build_dags(" in module.read().data for module in modules(project / "dags"))


def _writers_of(tables: set[str]) -> dict[str, str]:
    """Table to the declared pipeline that writes it, for those of the given tables that are written."""
    writers: dict[str, str] = {}
    for name, pipeline in registry.declarations().items():
        if not isinstance(pipeline, TidegateError):
            writers |= {flow.target.name: name for flow in pipeline.flows if flow.target.name in tables}
    return writers
