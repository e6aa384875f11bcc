"""Exceptions of Spark and Java are translated to a `TidegateError`, terminal or transient, without data values."""

from __future__ import annotations

import errno
import socket
from types import SimpleNamespace

import pytest
from pyspark import SparkContext

from tidegate.errors import (
    CheckpointCorruptError,
    DeclarationConflictError,
    GateRefusedError,
    LakeUnwritableError,
    MachineUnavailableError,
    OffsetsExpiredError,
    SourceUnavailableError,
    SpecError,
    TidegateError,
    UnexpectedError,
    WriteConflictError,
)
from tidegate.spark.driver.failures import python_type, translate, value_error

MESSAGES: list[tuple[str, type[TidegateError], bool]] = [
    ("java.io.IOException: No space left on device", LakeUnwritableError, True),
    ("java.io.IOException: Disk quota exceeded", LakeUnwritableError, True),
    ("java.io.FileNotFoundException: /lake/x (Read-only file system)", LakeUnwritableError, True),
    ("[DELTA_CONCURRENT_APPEND.WITHOUT_HINT] ConcurrentAppendException", WriteConflictError, True),
    ("[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log", WriteConflictError, True),
    ("[STREAM_FAILED] … Incomplete log file offsets/3", CheckpointCorruptError, False),
    ("[STREAMING_CHECKPOINT_MISSING_METADATA_FILE] …", CheckpointCorruptError, False),
    ("Log file was malformed: failed to read correct log version", CheckpointCorruptError, False),
    ("Multiple streaming queries are concurrently using /lake/c/offsets", CheckpointCorruptError, False),
    ("java.lang.IllegalStateException: batch 3 doesn't exist", CheckpointCorruptError, False),
    ("[KAFKA_DATA_LOSS.ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO] …", OffsetsExpiredError, False),
    ("[DELTA_MISSING_FILES_UNEXPECTED_VERSION] …", OffsetsExpiredError, False),
    ("[DELTA_VERSIONS_NOT_CONTIGUOUS] …", OffsetsExpiredError, False),
    ("[DELTA_CHANGE_DATA_FILE_NOT_FOUND] …", OffsetsExpiredError, False),
    ("[DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE] …", OffsetsExpiredError, False),
    ("org.apache.kafka.clients.consumer.OffsetOutOfRangeException: …", OffsetsExpiredError, False),
    ("org.apache.kafka.common.errors.TimeoutException: Timed out waiting", SourceUnavailableError, True),
    ("org.apache.kafka.common.errors.UnknownTopicOrPartitionException", SourceUnavailableError, True),
    ("java.net.ConnectException: Connection refused", SourceUnavailableError, True),
    ("[FAILED_READ_FILE.FILE_NOT_EXIST] … s3://b/lake/tables/x/_delta_log/0.json", MachineUnavailableError, True),
    ("[FAILED_READ_FILE.FILE_NOT_EXIST] … file:/lake/tables/x/_delta_log/0.json", UnexpectedError, False),
    ("[DELTA_SCHEMA_CHANGED_WITH_VERSION] …", DeclarationConflictError, False),
    ("[CAST_INVALID_INPUT] The value 'secret@example.org' of the type", UnexpectedError, False),
]


@pytest.mark.parametrize(("message", "kind", "transient"), MESSAGES)
def test_the_type_of_the_error_depends_on_sparks_message(
    message: str, kind: type[TidegateError], transient: bool
) -> None:
    error = translate(RuntimeError(message), what="flow 'silver'", checkpoint="checkpoints/flights/silver/v1/0")

    assert type(error) is kind
    assert error.transient is transient
    assert "flow 'silver'" in error.message


def test_the_message_has_the_innermost_condition_and_no_value() -> None:
    message = "[STREAM_FAILED] [FOREACH_BATCH_USER_FUNCTION_ERROR] [CAST_INVALID_INPUT] The value 'secret@example.org'"

    error = translate(RuntimeError(message), what="flow 'silver'", checkpoint="c")

    assert "CAST_INVALID_INPUT" in error.message
    assert "secret" not in error.message


FRAME = '  File "jobs.py", line 3, in clean\n    raise Odd(value)\n          ^^^^^^^^^^\n'
HEAD = "Traceback (most recent call last):\n"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (f"{HEAD}{FRAME}ValueError: secret@example.org", "ValueError"),
        (f"{HEAD}{FRAME}clean.<locals>.Odd: secret@example.org\nTypeError: secret@example.org", "Odd"),
        (f"{HEAD}{FRAME}pyarrow.lib.ArrowInvalid: Could not convert 'secret@example.org'", "ArrowInvalid"),
        (f"{HEAD}{FRAME}KeyError: 1\n\nThe above exception was …:\n\n{HEAD}{FRAME}LookupError", "LookupError"),
        ("secret@example.org", "Exception"),
        ("", "Exception"),
    ],
)
def test_the_type_of_a_python_exception_is_read_from_its_traceback_and_never_from_its_message(
    text: str, name: str
) -> None:
    assert python_type(text) == name


def test_no_exception_of_python_itself_is_that_of_a_value() -> None:
    assert value_error(ValueError("secret@example.org")) is None
    assert value_error(SpecError("fix it")) is None


def test_a_refused_connection_is_the_end_of_the_jvm_only_if_that_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refused = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
    with socket.create_server(("127.0.0.1", 0)) as server:
        address, port = server.getsockname()
        gateway = SimpleNamespace(gateway_parameters=SimpleNamespace(address=address, port=port))
        monkeypatch.setattr(SparkContext, "_gateway", gateway)
        assert "a server does not answer (ECONNREFUSED)" in translate(refused, what="flow 'x'", checkpoint="/c").message
    ended = translate(refused, what="flow 'x'", checkpoint="/c")
    assert ended.message.startswith("flow 'x': the JVM of Spark has ended. Look for the reason in ")
    assert ended.transient


def test_a_tidegate_error_is_returned_unchanged() -> None:
    error = SpecError("fix it")

    assert translate(error, what="flow 'silver'", checkpoint="c") is error
    assert not issubclass(GateRefusedError, SpecError)


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (
            "[FAILED_READ_FILE.FILE_NOT_EXIST] … reading file file:///lake/tables/bronze/a/x.parquet.",
            OffsetsExpiredError,
        ),
        ("java.io.FileNotFoundException: File file:/lake/tables/bronze/a/_change_data/c.parquet", OffsetsExpiredError),
        ("[FAILED_READ_FILE.FILE_NOT_EXIST] … reading file file:///lake/tables/silver/a/x.parquet.", UnexpectedError),
        ("[FAILED_READ_FILE.NO_HINT] … reading file file:///lake/tables/bronze/a/x.parquet.", UnexpectedError),
    ],
)
def test_the_message_for_a_missing_file_of_the_source_table_asks_for_a_new_version(
    message: str, kind: type[TidegateError]
) -> None:
    error = translate(RuntimeError(message), what="flow 'silver'", checkpoint="c", feeds=["/lake/tables/bronze/a"])

    assert type(error) is kind
    assert ("raise checkpoint_version" in error.message) is (kind is OffsetsExpiredError)
    assert type(translate(RuntimeError(message), what="flow 'bronze'", checkpoint="c")) is UnexpectedError


@pytest.mark.parametrize(
    ("number", "names"),
    [(errno.EROFS, True), (errno.ENOSPC, True), (errno.EIO, True), (errno.ENOMEM, False)],
)
def test_an_error_of_the_system_without_a_path_names_the_folders_in_which_the_file_may_be(
    number: int, names: bool
) -> None:
    error = translate(OSError(number, "…"), what="flow 'silver'", checkpoint="checkpoints/flights/silver/v1/0")

    assert ("(spark.local.dir)" in error.message) is names
    assert errno.errorcode[number] in error.message
