"""A field that is added to the ledger line is in the table, in ``tidegate query``, in the report and on pages, without another edit."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tidegate.reports import ledger_line

pytestmark = pytest.mark.slow

FIELD = "    already_read: int = part("
ADDED = '    misdirected: int = part("row", note="of another feed", rare=True)\n'
STEPS = """
import json, sys
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

source, folder = sys.stdin.read(), Path(sys.argv[1])
module = module_from_spec(spec_from_loader("tidegate.reports.ledger_line", None))
sys.modules["tidegate.reports.ledger_line"] = module
exec(compile(source, "ledger_line.py", "exec"), vars(module))

import tidegate.reports
tidegate.reports.ledger_line = module

from tidegate.lake.layout import Layout
from tidegate.ops import lake_query, ledger, store, table
from tidegate.pages.content import PageContent
from tidegate.lake.place import PipelinePlace
from tidegate.reports.report import FlowReport, RunReport, now
from tidegate.reports.report_lines import flow_lines
from tidegate.store import Address
from tests.pages import samples

layout = Layout.local(folder / "lake", folder / "landing")
place = PipelinePlace(layout, "flights")
key = {"flow": "silver", "app_id": "flights/silver/v1/0", "kind": "upsert"}
earlier = ledger.RecordedLine(**key, batch_id=0, read=1, written=1)
of_earlier_release = {name: kind for name, kind in ledger.LEDGER.columns.items() if name != "misdirected"}
store.append(ledger.LEDGER.address(place), of_earlier_release, [table.row_of(earlier)])
line = module.LedgerLine(**key, batch_id=1, read=3, written=2, misdirected=1)
ledger.record(place, line, ledger.RunOrigin(run_key="run-1", checkpoint_version=1, refresh=0))

flow = FlowReport(flow="silver", target="silver.flights", checkpoint_version=1, batches=[line])
report = RunReport(dag_id="flights", run_key="run-1", attempt="a", started_at=now(), flows=[flow])
report.write(Address.local(folder / "report.json"))
with lake_query.execute(layout, "SELECT misdirected FROM ops.flights.ledger ORDER BY batch_id", {}) as result:
    queried = result.cursor.fetchall()
page = PageContent(layout).batch(samples.flights(), "silver", "v1-0-batch-1")
print(json.dumps({
    "balance": line.imbalance(),
    "report": dict(flow_lines(flow)).get("rows"),
    "stored": RunReport.read(Address.local(folder / "report.json")).flow("silver").total("misdirected"),
    "query": queried,
    "ledger": [each.misdirected for each in ledger.LEDGER.read(place)],
    "page": [[each.label, each.count, each.note] for shares in page["tables"] for each in shares.lines],
    "sentence": page["sentence"],
}))
"""


def test_a_field_that_is_added_to_the_ledger_line_is_wherever_lines_are(tmp_path: Path) -> None:
    source = Path(ledger_line.__file__).read_text(encoding="utf-8")
    assert source.count(FIELD) == 1
    done = subprocess.run(
        [sys.executable, "-c", STEPS, str(tmp_path)],
        input=source.replace(FIELD, ADDED + FIELD),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "balance": 0,
        "report": "3 read = 2 written + 1 misdirected",
        "stored": 1,
        "query": [[None], [1]],
        "ledger": [0, 1],
        "page": [
            ["written", 2, "in the target"],
            ["quarantined", 0, "broke a rule; see the quarantine table"],
            ["misdirected", 1, "of another feed"],
        ],
        "sentence": "3 rows read: 2 written, 1 misdirected.",
    }
