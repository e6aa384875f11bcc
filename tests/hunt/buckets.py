"""Histories with the lake in a bucket: those of folders, in a process of their own."""

from __future__ import annotations

from pathlib import Path

from tests.hunt.sources import FORMATS
from tests.lakes_in_buckets import expect_passed_in_buckets
from tests.slices import of_week

KILLS = 15
"""Of each format; 60 of all."""
STEPS = 5
"""Between two looks at the number of faults: a run takes twice as long in a bucket."""


def expect_agreement_after_kills(format: str, folder: Path) -> None:
    """Kill drivers in a history of files of a format, of another seed each week; the judge agrees with the lake after each run."""
    (number,) = of_week(range(50, 102), 1)
    seed = number * len(FORMATS) + FORMATS.index(format)
    tests = ["tests/hunt/test_hunt_kills.py"]
    expect_passed_in_buckets(tests, folder, HUNT_SEEDS=str(seed), HUNT_KILLS=str(KILLS))
