"""The stream of the files of a landing folder, with bounded micro-batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.checkpoints import progress
from tidegate.probes import files
from tidegate.sources.files import MAX_FILE_AGE_DAYS
from tidegate.spark.intake import batch_bounds
from tidegate.spark.intake.landing import glob_escaped
from tidegate.spec import FileSource
from tidegate.spec.source_checks import in_bytes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.lake.place import Place


_FILE_SCHEMA = "path string, modificationTime timestamp, length bigint, content binary"


def files_stream(spark: SparkSession, place: Place, source: FileSource) -> DataFrame:
    """The new files of a landing folder, without their content: ``path, length, modificationTime``."""
    return (
        spark.readStream.format("binaryFile")
        .schema(_FILE_SCHEMA)
        .option("pathGlobFilter", source.glob)
        .option("recursiveFileLookup", "true")
        # After the first batch Spark silently skips files that are older than the newest by more than this (default 7 days).
        .option("maxFileAge", f"{MAX_FILE_AGE_DAYS}d")
        .option(*_bound(place, source))
        .load(glob_escaped(str(place.layout.landing(source.path))))
        .select("path", "length", "modificationTime")
    )


def _bound(place: Place, source: FileSource) -> tuple[str, int]:
    """The option that bounds a micro-batch of the files that are pending now."""
    read_paths = {file.path for file in progress.source_files(place.checkpoint)}
    landed = files.list_files(place.layout.landing(source.path), source.glob).files
    pending = sorted((file.modified_ms, file.size) for file in landed if file.path not in read_paths)
    most_bytes = in_bytes(source.max_bytes_per_trigger)
    return batch_bounds.trigger_option([size for _, size in pending], source.max_files_per_trigger, most_bytes)
