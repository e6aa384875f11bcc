"""A source has its usual file names, and an identity that a checkpoint remembers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.spec.trips import BRONZE, FILES, SCHEMA, TOPIC
from tidegate.fingerprints import fingerprint
from tidegate.spec import FileSource


def test_each_format_has_its_usual_file_names() -> None:
    assert FILES.glob == "*.{csv,csv.gz,csv.bz2}"
    assert "jsonl.gz" in FileSource(path="x", format="json", schema=SCHEMA).glob
    assert replace(FILES, glob="daily-*.csv").glob == "daily-*.csv"


@pytest.mark.parametrize(
    ("changed", "remembered"),
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
def test_a_landing_source_is_remembered_by_its_identity(changed: Any, remembered: bool) -> None:
    same = fingerprint(replace(BRONZE, source=changed).remembered()) == fingerprint(BRONZE.remembered())
    assert same is not remembered
