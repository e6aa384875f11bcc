"""The jar in the package is built from the sources in jvm/."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from devstack import build_jar
from tidegate.errors import SetupError
from tidegate.runtime import jars, java

pytestmark = pytest.mark.jvm

PROJECT = Path(__file__).parents[2]


def _classes(jar: Path) -> dict[str, tuple[bytes, tuple[int, ...]]]:
    """Content and time of each class."""
    with zipfile.ZipFile(jar) as opened:
        return {entry.filename: (opened.read(entry), entry.date_time) for entry in opened.infolist()}


def test_each_class_of_the_kept_jar_is_that_of_the_sources(tmp_path: Path) -> None:
    try:
        build_jar.compiler()
    except SetupError as error:
        pytest.skip(str(error))
    if java.find().major != build_jar.RELEASE:
        pytest.skip(f"compilers of other releases than {build_jar.RELEASE} make other bytes of the same sources")
    build_jar.build(PROJECT, tmp_path / "rebuilt.jar")
    kept, built = _classes(jars.OWN_JAR), _classes(tmp_path / "rebuilt.jar")
    assert list(kept) == list(built) == sorted(kept)
    assert [name for name in kept if kept[name] != built[name]] == []
