"""What `tidegate doctor` checks, part by part, on storage whose faults are known."""

from __future__ import annotations

import dataclasses
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.s3_server import S3Process
from tidegate.environment import Environment
from tidegate.environment.settings import SETTINGS
from tidegate.status import deployment
from tidegate.status.deployment import CheckedPart
from tidegate.store.memory import MemoryStore
from tidegate.store.store import Entry, Status

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


class SkewedStore(MemoryStore):
    """Its clock is so many seconds ahead."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def stat(self, key: str) -> Entry:
        """With another time."""
        entry = super().stat(key)
        ahead = entry.modified_ns + int(self.seconds * 1e9)
        return Entry(entry.key, entry.kind, lambda: Status(entry.size, ahead, entry.revision))


class PromiseBreakingStore(MemoryStore):
    """Creates what exists."""

    def put_if(self, key: str, data: bytes, tag: str | None) -> str:
        """Without the condition."""
        del tag
        self.put(key, data)
        return "1"

    def delete(self, key: str) -> None:
        """Is refused."""
        raise PermissionError(13, "Permission denied", self.uri(key))


def checked(environment: Environment) -> dict[str, CheckedPart]:
    return {part.name: part for part in deployment.check(environment, {})}


def in_store(store: MemoryStore) -> Environment:
    return dataclasses.replace(Environment.read({"TIDEGATE_KAFKA": "127.0.0.1:9"}), store_of=lambda _: store)


@given(st.one_of(st.floats(-1e6, 1e6), st.sampled_from([-31.5, -28.0, 0.0, 29.0, 31.5])))
def test_the_clock_of_the_storage_is_compared_with_that_of_this_machine(seconds: float) -> None:
    store = SkewedStore(seconds)
    difference = deployment.clock_difference(store)
    assert difference == pytest.approx(seconds, abs=1.5)
    assert (difference > 0) == (seconds > 0) or abs(seconds) < 1.5
    assert store.list() == [], "the key is deleted"


@pytest.mark.parametrize(("seconds", "says"), [(900, "900 s ahead of"), (-900, "behind"), (10, None)])
def test_a_clock_that_is_wrong_is_an_error_that_says_by_how_much(seconds: int, says: str | None) -> None:
    lake = checked(in_store(SkewedStore(seconds)))["lake"]
    assert lake.state == ("ok" if says is None else "failed")
    assert says is None or (says in lake.detail and "time server" in lake.detail)


def test_a_lake_in_which_nothing_can_be_deleted_is_an_error_with_its_address() -> None:
    lake = checked(in_store(PromiseBreakingStore()))["lake"]
    assert lake.state == "failed" and "memory:///_doctor-" in lake.detail


def test_a_bucket_is_asked_for_its_conditions_and_left_as_it_was(s3_server: S3Process) -> None:
    bucket = s3_server.new_bucket()
    variables = {**s3_server.variables, "TIDEGATE_LAKE": f"s3://{bucket}/lake", "TIDEGATE_KAFKA": "127.0.0.1:9"}
    environment = Environment.read(variables)
    lake = checked(environment)["lake"]
    assert (lake.state, lake.error) == ("ok", None)
    assert "of the source 'environment'" in lake.detail
    assert environment.store_of(environment.lake_at).list() == []

    wrong = checked(Environment.read({**variables, "AWS_SECRET_ACCESS_KEY": "canary"}))["lake"]
    assert wrong.state == "failed" and "canary" not in wrong.detail


def test_the_environment_of_jobs_is_asked_what_it_has(tmp_path: Path) -> None:
    environment = Environment.read({"TIDEGATE_KAFKA": "127.0.0.1:9", "TIDEGATE_LAKE": str(tmp_path)})
    jobs = checked(environment)["environment of jobs"]
    assert jobs.state == "ok" and "this environment, Python 3" in jobs.detail and "bin/spark-submit" in jobs.detail
    elsewhere = checked(dataclasses.replace(environment, job_python=Path("/nowhere/python")))["environment of jobs"]
    assert elsewhere.state == "failed" and "TIDEGATE_JOB_PYTHON" in elsewhere.detail


def test_every_variable_of_the_platform_is_known() -> None:
    files = subprocess.check_output(["git", "ls-files", "tidegate", "demo", "devstack", "scripts"], cwd=ROOT, text=True)
    sources = [ROOT / name for name in files.split() if name.endswith((".py", ".sh"))]
    named = {name for path in sources for name in re.findall(r"\bTIDEGATE_[A-Z0-9_]+", path.read_text("utf-8"))}
    declared = {setting.variable.partition("<NAME>")[0] for setting in SETTINGS}
    assert named == {name for name in declared if name.startswith("TIDEGATE_")}


def test_an_airflow_outside_of_the_range_is_an_error_with_the_range(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata = tmp_path / "apache_airflow_core-3.0.6.dist-info/METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: apache-airflow-core\nVersion: 3.0.6\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    airflow = checked(in_store(MemoryStore()))["Airflow"]
    assert airflow.state == "failed"
    assert "has apache-airflow 3.0.6, and this Tidegate works with versions from 3.1 on, below 4" in airflow.detail
