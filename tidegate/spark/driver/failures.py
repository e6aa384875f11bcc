"""Spark's and Java's exceptions as ours: terminal or transient, with a message that says what to do.

Only the error's condition and the class name are told, never Spark's own text, which quotes data values.
"""

from __future__ import annotations

import re

from tidegate.errors import (
    CheckpointCorruptError,
    LakeUnwritableError,
    OffsetsExpiredError,
    SinkConflictError,
    SourceUnavailableError,
    SpecDriftError,
    TidegateError,
    UnexpectedError,
)

_CONFLICT = re.compile(
    r"DELTA_CONCURRENT|ConcurrentAppend|ConcurrentModification|ConcurrentWrite|CONCURRENT_STREAM_LOG_UPDATE"
)
_FULL = re.compile(r"No space left on device|Disk quota exceeded|Read-only file system")
# "Multiple streaming queries": our lease rules them out, so a log file is there of which half is gone (its checksum stayed).
_CHECKPOINT = re.compile(
    r"STREAMING_CHECKPOINT_MISSING_METADATA_FILE|Incomplete log file|Log file was malformed|metadata of the checkpoint"
    r"|Multiple streaming queries are concurrently using|BATCH_METADATA_NOT_FOUND|CANNOT_LOAD_STATE_STORE|batch \d+ doesn't exist"
)
_EXPIRED = re.compile(
    r"KAFKA_DATA_LOSS|OffsetOutOfRange|Some data may have been lost|DELTA_MISSING_FILES_UNEXPECTED_VERSION"
    r"|DELTA_VERSIONS_NOT_CONTIGUOUS|DELTA_CHANGE_DATA_FILE_NOT_FOUND|DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE|logs? truncated"
)
_AWAY = re.compile(
    r"UnknownTopicOrPartition|TimeoutException|org\.apache\.kafka\.common\.errors\.Timeout|Connection refused|DisconnectException"
)
_GONE = re.compile(r"FILE_NOT_EXIST|FileNotFoundException|DELTA_FILE_NOT_FOUND")
_SCHEMA = re.compile(r"DELTA_SCHEMA_CHANGED|DELTA_STREAMING_.*SCHEMA|STREAMING_STATEFUL_OPERATOR_NOT_MATCH")
_WRAPPERS = ("STREAM_FAILED", "FOREACH_BATCH_USER_FUNCTION_ERROR")
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_.]{4,})\]")


def translate(error: BaseException, *, what: str, checkpoint: str, feed: str = "") -> TidegateError:
    """The typed error for something that Spark raised.

    Args:
        error: As it reached Python.
        what: What was going on, for example ``flow 'silver'``.
        checkpoint: The checkpoint's folder, for messages about it.
        feed: The folder of the table whose changes are read; empty where none are.
    """
    if isinstance(error, TidegateError):
        return error
    text = str(error)
    named = [condition for condition in _CONDITION.findall(text) if condition not in _WRAPPERS]
    condition = named[0] if named else type(error).__name__
    if _FULL.search(text):
        return LakeUnwritableError(
            f"{what}: the lake's disk is full or read-only; free space and run again, nothing is half done."
        )
    if _CHECKPOINT.search(text):
        return CheckpointCorruptError(
            f"{what}: the checkpoint at {checkpoint} cannot be read ({condition}). Restore it from a backup, or raise "
            "checkpoint_version so that the table is derived anew.",
            path=checkpoint,
        )
    if feed and _GONE.search(text) and re.search(rf"{re.escape(feed)}/(?!_delta_log)\S", text):
        return OffsetsExpiredError(
            f"{what}: files of its source table were removed (by VACUUM, perhaps) before their changes were read ({condition}). "
            "Restore them, or raise checkpoint_version so that the flow derives its target anew from what the table holds now."
        )
    if _EXPIRED.search(text):
        return OffsetsExpiredError(
            f"{what}: the source no longer holds what the checkpoint wants to read next ({condition}). "
            "Raise checkpoint_version to read what it still holds; what is gone must come from its producer again."
        )
    if _CONFLICT.search(text):
        return SinkConflictError(f"{what}: another commit got in between ({condition}); run again.")
    if _SCHEMA.search(text):
        return SpecDriftError(
            f"{what}: the source table's schema changed ({condition}); run again, and if it stays, raise checkpoint_version."
        )
    if _AWAY.search(text):
        return SourceUnavailableError(f"{what}: the source does not answer ({condition}); run again when it does.")
    return UnexpectedError(
        f"{what}: {condition} ({type(error).__name__}); the attempt's folder in the lake has the whole of it."
    )
