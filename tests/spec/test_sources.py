"""Sources have default globs, and an identity that the sidecar stores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.spec.trips import BRONZE, FILES, SCHEMA, TOPIC
from tidegate.fingerprints import fingerprint
from tidegate.spec import FileSource


def test_each_format_has_a_default_glob() -> None:
    assert FILES.glob == "*.{csv,csv.gz,csv.bz2}"
    assert "jsonl.gz" in FileSource(path="x", format="json", schema=SCHEMA).glob
    assert replace(FILES, glob="daily-*.csv").glob == "daily-*.csv"


@pytest.mark.parametrize(
    ("changed", "in_identity"),
    [
        (replace(FILES, path="other"), True),
        (replace(FILES, format="json"), True),
        (replace(FILES, glob="*.csv"), True),
        (replace(FILES, schema="id INT, more STRING"), False),
        (replace(FILES, max_files_per_trigger=1), False),
        (TOPIC, True),
        (replace(TOPIC, topic="other"), True),
    ],
)
def test_the_fingerprint_of_a_flow_depends_on_its_sources_identity_only(changed: Any, in_identity: bool) -> None:
    same = fingerprint(replace(BRONZE, source=changed).remembered()) == fingerprint(BRONZE.remembered())
    assert same is not in_identity
