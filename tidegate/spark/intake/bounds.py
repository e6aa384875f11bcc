"""How large a micro-batch of files may become, by count and by bytes. No Spark.

Spark's file source takes one of ``maxFilesPerTrigger`` and ``maxBytesPerTrigger``, not both
(``FileStreamOptions``). What is pending is known before the stream starts, so the one that keeps both bounds is chosen.
"""

from __future__ import annotations

from collections.abc import Sequence


def of_files(sizes: Sequence[int], most_files: int, most_bytes: int) -> tuple[str, int]:
    """The option of Spark's file source, and its value, that keeps both bounds for the pending files.

    Args:
        sizes: Bytes of the pending files, oldest first, as the source takes them.
        most_files: Of a micro-batch.
        most_bytes: Of a micro-batch. A file that alone is larger makes a batch of its own, or is in one with few others.
    """
    if sum(sizes) <= most_bytes:
        return "maxFilesPerTrigger", most_files
    if _longest_run(sizes, most_bytes) <= most_files:
        return "maxBytesPerTrigger", most_bytes
    count = most_files
    while count > 1 and _largest_batch(sizes, count, most_bytes) > most_bytes:
        count = max(1, count // 2)
    return "maxFilesPerTrigger", count


def _longest_run(sizes: Sequence[int], most_bytes: int) -> int:
    """Files of the longest batch, if batches are cut by bytes."""
    longest = count = total = 0
    for size in sizes:
        if count and total + size > most_bytes:
            count = total = 0
        count, total = count + 1, total + size
        longest = max(longest, count)
    return longest


def _largest_batch(sizes: Sequence[int], count: int, most_bytes: int) -> int:
    """Bytes of the largest batch, if batches are cut by count; files that no cut makes fit are left out."""
    fitting = [size if size <= most_bytes else 0 for size in sizes]
    return max(sum(fitting[start : start + count]) for start in range(0, len(fitting), count))
