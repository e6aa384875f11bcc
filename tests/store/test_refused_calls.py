"""Each system call of each operation of a local store fails: the old content is there or the new one, and the error names the file."""

from __future__ import annotations

import base64
import errno
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.refused_calls import CALLS_OF_FOLDERS, ERRORS, RefusedCalls
from tests.store.operations import OPERATIONS, fill
from tidegate.store import LocalStore

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).parents[2]
HIDDEN = ("read", "open", "list", "stat", "exists")
"""Operations that change nothing."""


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> RefusedCalls:
    if not any(map(shutil.which, ("cc", "gcc", "clang"))):
        pytest.skip("there is no C compiler")
    folder = tmp_path_factory.mktemp("refused")
    return RefusedCalls.build(folder, folder / "root")


@pytest.fixture(scope="module")
def operate(calls: RefusedCalls) -> Iterator[Callable[[str], dict[str, Any]]]:
    """Does one operation in the process whose calls are refused."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.store.operations"],
        cwd=PROJECT,
        env={**os.environ, **calls.variables_of_folders},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    stdin, stdout = process.stdin, process.stdout

    def operate(name: str) -> dict[str, Any]:
        stdin.write(json.dumps([str(calls.root), name]) + "\n")
        stdin.flush()
        answer: dict[str, Any] = json.loads(stdout.readline())
        if "result" in answer:
            answer["result"] = base64.b64decode(answer["result"])
        return answer

    yield operate
    process.communicate()


def refill(root: Path) -> LocalStore:
    shutil.rmtree(root, ignore_errors=True)
    store = LocalStore(root)
    fill(store)
    return store


def contents(store: LocalStore) -> dict[str, bytes]:
    made = {"h/i": b"a folder"} if store.exists("h/i") else {}
    return made | {entry.key: store.read(entry.key).data for entry in store.walk()}


def leftovers(store: LocalStore) -> list[str]:
    """Files that are of no key, and not locks."""
    files = {str(path.relative_to(store.root)) for path in store.root.rglob("*") if path.is_file()}
    return sorted(file for file in files - contents(store).keys() if not file.startswith(".locks/"))


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_call_of_an_operation_may_fail(
    name: str, calls: RefusedCalls, operate: Callable[[str], dict[str, Any]]
) -> None:
    store = refill(calls.root)
    before = contents(store)
    calls.allow()
    wanted = operate(name)
    made, after = calls.calls(), contents(store)
    assert "result" in wanted
    assert (before == after) == (name in HIDDEN)
    assert made

    refused = Counter[str]()
    for call in made:
        for error in ERRORS:
            store = refill(calls.root)
            with calls.refuse(call, error):
                answer = operate(name)
            where = f"{name}: {call.name} of {call.kind}: {error}: {answer}"
            assert calls.refused(), where
            refused[call.name] += 1
            calls.allow()
            now = contents(store)
            if "result" in answer:
                # What fails, and needs not succeed, is the creation of a folder that exists, and the removal of a temporary file.
                assert (answer, now) == (wanted, after), where
                assert call.name in ("create", "remove"), where
            else:
                assert answer["error"] == getattr(errno, error), where
                assert answer["file"].startswith(f"{calls.root}/"), where
                assert ".tmp" not in answer["file"], where
                assert now in (before, after), where
            if now == before:
                assert (operate(name), contents(store)) == (wanted, after), where
            if name == "delete_folder" and now == after:
                # What could not be removed goes with the next removal.
                store.put("f/a", b"")
                store.delete_folder("f")
            if call.name != "remove" or name == "delete_folder":
                assert leftovers(store) == [], where
    print(name, dict(refused))


def test_the_calls_of_folders_are_among_those_that_fail(
    calls: RefusedCalls, operate: Callable[[str], dict[str, Any]]
) -> None:
    refill(calls.root)
    calls.allow()
    for name in ("put where no folder is", "list", "stat", "delete"):
        operate(name)
    assert {call.name for call in calls.calls()} >= set(CALLS_OF_FOLDERS)
