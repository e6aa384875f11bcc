"""A micro-batch of files is bounded by count and by bytes, whatever is pending."""

from __future__ import annotations

import random

from tidegate.spark.intake.bounds import of_files


def batches(sizes: list[int], option: str, value: int) -> list[list[int]]:
    """As Spark's file source cuts them: until the bound is met, but never an empty batch."""
    made: list[list[int]] = [[]]
    for size in sizes:
        full = len(made[-1]) >= value if option == "maxFilesPerTrigger" else sum(made[-1]) + size > value
        if made[-1] and full:
            made.append([])
        made[-1].append(size)
    return made


def test_few_files_are_bounded_by_count_alone() -> None:
    assert of_files([5, 5], 1000, 100) == ("maxFilesPerTrigger", 1000)
    assert of_files([], 1000, 100) == ("maxFilesPerTrigger", 1000)


def test_both_bounds_hold_for_generated_backlogs_and_no_backlog_goes_file_by_file_for_one_large_file() -> None:
    rng = random.Random(11)
    options = set()
    for _ in range(2000):
        sizes = [rng.choice([1, 10, rng.randrange(1, 60)]) for _ in range(rng.randrange(1, 200))]
        option, value = of_files(sizes, 20, 100)
        options.add(option)
        for batch in batches(sizes, option, value):
            assert len(batch) <= 20
            assert sum(batch) <= 100
    assert options == {"maxFilesPerTrigger", "maxBytesPerTrigger"}
    option, value = of_files([1] * 500 + [10_000] + [1] * 500, 50, 100)
    assert max(len(batch) for batch in batches([1] * 500, option, value)) > 20
