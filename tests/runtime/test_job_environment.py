"""What the environment of the jobs has, asked of real environments with packages of a few files."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tidegate import __version__
from tidegate.errors import EX_CONFIG, SetupError
from tidegate.runtime import job_environment


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment without packages."""
    folder = tmp_path_factory.mktemp("environments") / "empty"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    return folder


@pytest.fixture
def environment(empty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, in which nothing of this repository is importable."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.delenv("SPARK_HOME", raising=False)
    return Path(shutil.copytree(empty, tmp_path / "jobs", symlinks=True))


def add(environment: Path, distribution: str, version: str, *, files: str | None = None, program: bool = False) -> None:
    """Install a distribution as far as it is looked at: its metadata, and the version and the program of its files."""
    (packages,) = environment.glob("lib/python*/site-packages")
    metadata = packages / f"{distribution.replace('-', '_')}-{version}.dist-info/METADATA"
    metadata.parent.mkdir()
    metadata.write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
    package = packages / distribution.partition("-")[0]
    package.mkdir(exist_ok=True)
    name = "version.py" if package.name == "pyspark" else "__init__.py"
    (package / name).write_text(f"__version__: str = '{files or version}'\n")
    if program:
        submit = package / "bin/spark-submit"
        submit.parent.mkdir()
        submit.touch(mode=0o755)


def python(environment: Path) -> Path:
    return environment / "bin/python"


def test_another_environment_is_asked_by_its_own_python(environment: Path) -> None:
    add(environment, "pyspark", "4.2.0", program=True)
    add(environment, "tidegate", __version__)
    job = job_environment.of(python(environment))
    assert (job.prefix, dict(job.packages)) == (str(environment), {"pyspark": "4.2.0"})
    assert job.spark_submit.is_relative_to(environment)
    assert job.spark_home == job.spark_submit.parents[1]


def test_it_is_asked_once(environment: Path) -> None:
    add(environment, "tidegate", __version__)
    before = job_environment.of(python(environment))
    shutil.rmtree(environment)
    assert job_environment.of(python(environment)) is before


def test_this_environment_is_asked_without_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("a process was started"))
    job_environment._ask.cache_clear()
    assert job_environment.of().prefix == sys.prefix


def test_spark_of_spark_home_comes_first(environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add(environment, "pyspark", "4.2.0")
    add(environment, "tidegate", __version__)
    home = tmp_path / "spark"
    monkeypatch.setenv("SPARK_HOME", str(home))
    with pytest.raises(SetupError, match="spark-submit is not in"):
        _ = job_environment.of(python(environment)).spark_submit
    (home / "bin").mkdir(parents=True)
    (home / "bin/spark-submit").touch(mode=0o755)
    assert job_environment.of(python(environment)).spark_submit == home / "bin/spark-submit"


@pytest.mark.parametrize(
    ("packages", "message"),
    [
        ({"tidegate": __version__}, "the package pyspark is not in"),
        ({}, f"has no Tidegate, and this one has {__version__}"),
        ({"tidegate": "0.0.9", "pyspark": "4.2.0"}, f"has Tidegate 0.0.9, and this one has {__version__}"),
        ({"pyspark": "4.2.0", "pyspark-client": "4.0.1"}, "has pyspark 4.2.0 and pyspark-client 4.0.1"),
        ({"pyspark": "4.1.9"}, "has pyspark 4.1.9, and this Tidegate works with versions from 4.2 on, below 4.3"),
        ({"pyspark": "4.3.0"}, "has pyspark 4.3.0"),
        ({"pyspark": "4.2.0", "delta-spark": "4.3.2"}, "has delta-spark 4.3.2"),
        ({"pyspark": "4.2.0", "great-expectations": "1.9.0"}, "has great-expectations 1.9.0"),
        ({"tidegate": __version__, "pyspark-client": "4.2.0"}, "Spark's program spark-submit is not in"),
    ],
)
def test_an_environment_that_cannot_run_jobs_is_an_error_with_the_next_step(
    environment: Path, packages: dict[str, str], message: str
) -> None:
    for name, version in packages.items():
        add(environment, name, version)
    with pytest.raises(SetupError) as raised:
        _ = job_environment.of(python(environment)).spark_submit
    assert message in raised.value.problem and str(environment) in raised.value.message
    assert raised.value.exit_code == EX_CONFIG
    assert "install" in raised.value.message


def test_the_advice_is_a_command_that_works_in_the_environment(environment: Path) -> None:
    def advice() -> str:
        with pytest.raises(SetupError) as raised:
            job_environment.of(python(environment)).check()
        job_environment._ask.cache_clear()
        return raised.value.message.partition("; ")[2]

    wanted = f'"tidegate[job]=={__version__}"'
    assert advice() == f"install it there with `uv pip install --python {python(environment)} {wanted}`"
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "pip").mkdir()
    assert advice() == f"install it there with `{python(environment)} -m pip install {wanted}`"
    environment = environment.rename(environment.with_name(job_environment.FOLDER))
    assert advice() == f"complete it with `tidegate init {environment.parent} --job-env`"


def test_files_that_another_package_has_overwritten_are_an_error(environment: Path) -> None:
    add(environment, "tidegate", __version__)
    add(environment, "pyspark", "4.2.0", files="4.0.1", program=True)
    with pytest.raises(SetupError, match=r"its files are of version 4\.0\.1.*--force-reinstall"):
        job_environment.of(python(environment)).check()


@pytest.mark.parametrize("program", ["/nowhere/python", "/bin/false", "/bin/echo"])
def test_a_python_that_does_not_answer_is_an_error(program: str) -> None:
    with pytest.raises(SetupError, match="does not say what it has") as raised:
        job_environment.of(Path(program))
    assert "TIDEGATE_JOB_PYTHON" in raised.value.message
