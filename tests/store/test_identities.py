"""A server that refuses the keys of the platform: the same error from obstore and delta-rs, without a word of the server's answer."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow
import pytest

from tests.s3_server import REGION, S3Process
from tests.store.identities import IdentityProxy
from tests.store.token_endpoint import TokenEndpoint
from tidegate.errors import MachineError, classify
from tidegate.errors.object_storage import BY_CODE
from tidegate.probes import delta_table
from tidegate.store import Address
from tidegate.store.objects import ObjectStore
from tidegate.store.s3 import S3Server

REFUSALS: dict[str, Callable[[TokenEndpoint], None]] = {
    "ExpiredToken": lambda endpoint: endpoint.end_all(),
    "InvalidAccessKeyId": lambda endpoint: endpoint.keys.clear(),
    "InvalidToken": lambda endpoint: replace_keys(endpoint, token="canary-other"),
    "SignatureDoesNotMatch": lambda endpoint: replace_keys(endpoint, secret_key="canary-other"),
}


def replace_keys(endpoint: TokenEndpoint, **changes: Any) -> None:
    for name, key in endpoint.keys.items():
        endpoint.keys[name] = dataclasses.replace(key, **changes)


def table_of(
    source: str, s3_server: S3Process, identity_proxy: IdentityProxy, endpoint: TokenEndpoint, folder: Path
) -> Address:
    """A table with one row, in a bucket of a server that knows who signs."""
    located = {"HOME": str(folder), "AWS_ENDPOINT_URL_S3": identity_proxy.endpoint, "AWS_REGION": REGION}
    server = S3Server(located | endpoint.variables(source, folder))
    address = Address(ObjectStore(server, s3_server.new_bucket(), patience=0.0), "table")
    deltalake.write_deltalake(address.uri, pyarrow.table({"a": [1]}), storage_options=dict(address.options))
    return address


@pytest.mark.parametrize("code", REFUSALS)
def test_keys_that_the_server_refuses_are_the_same_error_from_each_client(
    code: str, s3_server: S3Process, identity_proxy: IdentityProxy, endpoint: TokenEndpoint, tmp_path: Path
) -> None:
    table = table_of("environment", s3_server, identity_proxy, endpoint, tmp_path)
    opened = delta_table.open_table(table)
    REFUSALS[code](endpoint)
    with pytest.raises(OSError, match=code) as of_obstore:
        (table / "x").read()
    with pytest.raises(MachineError, match=code) as of_reading:
        delta_table.before_damage(table, 0)
    with pytest.raises(MachineError, match=code) as of_writing, delta_table.writing(table):
        deltalake.write_deltalake(opened, pyarrow.table({"a": [2]}), mode="append")
    assert {each.refused for each in identity_proxy.signed} == {"", code}
    for error in (classify(of_obstore.value), of_reading.value, of_writing.value):
        assert BY_CODE[code].meaning in str(error)
        assert error.transient is BY_CODE[code].kind.transient
        assert error.__cause__ is None or isinstance(error.__cause__, OSError)
        assert "canary" not in f"{error}{error.__cause__}"


@pytest.mark.parametrize("source", ["web-identity", "container", "instance"])
def test_keys_that_end_before_their_time_are_replaced_in_mid_run(
    source: str, s3_server: S3Process, identity_proxy: IdentityProxy, endpoint: TokenEndpoint, tmp_path: Path
) -> None:
    table = table_of(source, s3_server, identity_proxy, endpoint, tmp_path)
    table.store._patience = 20.0  # type: ignore[attr-defined]  # of the store in a bucket
    first = set(endpoint.keys)
    endpoint.end_all()
    version = delta_table.open_table(table).version()
    (table / "x").put(b"1")
    assert version == 0
    assert {each.refused for each in identity_proxy.signed} == {"", "ExpiredToken"}
    assert identity_proxy.signed[-1].access_key not in first
    assert identity_proxy.identities() == {source}
