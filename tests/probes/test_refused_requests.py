"""What delta-rs says about an answer of an object store is the same error as what the store says about it."""

from __future__ import annotations

from collections.abc import Callable

import deltalake
import pyarrow
import pytest

from tests.s3_server import S3Process
from tests.store.buckets import directly, new_store
from tests.store.proxy import S3Proxy, ServerFault
from tidegate.errors import MachineError, classify
from tidegate.probes import delta_table
from tidegate.store import Address

ROWS = pyarrow.table({"id": [1]})
FEW_ATTEMPTS = {"max_retries": "1", "backoff_config.max_backoff": "10ms"}


REFUSALS = (
    (403, "AccessDenied"),
    (403, "InvalidAccessKeyId"),
    (403, "RequestTimeTooSkewed"),
    (404, "NoSuchBucket"),
    (400, "ExpiredToken"),
    (400, ""),
    (409, "OperationAborted"),
    (500, "InternalError"),
    (503, "SlowDown"),
    (0, ""),
)
"""Status and code; 0 is a connection that is reset."""


@pytest.mark.parametrize(("status", "code"), REFUSALS)
def test_delta_rs_and_the_store_name_the_same_cause(
    proxy: S3Proxy, s3_server: S3Process, status: int, code: str
) -> None:
    store = new_store(s3_server, 0, endpoint=proxy.endpoint)
    table = Address(store, "tables/silver/a")
    deltalake.write_deltalake(table.uri, ROWS, storage_options=dict(directly(store, s3_server).options))
    options = {**table.options, **FEW_ATTEMPTS}

    def open_table() -> None:
        with delta_table.reading(table):
            deltalake.DeltaTable(table.uri, storage_options=options)

    def read() -> None:
        with delta_table.reading(table):
            deltalake.DeltaTable(table.uri, storage_options=options).to_pyarrow_table()

    def append() -> None:
        with delta_table.writing(table):
            deltalake.write_deltalake(table.uri, ROWS, mode="append", storage_options=options)

    acts: tuple[tuple[str, str, str, Callable[[], object]], ...] = (
        ("read", "GET", "_last_checkpoint", open_table),
        ("read", "GET", r"/part-.*\.parquet", read),
        ("write", "PUT", r"/part-.*\.parquet", append),
    )
    of_store: dict[str, Callable[[], object]] = {
        "read": lambda: store.read("a/b"),
        "write": lambda: store.put("a/b", b""),
    }
    for operation, method, path, act in acts:
        expected = _error(proxy, ServerFault(method, "a/b", status, code), of_store[operation])
        # A log that delta-rs does not find is judged by the store, which lists it before.
        if (status, path) != (404, "_last_checkpoint"):
            of_delta_rs = _error(proxy, ServerFault(method, path, status, code, repeats=True), act)
            assert (type(of_delta_rs), of_delta_rs.error, of_delta_rs.exit_code) == (
                type(expected),
                expected.error,
                expected.exit_code,
            )
            assert of_delta_rs.path.startswith(f"{table.uri}/")
            assert expected.advice == of_delta_rs.advice


def _error(proxy: S3Proxy, fault: ServerFault, act: Callable[[], object]) -> MachineError:
    with proxy.failing(fault), pytest.raises(Exception) as raised:  # the cause is checked
        act()
    assert fault.fired
    error = classify(raised.value)
    assert isinstance(error, MachineError), (error, str(raised.value))
    return error
