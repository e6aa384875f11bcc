"""The trigger option that bounds a micro-batch of files, by count and by bytes. No Spark.

Spark's file source accepts either ``maxFilesPerTrigger`` or ``maxBytesPerTrigger``, not both (``FileStreamOptions``). The
pending files are known before the stream starts, so the option that keeps both bounds can be chosen.
"""

from __future__ import annotations

from collections.abc import Sequence


def trigger_option(sizes: Sequence[int], max_files: int, max_bytes: int) -> tuple[str, int]:
    """Choose the option of Spark's file source that keeps both bounds, and its value.

    Args:
        sizes: Sizes of the pending files in bytes, oldest first: the order in which the source reads them.
        max_files: Maximum number of files in a micro-batch.
        max_bytes: Maximum bytes of a micro-batch. A single larger file is alone in its batch, or with few others.
    """
    if sum(sizes) <= max_bytes:
        return "maxFilesPerTrigger", max_files
    if _most_files_in_a_batch(sizes, max_bytes) <= max_files:
        return "maxBytesPerTrigger", max_bytes
    count = max_files
    while count > 1 and _largest_batch(sizes, count, max_bytes) > max_bytes:
        count = max(1, count // 2)
    return "maxFilesPerTrigger", count


def _most_files_in_a_batch(sizes: Sequence[int], max_bytes: int) -> int:
    """Number of files in the largest batch, if batches are bounded by bytes."""
    longest = count = total = 0
    for size in sizes:
        if count and total + size > max_bytes:
            count = total = 0
        count, total = count + 1, total + size
        longest = max(longest, count)
    return longest


def _largest_batch(sizes: Sequence[int], count: int, max_bytes: int) -> int:
    """Bytes of the largest batch, if batches are bounded by count; files above the bound are not counted."""
    fitting = [size if size <= max_bytes else 0 for size in sizes]
    return max(sum(fitting[start : start + count]) for start in range(0, len(fitting), count))
