"""Errors that are provoked on the lake of a `Shop`, with what a person does who follows their advice."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.advice.shop import Act, Shop
from tidegate import errors
from tidegate.errors import TidegateError
from tidegate.lake.place import Place
from tidegate.probes import delta_log

D1, D2 = date(2026, 1, 5), date(2026, 1, 6)
Provoke = Callable[[Shop], tuple[str, TidegateError]]


@dataclass(frozen=True)
class Case:
    """An error, and what a person does who follows the parts of its advice that are no command."""

    provoke: Provoke
    """Returns the flow and its error."""
    kind: type[TidegateError]
    acts: dict[str, Act] = field(default_factory=dict)
    followed: int = 1
    """How many ways of the error can be followed."""
    state: str = ""
    """The state of the flow afterwards, whose next step is followed, too; empty if the next run shows the error again."""


def edit(**fields: Any) -> Act:
    return lambda shop: shop.edit(**fields)


def nothing(_: Shop) -> None:
    """What is advised is done by the run that follows."""


def two_runs(shop: Shop) -> None:
    shop.land((1, 1, D1, 10), (2, 1, D1, 20))
    shop.run()
    shop.land((1, 2, D2, 30), (3, 1, D2, 40))
    shop.run()


def fails(shop: Shop, flow: str = "silver") -> tuple[str, TidegateError]:
    return flow, shop.error_of(flow)


def after(act: Act, *records: tuple[int, int, date, int], flow: str = "silver") -> Provoke:
    """The error of a flow by the records that land after an act.

    Args:
        records: One by default.
    """

    def provoke(shop: Shop) -> tuple[str, TidegateError]:
        two_runs(shop)
        act(shop)
        shop.land(*(records or ((4, 1, D2, 50),)))
        return fails(shop, flow)

    return provoke


def restore(name: str) -> Act:
    def act(shop: Shop) -> None:
        path = shop.layout.table(name)
        shop.spark.sql(f"RESTORE TABLE delta.`{path}` TO VERSION AS OF {DeltaTable(str(path)).version() - 1}")

    return act


def send_what_raises_to_quarantine(shop: Shop) -> None:
    shop.edit(error_share=1.0)
    shop.quarantined = shop.newest


def frozen(shop: Shop) -> tuple[str, TidegateError]:
    shop.edit(contract="freeze")
    two_runs(shop)
    shop.land((4, 1, D2, 50), header="id,at,day,amount,note,gate", more=",x,7")
    return fails(shop)


def deleting(shop: Shop) -> tuple[str, TidegateError]:
    two_runs(shop)
    shop.edit(deleted_share=0.1, then='.withColumn("_filtered", F.when(F.col("id") == 3, F.lit("test")))')
    return fails_in(shop, "silver", mode="full_refresh", flows=["silver"])


def fails_in(shop: Shop, flow: str, **options: Any) -> tuple[str, TidegateError]:
    return flow, shop.error_of(flow, shop.run(**options))


def column_is_gone(shop: Shop) -> tuple[str, TidegateError]:
    shop.edit(columns='"id", "at", "day", "amount", "note"')
    two_runs(shop)
    shop.edit(columns='"id", "at", "day", "amount"')
    shop.land((4, 1, D2, 50))
    return fails(shop)


def wrong_field(shop: Shop) -> tuple[str, TidegateError]:
    two_runs(shop)
    shop.edit(files=0)
    shop.land((4, 1, D2, 50))
    with pytest.raises(errors.FieldError) as raised:
        shop.command("run", "shop")
    return "silver", raised.value


def moved_folder(shop: Shop) -> tuple[str, TidegateError]:
    two_runs(shop)
    landing = shop.deployment.environment.landing
    (landing / "shop").rename(landing / "elsewhere")
    return fails(shop, "bronze")


def move_folder_back(shop: Shop) -> None:
    landing = shop.deployment.environment.landing
    (landing / "elsewhere").rename(landing / "shop")


def not_verifiable(shop: Shop) -> tuple[str, TidegateError]:
    shop.land((1, 1, D1, 10))
    with pytest.raises(errors.RequestError) as raised:
        shop.command("verify", "shop", "silver")
    return "silver", raised.value


def differs(shop: Shop) -> tuple[str, TidegateError]:
    two_runs(shop)
    shop.spark.sql(f"UPDATE delta.`{shop.layout.table('silver.shop')}` SET amount = 99 WHERE id = 2")
    with pytest.raises(errors.TableDiffersError) as raised:
        shop.command("verify", "shop", "silver")
    return "silver", raised.value


def half_written(shop: Shop) -> tuple[str, TidegateError]:
    two_runs(shop)
    shop.spark.sql(f"DELETE FROM delta.`{shop.layout.table('silver.shop')}` WHERE id = 2")
    request = shop.deployment.request("shop", ["silver"], mode="backfill", from_date=str(D1), to_date="2100-01-01")
    shop.deployment.run_and_abort("after:write_target:silver", "shop", request=request)
    with pytest.raises(AssertionError):
        shop.command("verify", "shop", "silver")
    return "silver", next(each for each in reversed(shop.errors) if isinstance(each, errors.WriteConflictError))


def delete_table(shop: Shop) -> None:
    shutil.rmtree(shop.layout.table("silver.shop"))


def tear_log(shop: Shop) -> None:
    path = shop.layout.table("silver.shop")
    delta_log.entry(path, DeltaTable(str(path)).version()).put(b"")


def tear_offsets(shop: Shop) -> None:
    offsets = max(Path(Place(shop.layout, "shop", "silver", 1, 0).checkpoint / "offsets").glob("[0-9]*"))
    offsets.write_bytes(offsets.read_bytes()[:-9])


def vacuumed(shop: Shop) -> tuple[str, TidegateError]:
    two_runs(shop)
    shop.land((1, 3, D2, 31))
    shop.run(flows=("bronze", "silver"))
    shop.land((1, 4, D2, 32))
    shop.run(flows=("bronze", "silver"))
    path = shop.layout.table("silver.shop")
    DeltaTable(str(path)).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    shutil.rmtree(path / "_change_data")
    return fails(shop, "gold")


RAISES = edit(columns='"id", "at", "day", F.expr("amount + 0 * (1 div (amount - 50))").cast("int").alias("amount")')
OTHER_DAY = edit(grouped='.withColumn("day", F.date_add("day", 1))')
UNDO = edit(columns='"id", "at", "day", "amount"', then="", grouped="", highest=1_000_000)
CASES = {
    "the order of a table is declared otherwise": Case(
        after(edit(sequence_by=("at", "amount"))),
        errors.CheckpointIncompatibleError,
        {"revert the change": edit(sequence_by=("at",))},
        followed=2,
    ),
    "a declared field is gone": Case(
        after(edit(schema="id INT NOT NULL, at INT, day DATE, amount INT")),
        errors.SchemaChangedError,
        {
            "revert the change": edit(schema="id INT NOT NULL, at INT, day DATE, amount INT, note STRING"),
            "check ": nothing,
        },
        followed=2,
    ),
    "a suite refuses a batch": Case(
        after(edit(highest=45)),
        errors.GateRefusedError,
        {"correct the suite": UNDO, "the transform": UNDO, "correct suite": UNDO},
        followed=2,
        state="refused",
    ),
    "a statistic holds a batch": Case(
        after(edit(rule="value > 5")),
        errors.BatchHeldError,
        {"correct the statistic": edit(rule="value < 1000")},
        followed=3,
        state="on hold",
    ),
    "a transform raises": Case(
        after(RAISES, (4, 1, D2, 50), (5, 1, D2, 50)),
        errors.TransformRefusedError,
        {"correct the transform": UNDO, "raise transform_error_share": send_what_raises_to_quarantine},
        followed=3,
        state="refused",
    ),
    "a frozen contract refuses a field": Case(
        frozen, errors.ContractRefusedError, followed=2, state="contract refused"
    ),
    "a full refresh deletes too much": Case(
        deleting,
        errors.RewriteRefusedError,
        {"correct the transform": UNDO, "the suite": UNDO},
        followed=3,
    ),
    "a transform no longer returns a column": Case(
        column_is_gone,
        errors.DeclarationConflictError,
        {"return it": edit(columns='"id", "at", "day", "amount", "note"')},
        followed=2,
    ),
    "a transform drops rows": Case(
        after(edit(then='.where("id <> 4")')), errors.LedgerImbalanceError, {"return every row": UNDO}
    ),
    "a transform returns other keys": Case(
        after(OTHER_DAY, flow="gold"),
        errors.UndeclaredDependenceError,
        {"group and join rows": UNDO},
    ),
    "a transform returns no key": Case(
        after(edit(columns='"at", "day", "amount"')), errors.SpecError, {"it must return": UNDO}
    ),
    "a field has a value that is not allowed": Case(wrong_field, errors.FieldError, {"allowed": edit(files=1000)}),
    "a folder was moved away": Case(moved_folder, errors.NotDeliveredError, {"create it": move_folder_back}),
    "a table that is not written yet is verified": Case(not_verifiable, errors.RequestError),
    "a keyed table was changed by another writer": Case(differs, errors.TableDiffersError),
    "a table is verified while a backfill is half-written": Case(half_written, errors.WriteConflictError),
}
CASES |= {
    f"{name} was restored to an earlier version": Case(
        after(restore(name), flow=name.partition(".")[0]), errors.TableInDoubtError
    )
    for name in ("bronze.shop", "silver.shop")
}
CASES |= {
    "a table was deleted": Case(after(delete_table), errors.TableInDoubtError),
    "an entry of a log is torn": Case(after(tear_log), errors.TableUnreadableError),
    "a checkpoint is torn": Case(after(tear_offsets), errors.CheckpointCorruptError),
    "a reader's versions were removed by VACUUM": Case(vacuumed, errors.OffsetsExpiredError),
}
SAMPLE = ("a table that is not written yet is verified",)
"""The cases that are not nightly."""
