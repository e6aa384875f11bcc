"""Finding Java, with scripts in place of Java."""

from __future__ import annotations

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


def test_the_error_for_a_missing_java_names_what_to_install_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(MissingJavaError, match=r"^Tidegate needs Java 17 .*apt-get install openjdk-17") as caught:
        java.find({"PATH": str(tmp_path)})
    assert "\n" not in caught.value.message


def test_a_java_home_without_java_is_an_error_and_the_path_is_not_searched(tmp_path: Path) -> None:
    _install(tmp_path / "good", release="17.0.1")
    with pytest.raises(MissingJavaError, match="JAVA_HOME is /not/there"):
        java.find({"JAVA_HOME": "/not/there", "PATH": str(tmp_path / "good" / "bin")})


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2", "16.0.2"])
def test_an_old_java_is_refused_with_its_version(tmp_path: Path, version: str) -> None:
    executable = _install(tmp_path, release=version)
    with pytest.raises(MissingJavaError, match=version.replace(".", r"\.")):
        java.find({"PATH": str(executable.parent)})


def test_a_java_that_does_not_run_counts_as_missing(tmp_path: Path) -> None:
    executable = _install(tmp_path, script="exit 1")
    with pytest.raises(MissingJavaError, match="does not run"):
        java.find({"PATH": str(executable.parent)})
