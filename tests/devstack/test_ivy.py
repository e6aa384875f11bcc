"""Downloading with Ivy, with a script in place of Java."""

from __future__ import annotations

import io
import logging
from pathlib import Path
from xml.etree import ElementTree

import pytest

from devstack import ivy

# Its arguments end with -settings FILE -ivy FILE. The file `only` contains the coordinates that it can download, `from` the
# number of the first run that downloads anything, and `runs` one letter per run.
_JAVA = """#!/usr/bin/env python3
import os, pathlib, sys
from xml.etree import ElementTree
settings, module = (pathlib.Path(sys.argv[sys.argv.index(flag) + 1]) for flag in ("-settings", "-ivy"))
cache = pathlib.Path(ElementTree.parse(settings).find("caches").get("defaultCacheDir"))
here = pathlib.Path(__file__).parent
runs = here / "runs"
runs.write_text(runs.read_text() + "x" if runs.exists() else "x")
print(":: loading settings ::")
for dependency in ElementTree.parse(module).iter("dependency"):
    group, name, version = (dependency.get(key) for key in ("org", "name", "rev"))
    if len(runs.read_text()) < int((here / "from").read_text()) or f"{group}:{name}:{version}" not in (here / "only").read_text():
        continue
    file = cache / group / f"{name}-{version}.jar"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
        print(".......... (9512kB)")
        print(f"\\t[SUCCESSFUL ] {group}#{name};{version}!{name}.jar (315ms)")
print(":: the end ::")
"""
NEW, OLD, ODD = "org.kafka:clients:4.1.1", "org.kafka:clients:3.9.2", "org.b_c:jose_4-j:0.9"


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text(_JAVA)
    (home / "bin" / "java").chmod(0o755)
    (home / "release").write_text('JAVA_VERSION="17.0.1"\n')
    monkeypatch.setenv("JAVA_HOME", str(home))
    (home / "bin" / "only").write_text(f"{NEW} {OLD} {ODD}")
    (home / "bin" / "from").write_text("1")
    return home / "bin"


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / 'a "folder" & more'
    folder.mkdir()
    return folder


def test_every_jar_is_returned_with_its_file_and_reported_once(fake: Path, scratch: Path) -> None:
    downloaded: list[str] = []
    files = ivy.retrieve([NEW, OLD, ODD], scratch, downloaded.append)
    assert {name: path.name for name, path in files.items()} == {
        NEW: "clients-4.1.1.jar",
        OLD: "clients-3.9.2.jar",
        ODD: "jose_4-j-0.9.jar",
    }
    assert all(path.is_file() and scratch in path.parents for path in files.values())
    assert sorted(downloaded) == sorted([NEW, OLD, ODD])
    assert (fake / "runs").read_text() == "x"


def test_a_failed_download_is_tried_again(fake: Path, scratch: Path) -> None:
    (fake / "from").write_text("3")
    assert list(ivy.retrieve([NEW, ODD], scratch, lambda _: None)) == [NEW, ODD]
    assert (fake / "runs").read_text() == "xxx"


def test_jars_that_cannot_be_downloaded_are_left_out_and_the_output_of_ivy_is_logged(
    fake: Path, scratch: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (fake / "only").write_text(NEW)
    downloaded: list[str] = []
    assert list(ivy.retrieve([NEW, ODD], scratch, downloaded.append)) == [NEW]
    assert downloaded == [NEW]
    assert ":: the end ::" in caplog.text


def test_ivy_resolves_no_dependencies_and_reads_no_pom_and_no_local_repository(fake: Path, scratch: Path) -> None:
    ivy.retrieve([NEW, OLD], scratch, lambda _: None)
    settings = ElementTree.parse(scratch / "settings.xml")
    (resolvers,) = settings.iter("resolvers")
    assert [(r.tag, r.get("usepoms"), r.get("root")) for r in resolvers] == [("ibiblio", "false", None)]
    assert {d.get("transitive") for d in ElementTree.parse(scratch / "ivy.xml").iter("dependency")} == {"false"}


def test_two_versions_of_one_jar_can_be_downloaded(fake: Path, scratch: Path) -> None:
    ivy.retrieve([NEW, OLD], scratch, lambda _: None)
    (settings,) = ElementTree.parse(scratch / "settings.xml").iter("settings")
    assert settings.get("defaultConflictManager") == "all"


def test_outside_of_a_terminal_progress_is_log_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with ivy.progress_for(io.StringIO()) as progress:
        progress.start(2, 3_000_000)
        progress.downloaded(NEW, 2_500_000)
    assert caplog.messages == ["downloading 2 jars (3 MB)", f"  1/2 {NEW} (2.5 MB)"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_in_a_terminal_progress_is_a_bar_that_is_erased_at_the_end() -> None:
    stream = Terminal()
    with ivy.progress_for(stream) as progress:
        progress.start(1, 100)
        progress.downloaded(NEW, 100)
    assert "clients" in stream.getvalue()
    assert stream.getvalue().endswith("\x1b[2K")


def test_without_a_download_a_terminal_shows_nothing() -> None:
    stream = Terminal()
    with ivy.progress_for(stream):
        pass
    assert stream.getvalue() == ""
