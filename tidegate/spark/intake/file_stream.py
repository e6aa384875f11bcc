"""The stream of the files of a landing folder, with micro-batches that are bounded by count and by bytes.

Spark's file source accepts either ``maxFilesPerTrigger`` or ``maxBytesPerTrigger``, not both (``FileStreamOptions``). The
pending files are known before the stream starts, so the option that keeps both bounds can be chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidegate.checkpoints import progress
from tidegate.sources.files import MAX_FILE_AGE_DAYS
from tidegate.spark.intake.landing import glob_escaped
from tidegate.spec import FileSource
from tidegate.spec.checks import in_bytes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.checkpoints.progress import ListedFile
    from tidegate.lake.place import Place
    from tidegate.probes.files import LandedFile

_FILE_SCHEMA = "path string, modificationTime timestamp, length bigint, content binary"


def files_stream(
    spark: SparkSession, place: Place, source: FileSource, logged: Sequence[ListedFile], landed: Sequence[LandedFile]
) -> DataFrame | None:
    """The new files of a landing folder, without their content: ``path, length, modificationTime``; None if a query would have no batch.

    Args:
        logged: The files that the stream has listed.
        landed: The files that are in the folder now.
    """
    bound = _bound(place, source, logged, landed)
    if bound is None:
        return None
    return (
        spark.readStream.format("binaryFile")
        .schema(_FILE_SCHEMA)
        .option("pathGlobFilter", source.glob)
        .option("recursiveFileLookup", "true")
        # After the first batch Spark silently skips files that are older than the newest by more than this (default 7 days).
        .option("maxFileAge", f"{MAX_FILE_AGE_DAYS}d")
        .option(*bound)
        .load(glob_escaped(str(place.layout.landing(source.path))))
        .select("path", "length", "modificationTime")
    )


def _bound(
    place: Place, source: FileSource, logged: Sequence[ListedFile], landed: Sequence[LandedFile]
) -> tuple[str, int] | None:
    """The option that bounds a micro-batch of the files that are pending now; None if no batch is planned and no file is pending."""
    read_paths = {file.path for file in logged}
    pending = sorted((file.modified_ms, file.size) for file in landed if file.path not in read_paths)
    if not pending and _is_settled(place, logged):
        return None
    most_bytes = in_bytes(source.max_bytes_per_trigger)
    return trigger_option([size for _, size in pending], source.max_files_per_trigger, most_bytes)


def _is_settled(place: Place, logged: Sequence[ListedFile]) -> bool:
    """Whether all files that the stream listed are in committed batches. After a crash it may have listed files for no batch yet."""
    if not logged:
        return progress.read(place.checkpoint).last_planned is None
    last = progress.settled(place.checkpoint)
    return last is not None and all(file.log_batch <= last.log_offset for file in logged)


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
