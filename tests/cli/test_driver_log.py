"""The log of a job is in the lake when its process has ended, wherever the lake is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.s3_server import S3Process
from tests.store.buckets import new_store
from tidegate.cli import driver_log
from tidegate.store import Address


def test_in_a_folder_the_process_writes_the_log_itself(tmp_path: Path) -> None:
    with driver_log.written(Address.local(tmp_path / "driver.log")) as log:
        assert log.path == tmp_path / "driver.log"
    assert log.kept == Address.local(tmp_path / "driver.log")


def test_in_a_bucket_the_log_is_put_there_at_the_end_also_of_a_command_that_is_stopped(s3_server: S3Process) -> None:
    address = Address(new_store(s3_server), "reports/driver.log")
    with pytest.raises(KeyboardInterrupt), driver_log.written(address) as log:
        log.path.write_text("starting\n")
        raise KeyboardInterrupt
    assert log.kept == address and address.read().data == b"starting\n"
    assert not log.path.exists()


def test_a_log_that_the_bucket_does_not_take_stays_on_this_machine(s3_server: S3Process) -> None:
    address = Address(new_store(s3_server, 0, AWS_SECRET_ACCESS_KEY="wrong"), "reports/driver.log")
    with driver_log.written(address) as log:
        log.path.write_text("starting\n")
    assert log.kept.read().data == b"starting\n"
    log.path.unlink()
