"""A table's keys and sequence say how rows get into it."""

from __future__ import annotations

import pytest

from tests.spec.trips import RECOMPUTED, UPSERTED
from tidegate.spec import Table


@pytest.mark.parametrize(
    ("table", "layer", "mode"),
    [(Table("bronze.trips"), "bronze", "append"), (UPSERTED, "silver", "upsert"), (RECOMPUTED, "gold", "recompute")],
)
def test_keys_and_sequence_say_how_rows_get_in(table: Table, layer: str, mode: str) -> None:
    assert (table.layer, table.write_mode) == (layer, mode)


def test_one_column_may_be_written_without_its_tuple() -> None:
    assert Table("silver.trips", keys="id", sequence_by="at") == UPSERTED  # type: ignore[arg-type]
