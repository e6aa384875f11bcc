"""Advice of errors is followed on the lake that gave it, and the next run ends well.

`CASES` provokes errors; each way to follow the advice of each is tried on its own copy of the lake. The tables must have what the
landed records make, by an independent computation. Acts outside of Tidegate are done where a case has them, else the way is left out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tests import typed_advice as script
from tests.advice.shop import Act, Part, Shop, follow, settle, ways
from tests.deployment import Deployment
from tidegate import errors
from tidegate.advice import Command, Edit
from tidegate.alerting.rules import RULES
from tidegate.cli.project import statuses
from tidegate.environment import Environment
from tidegate.errors import TidegateError
from tidegate.place import Place
from tidegate.probes import delta_log
from tidegate.runtime import java
from tidegate.states import STATES

PROJECT = Path(__file__).parents[2]
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


def other_order(shop: Shop) -> tuple[str, TidegateError]:
    two_runs(shop)
    shop.edit(sequence_by=("at", "amount"))
    shop.land((4, 1, D2, 50))
    return fails(shop)


def field_is_gone(shop: Shop) -> tuple[str, TidegateError]:
    two_runs(shop)
    shop.edit(schema="id INT NOT NULL, at INT, day DATE, amount INT")
    shop.land((4, 1, D2, 50))
    return fails(shop)


def refused_by_suite(shop: Shop) -> tuple[str, TidegateError]:
    two_runs(shop)
    shop.edit(highest=45)
    shop.land((4, 1, D2, 50))
    return fails(shop)


def on_hold(shop: Shop) -> tuple[str, TidegateError]:
    two_runs(shop)
    shop.edit(rule="value > 5")
    shop.land((4, 1, D2, 50))
    return fails(shop)


def raises(shop: Shop) -> tuple[str, TidegateError]:
    two_runs(shop)
    shop.edit(columns='"id", "at", "day", F.expr("amount + 0 * (1 div (amount - 50))").cast("int").alias("amount")')
    shop.land((4, 1, D2, 50), (5, 1, D2, 50))
    return fails(shop)


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


def drops_rows(shop: Shop) -> tuple[str, TidegateError]:
    two_runs(shop)
    shop.edit(then='.where("id <> 4")')
    shop.land((4, 1, D2, 50))
    return fails(shop)


def returns_other_keys(shop: Shop) -> tuple[str, TidegateError]:
    two_runs(shop)
    shop.edit(grouped='.withColumn("day", F.date_add("day", 1))')
    shop.land((4, 1, D2, 50))
    return fails(shop, "gold")


def without_key(shop: Shop) -> tuple[str, TidegateError]:
    two_runs(shop)
    shop.edit(columns='"at", "day", "amount"')
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


def restored(name: str) -> Provoke:
    def provoke(shop: Shop) -> tuple[str, TidegateError]:
        two_runs(shop)
        path = shop.layout.table(name)
        shop.spark.sql(f"RESTORE TABLE delta.`{path}` TO VERSION AS OF {DeltaTable(str(path)).version() - 1}")
        shop.land((4, 1, D2, 50))
        return fails(shop, name.partition(".")[0])

    return provoke


def damaged(act: Act) -> Provoke:
    def provoke(shop: Shop) -> tuple[str, TidegateError]:
        two_runs(shop)
        act(shop)
        shop.land((4, 1, D2, 50))
        return fails(shop)

    return provoke


def delete_table(shop: Shop) -> None:
    shutil.rmtree(shop.layout.table("silver.shop"))


def tear_log(shop: Shop) -> None:
    path = shop.layout.table("silver.shop")
    delta_log.entry(path, DeltaTable(str(path)).version()).write_bytes(b"")


def tear_offsets(shop: Shop) -> None:
    offsets = max((Place(shop.layout, "shop", "silver", 1, 0).checkpoint / "offsets").glob("[0-9]*"))
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


UNDO = edit(columns='"id", "at", "day", "amount"', then="", grouped="", highest=1_000_000)
CASES = {
    "the order of a table is declared otherwise": Case(
        other_order,
        errors.CheckpointIncompatibleError,
        {"revert the change": edit(sequence_by=("at",))},
        followed=2,
    ),
    "a declared field is gone": Case(
        field_is_gone,
        errors.SchemaChangedError,
        {
            "revert the change": edit(schema="id INT NOT NULL, at INT, day DATE, amount INT, note STRING"),
            "check ": nothing,
            "give the flow another table name": edit(log="silver.log2"),
        },
        followed=2,
    ),
    "a suite refuses a batch": Case(
        refused_by_suite,
        errors.GateRefusedError,
        {"correct the suite": UNDO, "the transform": UNDO, "correct suite": UNDO},
        followed=2,
        state="refused",
    ),
    "a statistic holds a batch": Case(
        on_hold,
        errors.BatchHeldError,
        {"correct the statistic": edit(rule="value < 1000")},
        followed=3,
        state="on hold",
    ),
    "a transform raises": Case(
        raises,
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
    "a transform drops rows": Case(drops_rows, errors.LedgerImbalanceError, {"return every row": UNDO}),
    "a transform returns other keys": Case(
        returns_other_keys, errors.UndeclaredDependenceError, {"group and join rows": UNDO}
    ),
    "a transform returns no key": Case(without_key, errors.SpecError, {"it must return": UNDO}),
    "a field has a value that is not allowed": Case(wrong_field, errors.FieldError, {"allowed": edit(files=1000)}),
    "a folder was moved away": Case(moved_folder, errors.NotDeliveredError, {"create it": move_folder_back}),
    "a table that is not written yet is verified": Case(not_verifiable, errors.RequestError),
    "a keyed table was changed by another writer": Case(differs, errors.TableDiffersError),
    "a table is verified while a backfill is half-written": Case(half_written, errors.WriteConflictError),
}
CASES |= {
    f"{name} was restored to an earlier version": Case(restored(name), errors.TableInDoubtError)
    for name in ("bronze.shop", "silver.shop")
}
CASES |= {
    "a table was deleted": Case(damaged(delete_table), errors.TableInDoubtError),
    "an entry of a log is torn": Case(damaged(tear_log), errors.TableUnreadableError),
    "a checkpoint is torn": Case(damaged(tear_offsets), errors.CheckpointCorruptError),
    "a reader's versions were removed by VACUUM": Case(vacuumed, errors.OffsetsExpiredError),
}
SAMPLE = ("a table that is not written yet is verified", "a transform drops rows")
"""The cases that are not nightly."""


ELSEWHERE = {
    "GapError": "tests/cli/test_gap.py::test_the_command_in_the_error_message_accepts_the_gap",
    "MissingJavaError": "tests/advice/test_errors.py::test_a_setting_that_is_corrected_ends_the_error",
    "SetupError": "tests/advice/test_errors.py::test_a_setting_that_is_corrected_ends_the_error",
    **dict.fromkeys(
        ("SinkError", "SinkUnavailableError"),
        "tests/spark/kinds/test_function_sinks.py::test_a_function_that_raises_or_leaves_changes_has_not_sent_the_batch",
    ),
    "SourceRewrittenError": "tests/spark/kinds/test_stateful.py::test_a_deleted_row_of_the_source_cannot_be_taken_back_from_state",
    "StateCodeChangedError": "tests/spark/kinds/test_stateful.py::test_a_batch_in_the_table_is_not_finished_by_other_code",
    "StateLostError": "tests/spark/kinds/test_stateful.py::test_lost_or_changed_state_is_named_and_a_new_version_makes_it_again",
    "StateSchemaChangedError": "tests/spark/kinds/test_stateful.py::test_lost_or_changed_state_is_named_and_a_new_version_makes_it_again",
}
"""Classes whose advice another test follows."""
NOT_FOLLOWED = {
    "LossNotAcceptedError": "what it accepts is accepted by tests/spark/test_recovery.py",
    "NotRecoveredError": "a recovery that leaves damage is a bug: no lake is known",
    "AirflowUnavailableError": "`make up` starts a whole Airflow",
    "LateRowsDroppedError": "another writer or a bug makes it; its edit is that of other errors: a new checkpoint_version",
    "OtherClusterError": "needs two clusters; its edits are a setting and a new checkpoint_version",
    "RefusedError": "of a webhook of Airflow",
    "SourceError": "its edits are the settings of a schema registry",
    "SourceUnavailableError": "its edit is the address of a broker",
    "TopicReplacedError": "needs a broker; its edit is that of other errors: a new checkpoint_version",
}
"""Classes with a command or an edit that no test follows, and why."""


def test_every_class_with_a_command_or_an_edit_has_a_case_or_a_reason() -> None:
    typed_advice = script.load()
    written = typed_advice.advices(typed_advice.sources())
    advising = {name for name, each in written.items() if any(part.kind != "OutsideAct" for part in each)}
    followed = {case.kind.__name__ for case in CASES.values()}
    assert advising - followed - ELSEWHERE.keys() - NOT_FOLLOWED.keys() == set()
    assert not followed & (ELSEWHERE.keys() | NOT_FOLLOWED.keys())
    for name in ELSEWHERE.values():
        path, _, test = name.partition("::")
        assert f"def {test}(" in (PROJECT / path).read_text(), name


@pytest.mark.parametrize(
    ("kind", "wrong", "right", "read"),
    [
        (errors.SetupError, {"TIDEGATE_LAKE": "s3://lake"}, {"TIDEGATE_LAKE": "/lake"}, Environment.read),
        (errors.MissingJavaError, {"JAVA_HOME": "/nowhere"}, {"PATH": os.environ["PATH"]}, java.find),
    ],
)
def test_a_setting_that_is_corrected_ends_the_error(
    kind: type[TidegateError], wrong: dict[str, str], right: dict[str, str], read: Callable[[dict[str, str]], object]
) -> None:
    with pytest.raises(kind) as raised:
        read(wrong)
    assert raised.value.advice is not None
    assert next(part.place for part in raised.value.advice.parts() if isinstance(part, Edit)) == "setting"
    read(right)


@pytest.fixture
def shop(deployment: Deployment, spark: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    place = Shop(deployment, spark, monkeypatch)
    yield place
    place.forget()


@pytest.mark.jvm
@pytest.mark.gx
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in SAMPLE else pytest.mark.nightly) for name in CASES]
)
def test_every_way_that_an_error_advises_ends_well(name: str, shop: Shop) -> None:
    case = CASES[name]
    flow, error = case.provoke(shop)
    assert type(error) is case.kind or isinstance(error, case.kind)
    assert error.advice is not None
    fields, records, copy = dict(shop.fields), list(shop.records), shop.layout.lake.with_name("copy")
    shop.layout.lake.mkdir(exist_ok=True)
    subprocess.run(["cp", "-a", shop.layout.lake, copy], check=True)
    of_error, of_state = list(ways(error.advice)), list(_ways_of_state(shop, flow, case.state))
    followed: list[tuple[Part, ...]] = []
    for way in (*of_error, *of_state):
        if followed:
            shutil.rmtree(shop.layout.lake)
            subprocess.run(["cp", "-a", copy, shop.layout.lake], check=True)
            shop.records, shop.quarantined = list(records), []
            shop.edit(**fields)
        if follow(shop, flow, way, case.acts):
            settle(shop, case.acts)
            assert shop.differences() == [], way
            followed.append(way)
    assert len([way for way in followed if way in of_error]) == case.followed, [
        part.text for way in of_error for part in way
    ]
    assert not of_state or any(way in followed for way in of_state)


def _ways_of_state(shop: Shop, flow: str, name: str) -> Iterator[tuple[Part, ...]]:
    if not name:
        return
    (status,) = (each.status for each in statuses(shop.deployment.environment, "shop", 30) if each.flow == flow)
    assert status.name == name
    assert status.advice is not None
    yield from ways(status.advice)


REFUSED = {
    ("quarantine", "take"): "has no refused batch",
    ("quarantine", "accept"): "has no refused batch",
    ("flow", "on"): "is already on",
    ("state", "show"): "keeps no state",
    ("watermark", "advise"): "cannot have a watermark",
}
"""Commands that are about what this flow does not have. The first two are followed above, the others by tests of their commands."""


@pytest.mark.jvm
@pytest.mark.gx
@pytest.mark.nightly
def test_every_command_of_a_state_or_an_alert_can_be_run_as_it_is(shop: Shop) -> None:
    two_runs(shop)
    shop.land((4, 1, D2, 50))
    steps = [*(each.next_step for each in STATES.values()), *(each.next_step for each in RULES.values())]
    parts = [part for step in steps if step is not None for part in step.of("shop", "silver").parts()]
    commands = dict.fromkeys(part.argv[1:] for part in parts if isinstance(part, Command))
    assert len(commands) > 12
    for argv in commands:
        arguments = ["because" if each == "…" else each for each in argv]
        if (refusal := REFUSED.get((argv[0], argv[1]))) is not None:
            with pytest.raises(errors.RequestError, match=refusal):
                shop.command(*arguments)
        else:
            shop.command(*arguments)
    settle(shop, {})
    assert shop.differences() == []
