"""What a Delta table remembers of our writes: versions, transaction ids, and the commit that a batch made."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.errors import LedgerImbalanceError
from tidegate.probes import delta

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, kw_only=True)
class Commit:
    """The commit in which a batch arrived."""

    version: int
    metrics: dict[str, int]
    """Delta's ``operationMetrics``."""
    metadata: dict[str, Any]
    """What the batch put into ``userMetadata``: its planned ledger line."""


def exists(path: Path) -> bool:
    """Whether a Delta table lies there."""
    return (path / "_delta_log").is_dir() and any((path / "_delta_log").glob("*.json"))


def read(spark: SparkSession, path: Path, version: int | None = None) -> DataFrame:
    """The table's rows, now or as of a version."""
    reader = spark.read.format("delta")
    if version is not None:
        reader = reader.option("versionAsOf", version)
    return reader.load(str(path))


def version(spark: SparkSession, path: Path) -> int:
    """The newest version that this JVM knows of; under the lease it is the newest."""
    return int(_snapshot(spark, path).version())


def size(spark: SparkSession, path: Path) -> int:
    """Bytes of the newest version's files, as its checksum tells them; 0 where it has none."""
    checksum = _snapshot(spark, path).checksumOpt()
    return int(checksum.get().tableSizeBytes()) if checksum.isDefined() else 0


def transactions(spark: SparkSession, path: Path) -> dict[str, int]:
    """Every ``txnAppId`` that wrote to the table, with the last version it wrote; empty without a table.

    Delta writes them into the checksum of each version (Delta protocol, "Version Checksum File"). Where there is none,
    as after a commit of delta-rs, they are gathered from the log, which takes Spark about a second.
    """
    if not exists(path):
        return {}
    jvm: Any = spark._jvm
    as_java = jvm.scala.jdk.javaapi.CollectionConverters.asJava
    snapshot = _snapshot(spark, path)
    checksum = snapshot.checksumOpt()
    if checksum.isDefined() and checksum.get().setTransactions().isDefined():
        return {str(each.appId()): int(each.version()) for each in as_java(checksum.get().setTransactions().get())}
    found = as_java(snapshot.transactions())
    return {str(app_id): int(found[app_id]) for app_id in found}


def find_commit(path: Path, app_id: str, batch_id: int, newest: int) -> Commit:
    """The commit that (``app_id``, ``batch_id``) made, searched from the newest version down.

    Read from the log itself and not from what the process remembers: a rerun is skipped by Delta and returns no
    metrics (Delta protocol, "Commit Provenance Information").

    Raises:
        LedgerImbalanceError: There is none although the table's transactions say so (the log was cleaned).
    """
    for number in range(newest, -1, -1):
        entry = path / "_delta_log" / f"{number:020d}.json"
        if not entry.exists():
            break
        commit = _commit(number, _commit_info(entry))
        if (commit.metadata.get("app_id"), commit.metadata.get("batch_id")) == (app_id, batch_id):
            return commit
    raise LedgerImbalanceError(
        app_id,
        batch_id,
        {},
        f"the table at {path} says it holds the batch, but its log no longer has the commit; raise checkpoint_version",
    )


def commits(path: Path, first: int, last: int) -> Iterator[Commit]:
    """The commits of versions ``first`` to ``last`` that the log still holds, oldest first."""
    for number in range(first, last + 1):
        entry = path / "_delta_log" / f"{number:020d}.json"
        if entry.exists():
            yield _commit(number, _commit_info(entry))


def _commit(number: int, info: dict[str, Any]) -> Commit:
    metrics = {name: int(value) for name, value in info.get("operationMetrics", {}).items() if str(value).isdigit()}
    return Commit(version=number, metrics=metrics, metadata=delta.user_metadata(info))


def _commit_info(entry: Path) -> dict[str, Any]:
    with entry.open() as lines:
        for line in lines:
            if line.startswith('{"commitInfo"'):
                info: dict[str, Any] = json.loads(line)["commitInfo"]
                return info
    return {}


def _snapshot(spark: SparkSession, path: Path) -> Any:
    jvm: Any = spark._jvm
    log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, str(path))
    return log.update(False, jvm.scala.Option.empty(), jvm.scala.Option.empty())
