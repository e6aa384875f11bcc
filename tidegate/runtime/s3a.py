"""Spark's settings for lakes and landing zones in buckets: S3A, the log store of Delta and the files of checkpoints.

They are known before the JVM starts, because Delta reads those of its log stores from the settings of the application only.
"""

from __future__ import annotations

from tidegate.store.s3 import S3Server

LOG_STORE = "io.tidegate.s3.ConditionalLogStore"
"""Creates each commit of a table under a condition, so that of several writers one succeeds."""
CHECKPOINT_FILES = "io.tidegate.s3.ConditionalCheckpointFileManager"
"""The same for offsets, commits and source logs."""
SENT_REQUESTS = "io.tidegate.s3.SentRequests"
"""Counts what S3A sends."""

_CHECKPOINTS = {
    "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINT_FILES,
    # Files of state are replaced without a condition. In version 1 two drivers give them the same names, in version 2 names of their
    # own, and the commit says which belong to it.
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
}


def conf(server: S3Server, *, checkpoints: bool) -> dict[str, str]:
    """Settings for ``spark-submit``, without credentials.

    Args:
        server: The server of the buckets.
        checkpoints: Checkpoints are in a bucket, too.
    """
    hadoop = {
        **server.hadoop_settings,
        # Folders are the beginnings of keys: none is looked for or made around a deletion. With the flag `create` files would be
        # created without a look at what is there: the log store refuses it.
        "fs.s3a.performance.flags": "delete,mkdir",
        "fs.s3a.audit.execution.interceptors": SENT_REQUESTS,
    }
    return {
        **{f"spark.hadoop.{name}": value for name, value in hadoop.items()},
        **{f"spark.delta.logStore.{scheme}.impl": LOG_STORE for scheme in ("s3", "s3a")},
        **(_CHECKPOINTS if checkpoints else {}),
    }
