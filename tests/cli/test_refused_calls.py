"""Commands whose system calls fail: no traceback, an exit code that says why, and the command ends right once they succeed again.

Which files a command opens, writes, syncs and renames is logged by a first run of it, so no kind of file can be forgotten.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.cli import project as cli
from tests.cli.project import Project, Result, append, orders, quarantined
from tests.refused_calls import ERRORS, Call, RefusedCalls
from tests.slices import of_week
from tests.spark_files import delta_offset
from tidegate.errors import EX_CONFIG, EX_TEMPFAIL, EX_USAGE
from tidegate.lake.place import FlowPlace
from tidegate.reports.ledger_line import LedgerLine
from tidegate.store import Address

pytestmark = pytest.mark.slow

COMMANDS: dict[str, tuple[str, ...]] = {
    "plan": ("plan", "orders"),
    "run": ("run", "orders"),
    "status": ("status", "orders"),
    "lag": ("lag", "orders"),
    "alerts": ("alerts", "orders"),
    "ledger": ("ledger", "orders"),
    "checkpoint": ("checkpoint", "orders"),
    "docs": ("docs", "orders"),
    "query": ("query", "SELECT count(*) FROM silver.orders"),
    "trace": ("trace", "silver.orders", "--key", "order_id=A-1"),
    "list": ("quarantine", "list", "orders"),
    "waive": ("quarantine", "waive", "orders", "silver", "--rule", "between(amount)", "--reason", "known"),
    "off": ("flow", "off", "orders", "gold", "--reason", "an outage"),
    "contract": ("contract", "show", "orders"),
}
DECISIONS = ("waive", "off")
TRANSIENT, TERMINAL = EX_TEMPFAIL, EX_CONFIG


@dataclass(frozen=True)
class Refusing:
    """A project whose commands meet the errors of `calls`, and which can be restored."""

    project: Project
    calls: RefusedCalls
    copy: Path

    def restore(self) -> None:
        shutil.rmtree(self.project.folder)
        shutil.copytree(self.copy, self.project.folder, symlinks=True)

    def run(self, name: str) -> Result:
        variables = {**self.calls.variables, "JAVA_HOME": "/nowhere"}
        return self.project.run(*COMMANDS[name], **variables)

    def content(self) -> dict[str, Any]:
        """Rows of all tables, without times, and the names of the notes beside the checkpoints."""
        layout = self.project.layout
        tables = {name: rows(path) for name, path in layout.delta_tables().items()}
        notes = (path for path in (Path(layout.root) / "checkpoints").rglob("*.json"))
        return tables | {"notes": sorted(str(path.relative_to(Path(layout.root))) for path in notes)}


def rows(path: Path | Address) -> Counter[str]:
    """The rows of a Delta table without times, ids and durations."""
    changing = ("at", "run_key", "attempt", "seconds", "version")
    lines = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
    return Counter(str({name: value for name, value in line.items() if not name.endswith(changing)}) for line in lines)


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Refusing]:
    """A lake with one batch in each table, a new file, and entries in quarantine."""
    folder = tmp_path_factory.mktemp("refused")
    if not any(map(shutil.which, ("cc", "gcc", "clang"))):
        pytest.skip("there is no C compiler")
    project = Project.make(folder / "project")
    calls = RefusedCalls.build(folder, project.folder)
    pipeline = project.declare(orders())
    read = project.land("0.csv", "order_id,amount\nA-1,1.0\n")
    project.checkpoint(pipeline, pipeline.flow("bronze")).listed(0, read).plan(0, {"logOffset": 0}).commit(0)
    above = project.table("bronze.orders", [{"_row_id": "0.csv@1#2", "line": "A-1,1.0"}])
    for name in ("silver", "gold"):
        project.checkpoint(pipeline, pipeline.flow(name)).plan(0, delta_offset(1, table_id=above)).commit(0)
        above = project.table(f"{name}.orders", [{"_row_id": "0.csv@1#2", "order_id": "A-1", "amount": 1.0}])
    for batch_id in range(2):
        line = LedgerLine(
            flow="silver", batch_id=batch_id, app_id="orders/silver/v1/0", kind="upsert", read=1, written=1
        )
        project.record(pipeline, line)
    place = {"path": "file:///landing/orders/1.csv", "line": 7}
    append(
        FlowPlace(project.layout, "orders", "silver").quarantine,
        [quarantined(f"1.csv#{number}", ["between(amount)"], place, "x,-1") for number in range(3)],
    )
    project.land("1.csv", "order_id,amount\nA-2,2.0\n")
    shutil.copytree(project.folder, folder / "copy", symlinks=True)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in calls.variables.items():
            patch.setenv(name, value)
        server = cli._fork_server.__wrapped__()
        patch.setattr(cli, "_fork_server", lambda *_, **__: server)
        yield Refusing(project, calls, folder / "copy")
        server.communicate()


def failed_then_repeated(
    refusing: Refusing, name: str, call: Call, error: str
) -> tuple[int, Result, Result, dict[str, Any]]:
    """Refuse a call of a command, then run it again: the number of refused calls, both results, and the lake after them."""
    refusing.restore()
    with refusing.calls.refuse(call, error):
        first = refusing.run(name)
    count = refusing.calls.refused()
    refusing.calls.allow()
    return count, first, refusing.run(name), refusing.content()


def expect_a_meaning(refusing: Refusing, name: str, call: Call, error: str, wanted: Wanted) -> int:
    """Returns how many calls were refused."""
    count, first, again, content = failed_then_repeated(refusing, name, call, error)
    where = f"tidegate {' '.join(COMMANDS[name])} ({call.name} of {call.kind}: {error}) ended with {first.code}:\n{first.out}{first.err}"
    assert "Traceback" not in first.out, where
    if count:
        # Without Java, `run` ends with 78 after its plan.
        assert first.code in {wanted.code, TERMINAL if error == "EACCES" else TRANSIENT}, where
        assert first.code == wanted.code or error in first.out + first.err, where
    # A decision is refused if it was recorded before.
    done = {wanted.code, EX_USAGE} if name in DECISIONS else {wanted.code}
    assert again.code in done, f"{where}\nand then with {again.code}:\n{again.out}{again.err}"
    assert content == wanted.content, where
    return count


@dataclass(frozen=True)
class Wanted:
    """What a command does that meets no error."""

    code: int
    content: dict[str, Any]
    calls: list[Call]


def undisturbed(refusing: Refusing, name: str) -> Wanted:
    refusing.restore()
    refusing.calls.allow()
    result = refusing.run(name)
    calls = refusing.calls.calls()
    return Wanted(result.code, refusing.content(), calls)


@pytest.mark.parametrize(
    ("name", "call", "kind", "error"),
    [
        ("plan", "open", "lake/tables/bronze/orders/_delta_log/*.json", "EMFILE"),
        ("status", "open", "lake/checkpoints/orders/bronze/v*/*/offsets/*", "EACCES"),
        ("waive", "rename", "lake/quarantine/orders/silver/_delta_log/*.json", "EROFS"),
        ("off", "write", "lake/checkpoints/orders/gold/overrides.jsonl", "EIO"),
        ("waive", "write", "lake/quarantine/orders/silver/part-*", "ENOSPC"),
        ("query", "open", "lake/tables/silver/orders/part-*", "ESTALE"),
    ],
)
def test_each_error_of_the_system_has_an_exit_code_and_the_command_ends_right_after_it(
    refusing: Refusing, name: str, call: str, kind: str, error: str
) -> None:
    assert expect_a_meaning(refusing, name, Call(call, kind), error, undisturbed(refusing, name)) > 0


@pytest.mark.nightly
@pytest.mark.parametrize("name", of_week(list(COMMANDS), 2))
def test_every_call_on_every_kind_of_file_may_fail(refusing: Refusing, name: str) -> None:
    """Each call meets one of the errors, so that each error occurs in every command."""
    wanted = undisturbed(refusing, name)
    assert wanted.code == (TERMINAL if name == "run" else 0)
    refused, failures = Counter[str](), []
    for number, call in enumerate(wanted.calls, start=list(COMMANDS).index(name)):
        error = ERRORS[number % len(ERRORS)]
        try:
            refused[f"{call.name} {error}"] += expect_a_meaning(refusing, name, call, error, wanted)
        except AssertionError as failure:
            failures.append(str(failure))
    print(name, len(wanted.calls), "calls,", refused.total(), "refused:", dict(refused))
    assert not failures, f"{len(failures)} failures\n" + "\n\n".join(failures)
    assert refused.total() >= len(wanted.calls) > 2
