"""What follows from the formats of Spark, Delta and the platform alone: rules without a clock."""

from __future__ import annotations

import math
from collections.abc import Sequence

PAGE = 1000
"""Keys in the answer to one LIST."""
COMPACT_INTERVAL = 10
"""Spark's ``spark.sql.streaming.fileSource.log.compactInterval``: each tenth log of the file source has all entries before it."""
LOG_RETENTION_DAYS = 30
"""How long Delta keeps commits behind a checkpoint: the platform's default for its tables, and that of Delta."""
MINUTES_A_YEAR = 365 * 24 * 60
MINUTES_OF_LOG = LOG_RETENTION_DAYS * 24 * 60


def pages(keys: int) -> int:
    """LIST requests for some keys; a listing without any is one, too."""
    return max(1, -(-keys // PAGE))


def rewritten_entries(batches: int, files: int, interval: int = COMPACT_INTERVAL) -> int:
    """Entries that Spark writes into compacted logs of the file source in some batches.

    Args:
        files: In each batch.
    """
    compactions = batches // interval
    return files * interval * compactions * (compactions + 1) // 2


def compactions(commits: int, most_files: int) -> int:
    """How often the platform compacts one of its tables, to which each commit adds a file.

    Args:
        most_files: The number of files that stay; the commit of one more leaves one file.
    """
    return max(0, commits - 1) // most_files


def compacted_bytes(commits: int, most_files: int, row: int, limit: int) -> int:
    """Bytes that these compactions write.

    Args:
        row: Bytes of a line in a compacted file.
        limit: Files of this size are not compacted again.
    """
    written = size = 0
    for _ in range(compactions(commits, most_files)):
        size += most_files * row
        written += size
        if size >= limit:
            size = 0
    return written


def slope(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The line of least squares through some points: its value at 0, and its rise per unit."""
    count = len(points)
    mean_x, mean_y = (sum(each) / count for each in zip(*points, strict=True))
    rise = sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)
    return mean_y - rise * mean_x, rise


def exponent(first: tuple[float, float], last: tuple[float, float]) -> float:
    """The power of n by which a cost grows between two sizes: 1 for a cost that is proportional to n.

    Args:
        first: Size and cost.
        last: Likewise.
    """
    return math.log(last[1] / first[1]) / math.log(last[0] / first[0])
