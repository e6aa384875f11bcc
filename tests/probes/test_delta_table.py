"""Values that delta-rs reads, without a JVM."""

from __future__ import annotations

import operator
import re
from pathlib import Path
from typing import Any

import pytest

from tests import old_timestamps
from tests.old_timestamps import INSTANTS
from tidegate.ops import query
from tidegate.probes import delta_table
from tidegate.store import Address
from tidegate.times import dates

pytestmark = pytest.mark.slow

OTHER_READERS = re.compile(
    r"\.(?:load_cdf|scan|to_pyarrow_\w+|to_pandas|is_deltatable)\(|\bDeltaTable\((?!spark\b)|\bQueryBuilder\("
)
"""Of delta-rs; Spark's class of the same name takes a session first."""
COMPARISONS = {"=": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


@pytest.fixture(scope="module", params=[len(INSTANTS), 1])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Address:
    """A table with every instant twice: in so many files of the old type, and of the present one."""
    table = Address.local(tmp_path_factory.mktemp("lake")) / "table"
    parts = [[instant] for instant in INSTANTS] if request.param > 1 else [list(INSTANTS)]
    for old in (True, False):
        for part in parts:
            old_timestamps.append(table, {"sent": part, "nested": [{"list": [each]} for each in part]}, old=old)
    return table


def test_timestamps_of_the_old_type_are_read_as_they_were_written(path: Address) -> None:
    rows = query.query(path, ["sent", "nested"], "SELECT sent, nested.list[1] AS nested FROM delta_table ORDER BY sent")
    assert [row["sent"] for row in rows] == [row["nested"] for row in rows] == sorted(INSTANTS * 2)


@pytest.mark.parametrize("comparison", COMPARISONS)
def test_conditions_find_them_in_whatever_file_they_are(path: Address, comparison: str) -> None:
    for instant in INSTANTS:
        matches = query.query(
            path,
            ["sent"],
            "SELECT sent FROM delta_table ORDER BY sent",
            where=f"sent {comparison} {dates.literal(instant)}",
        )
        expected = [each for each in sorted(INSTANTS * 2) if COMPARISONS[comparison](each, instant)]
        assert [row["sent"] for row in matches] == expected, instant


def test_by_default_delta_rs_reads_them_wrong_so_that_the_setting_is_needed(path: Address) -> None:
    from deltalake import QueryBuilder  # noqa: TID251 - the reader that is not to be used

    builder: Any = QueryBuilder().register("source", delta_table.open_table(path))
    rows = builder.execute("SELECT sent FROM source").read_all().to_struct_array().to_pylist()
    assert sorted(row["sent"] for row in rows) != sorted(INSTANTS * 2)


def test_the_platform_reads_no_table_in_another_way() -> None:
    root = Path(delta_table.__file__).parent.parent
    readers = {
        str(file.relative_to(root))
        for file in root.rglob("*.py")
        if OTHER_READERS.search(file.read_text(encoding="utf-8"))
    }
    assert readers == {"probes/delta_table.py", "testing/lake.py"}
