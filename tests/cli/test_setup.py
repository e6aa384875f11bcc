"""`tidegate setup` with a small jar in place of those of Spark; a test of the installed wheel runs it with all."""

from __future__ import annotations

import hashlib
import json
import os

import pytest

from tests.cli.project import Project, orders

pytestmark = pytest.mark.slow

CONTENT = b"delta"
JAR = "delta-4.4.0.jar"


def pinned(project: Project) -> dict[str, str]:
    """The variables of a project whose only jar is in a folder, and whose cache is empty."""
    (project.folder / "copied").mkdir()
    (project.folder / "copied" / JAR).write_bytes(CONTENT)
    entry = {
        "coordinate": "io.delta:delta:4.4.0",
        "sha256": hashlib.sha256(CONTENT).hexdigest(),
        "bytes": len(CONTENT),
    }
    (project.folder / "jars.lock.json").write_text(json.dumps({"spark": {"jars": [entry]}}))
    return {
        "TIDEGATE_CACHE": str(project.folder / "cache"),
        "TIDEGATE_MAVEN_REPOSITORY": str(project.folder / "copied"),
    }


def test_the_jars_are_fetched_once_and_again_where_they_are_damaged(project: Project) -> None:
    project.declare(orders())
    variables = pinned(project)
    cached = project.folder / "cache/jars/io.delta" / JAR
    first = project.run("setup", "--only-jars", **variables)
    assert (first.code, first.err) == (0, "")
    assert "fetching 1 jar (5 B)" in first.out
    assert "1 jar in " in first.row(str(project.folder / "cache"), "1 of them fetched now")
    assert "0 of them fetched now" in project.run("setup", "--only-jars", **variables).out
    cached.write_bytes(CONTENT[::-1])
    assert "damaged" in project.run("doctor", **variables).row("jars", "failed")
    assert "1 of them fetched now" in project.run("setup", "--only-jars", **variables).out
    assert cached.read_bytes() == CONTENT
    assert project.run("doctor", **variables).row("all 1 there").split()[:2] == ["jars", "ok"]


def test_a_full_cache_is_only_read(project: Project) -> None:
    project.declare(orders())
    variables = pinned(project)
    project.run("setup", "--only-jars", **variables)
    cached = project.folder / "cache/jars/io.delta" / JAR
    os.utime(cached.parent.parent, (1, 1))
    assert project.run("setup", "--only-jars", **variables).code == 0
    assert cached.parent.parent.stat().st_mtime == 1


def test_a_jar_that_cannot_be_fetched_is_an_error_with_the_next_step(project: Project) -> None:
    project.declare(orders())
    variables = pinned(project)
    (project.folder / "copied" / JAR).unlink()
    result = project.run("setup", "--only-jars", **variables)
    assert result.code == 78
    assert "io.delta:delta:4.4.0 could not be fetched" in result.err
    assert "set TIDEGATE_MAVEN_REPOSITORY to the URL of a mirror" in result.err
