"""Flows that send a table with a function of the project; that of the guide keeps a table of a real Postgres equal to it."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import shutil
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from tests.old_timestamps import INSTANTS
from tests.postgres import Postgres, postgres
from tests.spark import job as orders
from tests.spark.kinds.outbox import Outbox
from tests.spark.queries import expect_idle
from tidegate.changes import Change
from tidegate.errors import SinkError, SinkUnavailableError, SpecError, UnexpectedError
from tidegate.kinds.sinks import function_sink
from tidegate.spec import FunctionSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.jvm

GUIDE = (Path(__file__).parents[3] / "docs" / "guides" / "sinks.md").read_text(encoding="utf-8")
SINK = FunctionSink("postgres.orders", write="orders_db:upsert")


@pytest.fixture
def functions(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module ``spark_jobs.orders_db``, empty."""
    module = ModuleType("spark_jobs.orders_db")
    module.__spec__ = ModuleSpec(module.__name__, None)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


@pytest.fixture
def outbox(spark: SparkSession, tmp_path: Path) -> Outbox:
    return Outbox(spark, tmp_path, SINK)


@pytest.fixture
def server() -> Iterator[Postgres]:
    with postgres() as running:
        yield running


def test_a_function_gets_the_changes_of_a_batch_in_their_order_and_again_after_a_crash(
    outbox: Outbox, functions: ModuleType
) -> None:
    calls: list[list[Change]] = []
    vars(functions)["upsert"] = lambda changes: calls.append(list(changes))
    outbox.change({"id": 1, "amount": 5}, {"id": 2})
    outbox.change({"id": 1, "amount": 6}, removed=(2,))
    outbox.run()
    outbox.change({"id": 1, "amount": 7})
    outbox.change({"id": 1, "_deleted": True})
    outbox.run_and_crash("after:write_target")

    outbox.run()

    first, crashed, again = calls
    assert [(each.type, each.row) for each in first] == [("insert", {"id": 1, "at": None, "amount": 6})]
    assert crashed == again
    assert [(each.type, each.version, each.key) for each in again] == [
        ("update", 3, {"id": 1}),
        ("delete", 4, {"id": 1}),
    ]
    assert again[1].row is None and len({each.id for each in again}) == 2
    assert outbox.ledger() == [("send", 0, 1, 1, 2), ("send", 1, 2, 2, 4)]
    expect_idle(outbox.run, "latest")


@pytest.mark.nightly
def test_an_id_is_of_one_change_also_if_the_lake_was_put_back_and_another_has_its_version(
    outbox: Outbox, functions: ModuleType, tmp_path: Path
) -> None:
    sent: list[Change] = []
    vars(functions)["upsert"] = sent.extend
    outbox.change({"id": 1, "amount": 5})
    outbox.run()
    lake, copy = tmp_path / "lake", tmp_path / "copy"
    shutil.copytree(lake, copy)
    for amounts in ((6, 7), (6, 8)):
        for amount in amounts:
            outbox.change({"id": 1, "amount": amount})
        outbox.run()
        shutil.rmtree(lake)
        shutil.copytree(copy, lake)
        outbox.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]

    made = [(each.id, each.version, each.row and each.row["amount"]) for each in sent]
    first, again, seven, eight = made[1], made[3], made[2], made[4]
    assert first == again, "the same change"
    assert (seven[1:], eight[1:]) == ((3, 7), (3, 8))
    assert seven[0] != eight[0], "the same version with another row"


@pytest.mark.parametrize("zone", ["UTC", "Europe/Paris", "America/New_York"])
def test_every_time_of_a_row_is_its_instant_in_whatever_zone_the_process_runs(
    outbox: Outbox, functions: ModuleType, zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidegate.kinds.sinks import sends

    # The clocks of two of the zones are set back between these.
    instants = [
        *INSTANTS,
        *(
            datetime(2026, month, day, hour, 30, tzinfo=UTC)
            for month, day in ((10, 25), (11, 1))
            for hour in (0, 1, 5, 6)
        ),
    ]
    calls: list[list[Change]] = []
    vars(functions)["upsert"] = lambda changes: calls.append(list(changes))
    texts = [each.isoformat() for each in instants]
    columns = "id int, days array<string>, stay struct<ends: string>, local string"
    wall = texts[0].removesuffix("+00:00")
    rows = (1, [*texts, None], (texts[-1],), wall), (2, None, None, None, "delete", 1)
    types = {"days": "array<timestamp>", "stay": "struct<ends: timestamp>", "local": "timestamp_ntz"}
    texts_of_rows = orders.changes(outbox.spark, columns, *rows)
    feed = texts_of_rows.withColumns({name: texts_of_rows[name].cast(kind) for name, kind in types.items()})
    split = sends.split_changes(outbox.job(), feed, 0)
    assert split is not None
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        split.write(orders.transaction(outbox.job(), 0))
    finally:
        monkeypatch.undo()
        time.tzset()
    sent = {each.key["id"]: each.row for each in calls[0]}
    local = datetime.fromisoformat(wall)
    assert sent == {1: {"id": 1, "days": [*instants, None], "stay": {"ends": instants[-1]}, "local": local}, 2: None}


def test_a_function_that_raises_or_leaves_changes_has_not_sent_the_batch(
    outbox: Outbox, functions: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    outbox.change({"id": 1}, {"id": 2})
    with pytest.raises(SpecError, match="of its sink postgres"):
        outbox.run()

    def secret(changes: Iterator[Change]) -> None:
        raise ValueError(f"duplicate key {next(changes).key}")

    vars(functions)["upsert"] = secret
    with pytest.raises(SinkUnavailableError, match="orders_db:upsert raised ValueError") as raised:
        outbox.run()
    assert "duplicate" not in raised.value.message
    vars(functions)["upsert"] = next
    with pytest.raises(SinkError, match="returned after 1 change, and others were left") as left:
        outbox.run()
    assert not left.value.transient

    def forgiving(changes: Iterator[Change]) -> None:
        with contextlib.suppress(Exception):
            list(changes)

    vars(functions)["upsert"] = forgiving
    monkeypatch.setattr(function_sink, "_with_zone", lambda *_, **__: 1 / 0)
    with pytest.raises(UnexpectedError, match="ZeroDivisionError"):
        outbox.run()
    assert (outbox.plan().has_work, outbox.ledger()) == (True, [])


@pytest.mark.nightly
def test_the_function_of_the_guide_keeps_a_table_of_postgres_equal_to_the_table(
    outbox: Outbox, functions: ModuleType, server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    (code,) = re.findall(r"^```python spark_jobs/orders_db.py\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
    exec(compile(code, "orders_db", "exec"), vars(functions))
    monkeypatch.setenv("ORDERS_DATABASE", server.address)

    def rows(sql: str = "SELECT id, at, amount FROM orders ORDER BY id") -> list[dict[str, Any]]:
        with psycopg.connect(server.address) as database:
            cursor = database.execute(sql)
            names = [column.name for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in (cursor.fetchall() if names else ())]

    rows("CREATE TABLE orders (id INT PRIMARY KEY, at TIMESTAMPTZ, amount INT)")
    outbox.change(*[{"id": number, "amount": number} for number in range(5)])
    outbox.run()
    assert rows() == outbox.present()
    outbox.change({"id": 0, "amount": 10}, {"id": 1, "_deleted": True}, removed=(2,))
    noon = datetime(2026, 7, 1, 12, 0, 0, 250, tzinfo=UTC)
    outbox.change({"id": 0, "amount": 11}, {"id": 1, "amount": 12, "at": noon})
    outbox.run_and_crash("after:write_target")
    assert rows() == outbox.present(), "the transaction was committed before the crash"
    outbox.change({"id": 7})

    server.stop()
    with pytest.raises(SinkUnavailableError, match="orders_db:upsert raised OperationalError"):
        outbox.run()
    server.start()
    outbox.run()

    assert rows() == outbox.present() != []
    assert outbox.ledger() == [("send", 0, 5, 5, 1), ("send", 1, 5, 5, 3), ("send", 2, 1, 1, 4)]
    outbox.flow = dataclasses.replace(outbox.flow, checkpoint_version=2)
    rows("DELETE FROM orders")
    outbox.run()
    assert rows() == outbox.present()
