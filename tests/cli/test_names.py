"""Pipelines that are drafted from samples with names that no column can have run as they are, and say both names where one looks."""

from __future__ import annotations

import csv
import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.cli.project import Project
from tidegate.probes import delta_table

pytestmark = pytest.mark.jvm

HEADER = "Order ID;größe;select;_row_id;_change;Betrag (€);a.b;A.B;Updated-At"
ORDERS = f"""{HEADER}
A-1;1;x;r1;c;1.234,50;p;q;2026-01-05T09:30:00Z
A-2;2;y;r2;c;2,50;p;q;2026-01-05T09:31:00Z
A-3;3;z;r3;c;3,00;p;q;2026-01-05T09:32:00Z
A-4;;z;r3;c;4,00;p;q;2026-01-05T09:33:00Z
A-5;5;z;r3;c;5,00;p;q;2026-01-05T09:34:00Z
"""
BROKEN = f"{HEADER};Neu\nB-1; 4;x;r1;c;3,00;p;q;2026-01-05T09:32:30Z;n\n"
OLDER = (
    "order_id;groesse;select;row_id;change;betrag;a_b;a_b_2;updated_at\nC-1;4;x;r1;c;3,00;p;q;2026-01-05T09:32:30Z\n"
)
"""As the producer wrote it before it used other names."""
COLUMNS = {
    **{"Order ID": "order_id", "größe": "groesse", "select": "select", "_row_id": "row_id", "_change": "change"},
    **{"Betrag (€)": "betrag", "a.b": "a_b", "A.B": "a_b_2", "Updated-At": "updated_at"},
}
VISITS: list[dict[str, Any]] = [
    {
        "order": number,
        "timestamp": f"2026-01-05T09:3{number}:00Z",
        "_id": f"k{number}",
        "customer": {"First Name": "Ada", "Straße.Nr": number},
        "Line Items": [{"Unit Price": number + 0.5, "from": "x"}, {"Unit Price": 0.25, "from": "y"}],
    }
    for number in range(1, 6)
]


def rows(project: Project, table: str) -> list[dict[str, Any]]:
    return [
        {name: value for name, value in row.items() if not name.startswith("_")}
        for row in delta_table.open_table(project.layout.table(table)).to_pyarrow_table().to_pylist()
    ]


def comments(project: Project, table: str) -> dict[str, str]:
    fields = json.loads(delta_table.open_table(project.layout.table(table)).schema().to_json())["fields"]
    return {each["name"]: each["metadata"]["comment"] for each in fields if "comment" in each["metadata"]}


@pytest.mark.nightly
def test_a_delimited_file_with_other_names_from_the_sample_to_a_replay(tmp_path: Path) -> None:
    project = Project.scaffolded(tmp_path / "project")
    (tmp_path / "orders.csv").write_text(ORDERS)
    assert project.run("new", "shop", "--from", str(tmp_path / "orders.csv")).code == 0

    for name, content in (("broken.csv", BROKEN), ("older.csv", OLDER)):
        (project.folder / "landing" / "shop" / name).write_text(content)

    ran = project.run("run", "shop")

    assert ran.code == 0, ran.out + ran.err
    assert "rows         7 read = 6 written + 1 quarantined" in ran.out, ran.out
    written = {row["order_id"]: row for row in rows(project, "silver.shop")}
    assert written.pop("C-1")["groesse"] == 4
    for record in csv.DictReader(io.StringIO(ORDERS), delimiter=";"):
        row = written[record["Order ID"]]
        assert row.pop("betrag") == Decimal(record.pop("Betrag (€)").replace(".", "").replace(",", "."))
        assert f"{row.pop('updated_at'):%Y-%m-%dT%H:%M:%SZ}" == record.pop("Updated-At")
        texts = {name: None if value is None else str(value) for name, value in row.items()}
        assert texts == {"rescued": None, **{COLUMNS[name]: text or None for name, text in record.items()}}
    assert comments(project, "silver.shop") == {
        column: f'"{name}" in the source' for name, column in COLUMNS.items() if name != column
    }

    both = 'groesse ("größe" in the source)'
    assert f"quarantined by rules about {both}" in ran.out
    assert "Neu" in project.run("contract", "show", "shop").row("new field")
    assert f"silver: {both}" in project.run("quarantine", "list", "shop").out
    assert both in project.run("quarantine", "show", "shop", "silver").row("fields")
    landed = str(project.folder / "landing" / "shop" / "broken.csv")
    traced = project.run("trace", "--file", landed, "--line", "2")
    assert both in traced.row("note"), traced.out

    declaration = project.folder / "pipelines" / "shop.py"
    text = declaration.read_text()
    declaration.write_text(text.replace("decimal_comma=True", "decimal_comma=True, trim=True"))
    replay = project.run("quarantine", "replay", "shop", "silver")
    assert replay.code == 0, replay.out + replay.err
    (replayed,) = (row for row in rows(project, "silver.shop") if row["order_id"] == "B-1")
    assert (replayed["groesse"], replayed["betrag"]) == (4, Decimal("3.00"))
    assert json.loads(replayed["rescued"]) == {"Neu": "n"}


@pytest.mark.nightly
def test_nested_json_with_other_names_and_keys_that_are_words_of_sql(tmp_path: Path) -> None:
    project = Project.scaffolded(tmp_path / "project")
    (tmp_path / "visits.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in VISITS))
    assert project.run("new", "visits", "--from", str(tmp_path / "visits.jsonl")).code == 0
    declaration = project.folder / "pipelines" / "visits.py"
    declared = declaration.read_text()
    assert 'keys=("id",),' in declared and 'sequence_by=("timestamp",),' in declared
    declaration.write_text(declared.replace('keys=("id",),', 'keys=("order",),'))

    ran = project.run("run", "visits")

    assert ran.code == 0, ran.out + ran.err
    assert "rows         5 read = 5 written" in ran.out
    stored = sorted(rows(project, "silver.visits"), key=lambda row: int(row["order"]))
    for row, record in zip(stored, VISITS, strict=True):
        assert (row["order"], row["id"], row["rescued"]) == (record["order"], record["_id"], None)
        assert row["customer"] == {"first_name": "Ada", "strasse_nr": record["order"]}
        assert row["line_items"] == [
            {"unit_price": item["Unit Price"], "from": item["from"]} for item in record["Line Items"]
        ]
    assert comments(project, "silver.visits") == {
        "id": '"_id" in the source',
        "customer": 'customer.first_name is "First Name"; customer.strasse_nr is "Straße.Nr"',
        "line_items": '"Line Items" in the source; line_items.unit_price is "Unit Price"',
    }
