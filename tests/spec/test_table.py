"""A table's keys and sequence columns determine its write mode."""

from __future__ import annotations

import pytest

from tests.spec.trips import RECOMPUTED, UPSERTED
from tidegate.spec import Table


@pytest.mark.parametrize(
    ("table", "layer", "mode"),
    [(Table("bronze.trips"), "bronze", "append"), (UPSERTED, "silver", "upsert"), (RECOMPUTED, "gold", "recompute")],
)
def test_keys_and_sequence_determine_the_write_mode(table: Table, layer: str, mode: str) -> None:
    assert (table.layer, table.write_mode) == (layer, mode)


def test_a_single_column_may_be_given_without_a_tuple() -> None:
    assert Table("silver.trips", keys="id", sequence_by="at") == UPSERTED  # type: ignore[arg-type]


def test_the_scope_is_the_key_unless_a_part_of_the_key_is_replaced_as_a_whole() -> None:
    legs = Table("silver.legs", keys=("id", "leg"), sequence_by=("at",), replace_by="id")  # type: ignore[arg-type]

    assert (UPSERTED.scope, UPSERTED.child_keys) == (("id",), ())
    assert (legs.write_mode, legs.scope, legs.child_keys) == ("upsert", ("id",), ("leg",))
