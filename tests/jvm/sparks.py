"""Two Spark applications and delta-rs commit to one table in a bucket whose policy refuses writes without a condition."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

import deltalake
import pyarrow

from tests.s3_server import S3Process
from tests.store.proxy import PROTOCOL_FILE, S3Proxy
from tidegate.store.s3 import S3Server

SCRIPT = Path(__file__).with_name("spark_writer.py")
SPARKS = ("one", "two")
APPENDS = 50
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


def expect_each_commit_once(server: S3Process, proxy: S3Proxy) -> dict[str, list[str]]:
    """Let two Sparks and delta-rs commit at the same time, and check that each of their rows is in the table once.

    Args:
        server: The server.
        proxy: Between it and these writers, with the faults that they meet.

    Returns:
        Who tried to write each commit, by its path, in the order of the tries.
    """
    lake = f"s3://{server.new_bucket()}/lake"
    with proxy.serving():
        variables = _variables(server, proxy.endpoint, lake)
        options = S3Server(variables).delta_options
        rows = pyarrow.schema([("writer", pyarrow.string()), ("number", pyarrow.int32())])
        deltalake.DeltaTable.create(f"{lake}/shared", rows, storage_options=options)
        sparks = [_start(variables, name, str(APPENDS)) for name in SPARKS]
        written = 0
        while any(process.poll() is None for process in sparks):
            table = pyarrow.table({"writer": ["delta-rs"], "number": [written]}, schema=rows)
            deltalake.write_deltalake(f"{lake}/shared", table, mode="append", storage_options=options)
            written += 1
            # delta-rs commits in milliseconds: without a pause, Spark finds each version taken, and reads ever more of them.
            while len(_tries(proxy)) < 4 * written and any(process.poll() is None for process in sparks):
                time.sleep(0.2)
        for process in sparks:
            assert _result(process)["appended"] == APPENDS
    expected = {(name, number) for name in SPARKS for number in range(APPENDS)}
    expected |= {("delta-rs", number) for number in range(written)}
    assert written > 5
    assert proxy.refused == []
    tries = _tries(proxy)
    assert max(map(len, tries.values())) > 1, "a version was taken by another writer"
    assert _rows(_variables(server, server.endpoint, lake), f"{lake}/shared") == dict.fromkeys(expected, 1)
    return tries


def _tries(proxy: S3Proxy) -> dict[str, list[str]]:
    """Who tried to write each commit, by its path."""
    tries: dict[str, list[str]] = defaultdict(list)
    for (method, path), agent in zip(proxy.requests, proxy.agents, strict=True):
        if method == "PUT" and PROTOCOL_FILE.search(path):
            tries[path].append(agent)
    return tries
