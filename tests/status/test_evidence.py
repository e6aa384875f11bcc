"""What is known of a flow's table where the note beside its checkpoint is lost: the ledger and the checkpoint say what it must have."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction, write_deltalake

from tests.cli.project import orders, stateful_orders
from tests.spark_files import Checkpoint
from tidegate.checkpoints.history import HISTORY, LAST_WRITTEN, LastWritten
from tidegate.lake.layout import Layout
from tidegate.lake.place import Place
from tidegate.spec import ChangeFeed, Flow, Pipeline, Table
from tidegate.status import evidence

JOINED = Pipeline(
    name="orders",
    flows=(
        Flow(
            name="gold",
            sources=(ChangeFeed("silver.orders"), ChangeFeed("silver.customers", on={"customer": "customer"})),
            transform="orders:totals",
            target=Table("gold.orders", keys=("day",)),
        ),
    ),
)
FLOWS = {
    "files": (orders(), "bronze"),
    "a topic": (orders(topic="clicks"), "bronze"),
    "a table": (orders(), "silver"),
    "several tables": (JOINED, "gold"),
    "state": (stateful_orders(), "silver"),
}


@pytest.mark.parametrize(
    ("written", "in_table", "lacks"),
    [(2, 2, ""), (1, 1, ""), (2, 1, "whose last batch is 1"), (0, None, "which does not exist"), (None, None, "")],
)
@pytest.mark.parametrize("kind", FLOWS)
def test_a_table_lacks_a_batch_that_its_checkpoint_has_written(
    tmp_path: Path, kind: str, written: int | None, in_table: int | None, lacks: str
) -> None:
    pipeline, name = FLOWS[kind]
    layout, flow = Layout.local(tmp_path, tmp_path), pipeline.flow(name)
    place = Place(layout, pipeline.name, name, 1, 0)
    made = Checkpoint(place.checkpoint)
    for batch in range(3):
        made.run(batch, {})
        if written is not None and batch <= written:
            LAST_WRITTEN.write(place, LastWritten(batch=batch))
        if in_table is not None and batch <= in_table:
            transaction = CommitProperties(app_transactions=[Transaction(place.app_id, batch)])
            rows = pa.table({"id": [batch]})
            write_deltalake(layout.table(flow.target.name).uri, rows, mode="append", commit_properties=transaction)
    HISTORY.clear(place)

    doubt = evidence.read(place, flow).doubt

    assert (doubt is None) == (not lacks)
    if doubt is not None:
        assert doubt.what == f"the checkpoint has written batch {written} of {place.app_id} in this table, {lacks}"
