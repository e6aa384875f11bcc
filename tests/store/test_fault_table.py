"""A table of faults between the platform and a server: by what is done, to which kind of object, and before or after the effect.

Each is aimed at one request. Whatever becomes of it, the act has its effect once: at the first attempt, or at a second one behind an
error that says that it may be tried again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import filterfalse
from typing import Any

import pytest

from tests.s3_server import S3Process
from tests.slices import of_week
from tests.store.buckets import directly, new_store
from tests.store.proxy import S3Proxy, ServerFault
from tidegate.checkpoints import history, object_lease
from tidegate.errors import LeaseHeldError
from tidegate.errors.classification import classify
from tidegate.lake.layout import Layout
from tidegate.lake.place import PipelinePlace, Place
from tidegate.ops import ledger
from tidegate.probes import files
from tidegate.reports.ledger_line import LedgerLine
from tidegate.reports.report import RunReport
from tidegate.store import Address
from tidegate.store.memory import MemoryStore

Fault = Callable[[str, str], ServerFault]
"""Made of the method and of a regular expression of the path."""
FAULTS: dict[str, Fault] = {
    "500": lambda method, path: ServerFault(method, path, status=500, code="InternalError"),
    "503 SlowDown": lambda method, path: ServerFault(method, path, status=503, code="SlowDown"),
    "reset": lambda method, path: ServerFault(method, path),
    "expired token": lambda method, path: ServerFault(method, path, status=400, code="ExpiredToken"),
    "clock of 20 minutes before": lambda method, path: ServerFault(
        method, path, status=403, code="RequestTimeTooSkewed"
    ),
    "slow first byte": lambda method, path: ServerFault(method, path, delay=0.2),
}
OF_WRITES: dict[str, Fault] = {
    "lost acknowledgement": lambda method, path: ServerFault(method, path, after=True),
    "500 behind the effect": lambda method, path: ServerFault(
        method, path, status=500, code="InternalError", after=True
    ),
    "409": lambda method, path: ServerFault(method, path, status=409, code="ConditionalRequestConflict"),
}
OF_READS: dict[str, Fault] = {
    "truncated": lambda method, path: ServerFault(method, path, cut=True),
    "404 just behind a listing": lambda method, path: ServerFault(method, path, status=404, code="NoSuchKey"),
}


@dataclass(frozen=True)
class Act:
    """What a command or a job does in a lake."""

    method: str
    path: str
    """A regular expression of the path of the request."""
    do: Callable[[Layout], Any]
    effect: Callable[[Layout], Any]
    """What there is afterwards, read without the proxy."""
    expected: Any
    reads: bool = False


def place(layout: Layout) -> Place:
    return Place(layout, "orders", "silver", 1, 0)


def take_lease(layout: Layout) -> None:
    with contextlib.suppress(LeaseHeldError), object_lease.hold(layout, ("table:a",), what="a job", ttl=3.0):
        assert object_lease.last(layout, "table:a") is not None


def record_line(layout: Layout, batch: int = 0) -> None:
    line = LedgerLine(flow="silver", batch_id=batch, app_id="orders/silver/v1/0", kind="append", read=1, written=1)
    ledger.record(PipelinePlace(layout, "orders"), line, ledger.RunOrigin())


def record_lines(layout: Layout) -> None:
    record_line(layout)
    record_line(layout, 1)


def ledger_lines(layout: Layout) -> int:
    return ledger.rows_read(PipelinePlace(layout, "orders"), "orders/silver/v1/0")


def write_note(layout: Layout) -> None:
    history.write(place(layout), batch=1, positions={})


def note(layout: Layout) -> Any:
    known = history.read(place(layout))
    return None if known is None else known.batch


REPORT = "reports/orders/r/a/report.json"
ACTS = {
    "create a note": Act("PUT", r"history\.json", write_note, note, 1),
    "take a lease": Act("PUT", "/leases/", take_lease, lambda at: object_lease.last(at, "table:a"), None),
    "look at a lease": Act(
        "GET", "/leases/", take_lease, lambda at: object_lease.last(at, "table:a"), None, reads=True
    ),
    "commit a line of the ledger": Act("PUT", r"ledger/_delta_log/\d+\.json", record_line, ledger_lines, 1),
    "commit another line of the ledger": Act(
        "PUT", rf"ledger/_delta_log/{1:020d}\.json", record_lines, ledger_lines, 2
    ),
    "write the file of a line": Act("PUT", r"ledger/part-", record_line, ledger_lines, 1),
    "append a line": Act(
        "PUT",
        r"plans\.jsonl",
        lambda at: PipelinePlace(at, "orders").plans.append(b"{}\n"),
        lambda at: PipelinePlace(at, "orders").plans.read().data,
        b"{}\n",
    ),
    "write a report": Act(
        "PUT",
        r"report\.json",
        lambda at: RunReport(dag_id="orders", run_key="r", attempt="a", started_at="now").write(at.root / REPORT),
        lambda at: RunReport.read(at.root / REPORT) is not None,
        True,
    ),
    "list a landing zone": Act(
        "GET",
        "list-type",
        lambda at: [file.size for file in files.list_files(at.root / "landed", "*").files],
        lambda at: (at.root / "landed" / "a.csv").read().data,
        b"a,b\n1,2\n",
        reads=True,
    ),
    "read a landed file": Act(
        "GET",
        r"a\.csv",
        lambda at: (at.root / "landed" / "a.csv").open().read() == b"a,b\n1,2\n",
        lambda at: (at.root / "landed" / "a.csv").read().data,
        b"a,b\n1,2\n",
        reads=True,
    ),
}
CELLS = [(name, fault) for name, act in ACTS.items() for fault in (*FAULTS, *(OF_READS if act.reads else OF_WRITES))]
DAILY = {
    ("commit a line of the ledger", "409"),
    ("commit a line of the ledger", "lost acknowledgement"),
    ("create a note", "lost acknowledgement"),
    ("read a landed file", "truncated"),
    ("take a lease", "lost acknowledgement"),
}


@pytest.fixture
def layouts(proxy: S3Proxy, s3_server: S3Process) -> Iterator[tuple[Layout, Layout]]:
    """A lake behind the proxy, and the same without it."""
    behind = new_store(s3_server, 2.0, endpoint=proxy.endpoint)
    behind.check()
    (Address(behind) / "landed" / "a.csv").put(b"a,b\n1,2\n")
    landing = Address(MemoryStore())
    yield Layout(Address(behind), landing), Layout(Address(directly(behind, s3_server)), landing)


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        *sorted(DAILY),
        *(
            pytest.param(*cell, marks=pytest.mark.nightly)
            for cell in of_week([*filterfalse(DAILY.__contains__, CELLS)], 8)
        ),
    ],
)
def test_each_act_has_its_effect_once_whatever_fault_its_request_meets(
    layouts: tuple[Layout, Layout], proxy: S3Proxy, name: str, fault: str
) -> None:
    (layout, directly_at), act = layouts, ACTS[name]
    aimed = proxy.fail({**FAULTS, **OF_WRITES, **OF_READS}[fault](act.method, act.path))
    error: Exception | None = None
    try:
        result = act.do(layout)
    except Exception as raised:
        error = raised
    assert aimed.fired, "a cell that never fired proves nothing"
    if error is not None:
        classified = classify(error)
        assert classified.exit_code in (75, 78), repr(error)
        assert act.do(layout) in (None, True, [8]), "the next attempt goes on"
    else:
        assert result in (None, True, [8])
    assert act.effect(directly_at) == act.expected
