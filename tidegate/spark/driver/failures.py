"""Translates exceptions of Spark and Java to `TidegateError`: terminal or transient, with a message that says what to do.

A message has the error condition and the class name, never Spark's own text, because that quotes data values.
"""

from __future__ import annotations

import builtins
import re
import socket
from collections.abc import Iterator, Sequence
from typing import Any

from py4j.protocol import Py4JJavaError, Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors import AnalysisException, ArithmeticException, DateTimeException, NumberFormatException
from pyspark.errors.exceptions.captured import CapturedException

from tidegate import hidden
from tidegate.advice import Edit, Either, OutsideAct, Then, new_version
from tidegate.errors import (
    CheckpointCorruptError,
    DeclarationConflictError,
    MachineUnavailableError,
    OffsetsExpiredError,
    SourceError,
    SourceUnavailableError,
    StateLostError,
    StateSchemaChangedError,
    TidegateError,
    UnexpectedError,
    WriteConflictError,
    classify,
)
from tidegate.errors.classification import cause_in, is_of_machine

_CONFLICT = re.compile(
    r"DELTA_CONCURRENT|ConcurrentAppend|ConcurrentModification|ConcurrentWrite|CONCURRENT_STREAM_LOG_UPDATE"
)
# "Multiple streaming queries": the lease excludes them, so the cause is a log file that is gone while its checksum stayed.
_CHECKPOINT = re.compile(
    r"STREAMING_CHECKPOINT_MISSING_METADATA_FILE|Incomplete log file|Log file was malformed|metadata of the checkpoint"
    r"|Multiple streaming queries are concurrently using|BATCH_METADATA_NOT_FOUND|batch \d+ doesn't exist"
)
_STATE_LOST = re.compile(
    r"CANNOT_LOAD_STATE_STORE|STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY|CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED"
    r"|STATE_STORE_(?:ROW_CHECKSUM|UNEXPECTED_EMPTY_FILE|BASE_CHECKPOINT_ID)"
)
_STATE_SCHEMA = re.compile(
    r"STATE_STORE_(?:KEY_SCHEMA|VALUE_SCHEMA|COLUMN_FAMILY_SCHEMA|KEY_ROW_FORMAT|VALUE_ROW_FORMAT|INVALID_VALUE_SCHEMA|INVALID_VARIABLE_TYPE"
    r"|STATE_SCHEMA_FILES|INVALID_CONFIG)\w*|STREAMING_STATEFUL_OPERATOR_NOT_MATCH|[KV](?:EY|ALUE)_ROW_FORMAT_VALIDATION_FAILURE"
)
_OFFSETS_EXPIRED = re.compile(
    r"KAFKA_DATA_LOSS|OffsetOutOfRange|Some data may have been lost|DELTA_MISSING_FILES_UNEXPECTED_VERSION"
    r"|DELTA_VERSIONS_NOT_CONTIGUOUS|DELTA_CHANGE_DATA_FILE_NOT_FOUND|DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE|logs? truncated"
)
_UNAVAILABLE = re.compile(
    r"UnknownTopicOrPartition|TimeoutException|org\.apache\.kafka\.common\.errors\.Timeout|Connection refused|DisconnectException"
)
_NOT_ACCEPTED = re.compile(
    r"org\.apache\.kafka\.common\.errors\.((?:Topic|Group|Cluster|TransactionalId)AuthorizationException|\w+AuthenticationException|InvalidConfigurationException)"
    r"(?:: ([^\n]{1,200}))?"
)
"""Exceptions of Kafka after which a retry cannot succeed, and what they say, in which there is nothing of a message or a secret."""
_FILE_MISSING = re.compile(r"FILE_NOT_EXIST|FileNotFoundException|DELTA_FILE_NOT_FOUND")
_IN_BUCKET = re.compile(r"\bs3a?://")
_FILE_REPLACED = re.compile("a file was replaced between two readings of one batch")
"""As `tidegate.spark.intake.landing.CHANGED`, whose module Python workers import."""
_SCHEMA = re.compile(r"DELTA_SCHEMA_CHANGED|DELTA_STREAMING_.*SCHEMA")
_WRAPPERS = ("STREAM_FAILED", "FOREACH_BATCH_USER_FUNCTION_ERROR")
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_.]{4,})\]")
_OF_VALUES = ("22", "23", "38", "39", "P0")
"""Classes of SQLSTATE for what the values of a row cause: data exceptions, duplicate keys of a map, exceptions of a function,
``raise_error``."""
_OF_MACHINE = frozenset(
    name
    for name, each in vars(builtins).items()
    if isinstance(each, type) and issubclass(each, (OSError, ImportError, MemoryError))
)
"""Python exceptions that say something about the machine, not about the row in whose evaluation they were raised."""
_OTHER_PYTHON = "[PYTHON_VERSION_MISMATCH]"
"""The same, of an executor's Python."""
_CAUSES = 20
_JVM_SECONDS = 5.0
"""Timeout for the question whether the JVM is there."""
_TRACEBACK = "Traceback (most recent call last):"
_PYTHON_TYPE = re.compile(r"(?:[\w<>]+\.)*([A-Za-z_]\w{0,99})(?::|$)")


def translate(error: BaseException, *, what: str, checkpoint: str, feeds: Sequence[str] = ()) -> TidegateError:
    """The `TidegateError` for an exception that Spark raised.

    Args:
        error: The exception, as Python receives it.
        what: Names the work in the message, for example ``flow 'silver'``.
        checkpoint: The checkpoint's folder, for messages about it.
        feeds: The folders of the tables whose change feeds are read; empty for other sources.
    """
    if isinstance(error, TidegateError):
        return error
    if isinstance(error, (ConnectionError, Py4JNetworkError)) and not _jvm_answers():
        return MachineUnavailableError(
            f"{what}: the JVM of Spark has ended.",
            OutsideAct(
                "look for the reason in the attempt's driver.log and in the system's log (it crashed, or was killed for its memory), "
                "then run again: what was committed stays"
            ),
        )
    from tidegate.spark.driver import executors

    if (lacking := executors.lacking(_with_causes(error), what)) is not None:
        return lacking
    text = str(error)
    condition = condition_of(error)
    within = (
        f"its tables, of its checkpoint at {checkpoint}, or of Spark's folder for temporary files (spark.local.dir)"
    )
    cause = classify(error, what, within) if is_of_machine(error) else cause_in(_with_causes(error), what, within)
    if cause is not None:
        return cause
    if _STATE_SCHEMA.search(text):
        return StateSchemaChangedError(
            f"{what}: its state has another schema or another operator than its transform has now ({condition}); "
            "nothing was written.",
            Either(
                Edit("put the transform back as it was", "transform"),
                new_version(says="raise checkpoint_version: the table is derived again behind staging, with new state"),
            ),
        )
    missing = _FILE_MISSING.search(text) is not None
    if _STATE_LOST.search(text) or (missing and f"{checkpoint}/state/" in text):
        return StateLostError(
            f"{what}: files of its state at {checkpoint}/state are missing or damaged ({condition}).",
            Either(
                OutsideAct("restore the checkpoint from a backup"),
                new_version(says="raise checkpoint_version: the table is derived again behind staging, with new state"),
            ),
            path=checkpoint,
        )
    if _CHECKPOINT.search(text):
        return CheckpointCorruptError(
            f"{what}: the checkpoint at {checkpoint} cannot be read ({condition}).",
            Either(
                OutsideAct("restore it from a backup"),
                new_version(says="raise checkpoint_version to derive the table again"),
            ),
            path=checkpoint,
        )
    if missing and any(re.search(rf"{re.escape(feed)}/(?!_delta_log)\S", text) for feed in feeds):
        return OffsetsExpiredError(
            f"{what}: files of its source table were removed (possibly by VACUUM) before their changes were "
            f"read ({condition}).",
            Either(
                OutsideAct("restore them"),
                new_version(
                    says="raise checkpoint_version to derive the target again from the source table's current rows"
                ),
            ),
        )
    if _OFFSETS_EXPIRED.search(text):
        return OffsetsExpiredError(
            f"{what}: the source no longer has the data that the checkpoint reads next ({condition}).",
            Then(
                new_version(says="raise checkpoint_version to read what is left"),
                OutsideAct("the producer must send the missing data again"),
            ),
        )
    everything = _with_causes(error)
    if _FILE_MISSING.search(everything) and _IN_BUCKET.search(everything):
        return MachineUnavailableError(
            f"{what}: an object that a listing had is not there ({condition}).",
            OutsideAct("run again: what was committed stays. If it was deleted, the next run names what is lost"),
        )
    if _CONFLICT.search(text):
        return WriteConflictError(
            f"{what}: a concurrent commit to the table conflicted with this one ({condition})", OutsideAct("run again")
        )
    if _FILE_REPLACED.search(everything):
        return SourceUnavailableError(
            f"{what}: a landed file was replaced while a batch read it a second time, because Spark had lost a part of it. "
            "Nothing of the batch was written.",
            OutsideAct("run again"),
        )
    if _SCHEMA.search(text):
        return DeclarationConflictError(
            f"{what}: the source table's schema changed ({condition}).",
            Either(OutsideAct("run again"), new_version(says="if the error remains, raise checkpoint_version")),
        )
    if not_accepted := _NOT_ACCEPTED.search(everything):
        says = not_accepted[2] or "no reason is given"
        return SourceError(
            f"{what}: the cluster of Kafka does not accept the user or the connection ({not_accepted[1]}: {says})",
            Edit("correct the settings kafka.<name>.…, or have the user granted what it lacks", "setting"),
        )
    if _UNAVAILABLE.search(text):
        return SourceUnavailableError(
            f"{what}: the source does not answer ({condition})", OutsideAct("run again when it is available")
        )
    return UnexpectedError(
        f"{what}: {condition} ({type(error).__name__}).",
        OutsideAct("see the whole exception in the attempt's folder in the lake"),
    )


def of_executors(error: Exception, what: str) -> Exception:
    """The error for what an executor of a cluster lacks, in place of any exception that has no meaning without it; else the exception.

    A cluster may end the application before a flow calls Spark.
    """
    from tidegate.spark.driver import executors

    if isinstance(error, TidegateError) and not isinstance(error, UnexpectedError):
        return error
    return executors.lacking(_with_causes(error), what) or error


def _jvm_answers() -> bool:
    gateway = SparkContext._gateway
    if gateway is None:
        return False
    parameters = gateway.gateway_parameters
    try:
        socket.create_connection((parameters.address, parameters.port), timeout=_JVM_SECONDS).close()
    except OSError:
        return False
    return True


def condition_of(error: BaseException) -> str:
    """Spark's error condition, or the type of an exception that has none: a name without values of the data."""
    named = [condition for condition in _CONDITION.findall(str(error)) if condition not in _WRAPPERS]
    # A bare Java exception has the condition of what caused it.
    of_causes = (CapturedException(origin=cause).getCondition() for cause in causes(error))
    return next((condition for condition in (*named, *of_causes) if condition), type(error).__name__)


def causes(error: BaseException) -> Iterator[Any]:
    """The exceptions of the JVM behind an exception, the outermost first."""
    origin = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, hidden.ORIGIN, None)
    for _ in range(_CAUSES):
        if origin is None:
            return
        yield origin
        origin = origin.getCause()


def _with_causes(error: BaseException) -> str:
    """The text of an exception and of what caused it in the JVM: PySpark's text has only the outermost."""
    return "\n".join([str(error), *(str(cause.toString()) for cause in causes(error))])


def value_error(error: BaseException) -> str | None:
    """The class of an exception that values of a row raised when Spark evaluated an expression or a Python function.

    Its name has no value of the data. The standard's classes of SQLSTATE tell these exceptions from all others: of analysis,
    memory, files, lost executors and workers.

    Returns:
        Spark's error condition (``CAST_INVALID_INPUT``); for a Python function the type of its exception (``ValueError``); None
        for any other exception.
    """
    if isinstance(error, Py4JJavaError):
        # PySpark converts only some types of exceptions.
        error = CapturedException(origin=error.java_exception)
    if not isinstance(error, CapturedException) or isinstance(error, AnalysisException):
        return None
    condition, state = error.getCondition(), error.getSqlState() or ""
    if condition is None or condition.startswith("DELTA_"):
        return None
    if condition == "PYTHON_EXCEPTION":
        trace = (error.getMessageParameters() or {}).get("traceback", "")
        name = python_type(trace)
        return None if name in _OF_MACHINE or _OTHER_PYTHON in trace else name
    typed = isinstance(error, (ArithmeticException, DateTimeException, NumberFormatException))
    return condition if typed or state[:2] in _OF_VALUES else None


def python_type(traceback: str) -> str:
    """The name of an exception's type, from Python's text of its traceback.

    It stands in the first line after the frames, which are indented. Any later line may be part of the message, which may quote
    values.
    """
    lines = traceback.splitlines()
    starts = [number for number, line in enumerate(lines) if line == _TRACEBACK]
    after = lines[starts[-1] + 1 :] if starts else lines
    first = next((line for line in after if line and not line[0].isspace()), "")
    named = _PYTHON_TYPE.match(first)
    return named[1] if named else "Exception"
