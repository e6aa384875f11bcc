"""Real Spark applications commit to tables and checkpoints in a bucket whose policy refuses writes without a condition."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import deltalake
import pyarrow
import pytest

from tests.s3_server import S3Process
from tests.store.proxy import PROTOCOL_FILE, S3Proxy
from tidegate.store.s3 import S3Server

pytestmark = pytest.mark.jvm

SCRIPT = Path(__file__).with_name("spark_writer.py")
APPENDS = 8
"""Of each Spark."""
PROJECT = Path(__file__).parents[2]


def _variables(server: S3Process, endpoint: str, lake: str) -> dict[str, str]:
    return {
        **server.variables,
        "AWS_ENDPOINT_URL_S3": endpoint,
        "TIDEGATE_LAKE": lake,
        "TIDEGATE_PROJECT": str(PROJECT),
    }


def _start(variables: dict[str, str], *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(SCRIPT), *arguments]
    return subprocess.Popen(command, env={**os.environ, **variables}, cwd=PROJECT, stdout=subprocess.PIPE, text=True)


def _result(process: subprocess.Popen[str]) -> dict[str, int]:
    output, _ = process.communicate()
    assert process.returncode == 0
    result: dict[str, int] = json.loads(output.splitlines()[-1])
    return result


def _rows(variables: dict[str, str], table: str) -> Counter[tuple[str, int]]:
    opened = deltalake.DeltaTable(table, storage_options=S3Server(variables).delta_options)
    return Counter((row["writer"], row["number"]) for row in opened.to_pyarrow_table().to_pylist())


@pytest.mark.nightly
def test_two_sparks_and_delta_rs_lose_no_commit_of_each_other(s3_server: S3Process) -> None:
    lake = f"s3://{s3_server.new_bucket()}/lake"
    with S3Proxy(s3_server.endpoint).serving() as proxy:
        variables = _variables(s3_server, proxy.endpoint, lake)
        options = S3Server(variables).delta_options
        rows = pyarrow.schema([("writer", pyarrow.string()), ("number", pyarrow.int32())])
        deltalake.DeltaTable.create(f"{lake}/shared", rows, storage_options=options)
        sparks = [_start(variables, name, str(APPENDS)) for name in ("one", "two")]
        written = 0
        while any(process.poll() is None for process in sparks):
            table = pyarrow.table({"writer": ["delta-rs"], "number": [written]}, schema=rows)
            deltalake.write_deltalake(f"{lake}/shared", table, mode="append", storage_options=options)
            written += 1
            # delta-rs commits in milliseconds: without a pause, Spark finds each version taken, and reads ever more of them.
            time.sleep(1)
        for process in sparks:
            assert _result(process)["appended"] == APPENDS
    expected = {(name, number) for name in ("one", "two") for number in range(APPENDS)}
    expected |= {("delta-rs", number) for number in range(written)}
    tries = Counter(path for method, path in proxy.requests if method == "PUT" and PROTOCOL_FILE.search(path))
    assert max(tries.values()) > 1, "a version was taken by another writer"
    assert written > 5
    assert proxy.refused == []
    assert _rows(_variables(s3_server, s3_server.endpoint, lake), f"{lake}/shared") == dict.fromkeys(expected, 1)
