"""Updates by tag on a local store: exclusive, whoever is killed or stopped, and wherever."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

from tests.store.writers import KEY, STEPS
from tests.waiting import TIMEOUT_SECONDS
from tidegate.errors import WriteConflictError
from tidegate.errors.classification import classify
from tidegate.store import LocalStore

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.mark.chaos
@pytest.mark.parametrize("updates", [2000, pytest.param(4000, marks=pytest.mark.nightly)])
def test_of_updates_by_four_processes_none_is_lost_and_no_stopped_writer_overwrites_a_later_one(
    updates: int, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "tests.store.writers", str(tmp_path), str(updates), "1"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    assert ended.returncode == 0, ended.stderr
    output = json.loads(ended.stdout)
    store = LocalStore(tmp_path / "lake")
    written = store.read(KEY).data.splitlines()
    acknowledged = (tmp_path / "acknowledged").read_bytes().splitlines()
    kills = sum(count for hit, count in output["hits"].items() if hit.startswith("kill"))
    print(updates, "updates,", len(written), "written,", len(acknowledged), "acknowledged:", output["hits"])

    # An update that was not acknowledged is there once or not at all: at most one for each killed writer.
    assert set(Counter(written).values()) == {1}
    assert set(acknowledged) <= set(written)
    assert len(acknowledged) == len(set(acknowledged))
    assert updates <= len(written) <= len(acknowledged) + kills
    assert output["missed"] == []
    assert all(output["hits"][f"{act} {step}"] for act in ("kill", "stop") for step in STEPS[1:])

    # What the killed ones have left goes with the next update, but for the lock.
    store.put_if(KEY, b"", store.read(KEY).tag)
    files = [path.relative_to(store.root) for path in store.root.rglob("*") if path.is_file()]
    assert sorted(path.parts[0] for path in files) == [".locks", "a"]


def test_a_writer_that_is_stopped_in_its_update_holds_up_the_others_and_is_not_overtaken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, going_on, is_in = LocalStore(tmp_path, wait=0.05), threading.Event(), threading.Event()
    store.put("a", b"old")
    tag, rename = store.read("a").tag, Path.replace

    def stopped(source: Path, target: Path) -> Path:
        is_in.set()
        going_on.wait()
        return rename(source, target)

    monkeypatch.setattr(Path, "replace", stopped)
    writer = threading.Thread(target=store.put_if, args=("a", b"of the stopped one", tag))
    writer.start()
    is_in.wait()
    with pytest.raises(OSError, match=str(tmp_path / "a")) as raised:
        store.put_if("a", b"later", tag)
    assert raised.value.errno == errno.EBUSY
    assert classify(raised.value).transient
    assert store.read("a").data == b"old"
    going_on.set()
    writer.join()
    with pytest.raises(WriteConflictError):
        store.put_if("a", b"later", tag)
    assert store.read("a").data == b"of the stopped one"
