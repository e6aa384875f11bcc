"""A project with one jar in a cache of its own, a Spark with one jar, and a Java, all fake: for class data archives."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.runtime import java
from tidegate.runtime.java import Java

JAR = "cache/jars/io.delta/delta-4.4.0.jar"


def make(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create the project in a folder and return the folder; Spark is in ``pyspark``."""
    monkeypatch.setenv("TIDEGATE_CACHE", str(folder / "cache"))
    (folder / JAR).parent.mkdir(parents=True)
    (folder / JAR).write_text("delta")
    lock = '{"spark": {"jars": [{"coordinate": "io.delta:delta:4.4.0", "sha256": "00", "bytes": 5}]}}'
    (folder / "jars.lock.json").write_text(lock)
    (folder / "pyspark/jars").mkdir(parents=True)
    (folder / "pyspark/jars/spark-core.jar").write_text("spark")
    monkeypatch.setenv("SPARK_HOME", str(folder / "pyspark"))
    use_java(monkeypatch, "17.0.1")
    return folder


def use_java(monkeypatch: pytest.MonkeyPatch, version: str) -> Java:
    """Another version of Java is installed."""
    installed = Java(executable=Path("/opt/java/bin/java"), version=version)
    monkeypatch.setattr(java, "find", lambda *_, **__: installed)
    return installed
