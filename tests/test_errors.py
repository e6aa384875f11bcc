"""Every error has a message with the next step, a class for retries, and an exit code."""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tidegate import errors, json_codec
from tidegate.advice import Command, Edit, OutsideAct
from tidegate.errors import TidegateError
from tidegate.errors.refusals import ContractRefusal, GateRefusal, HeldBatch, TransformRefusal
from tidegate.lake.table_history import Doubt
from tidegate.reports.report import ErrorReport
from tidegate.reports.verdict import ExpectationResult, Verdict

VERDICT = Verdict(
    flow="silver",
    app_id="flights/silver/v1/0",
    batch_id=3,
    suite="flights/silver",
    suite_fingerprint="a" * 16,
    code_fingerprint="b" * 16,
    outcome="refused",
    results=(
        ExpectationResult(
            expectation="expect_column_values_to_not_be_null",
            rule="not_null(origin)",
            severity="critical",
            success=False,
            evaluated=1000,
            unexpected=40,
            mostly=0.99,
        ),
    ),
)
RAISED: dict[str, TidegateError] = {
    "FieldError": errors.FieldError("Flow 'silver'", "name", "S", "lower case"),
    "UndeclaredDependenceError": errors.UndeclaredDependenceError("gold joins", "silver.shop", ["id"], "on", 1),
    "CheckpointIncompatibleError": errors.CheckpointIncompatibleError("silver", 2, {"keys": (["a"], ["b"])}),
    "SchemaChangedError": errors.SchemaChangedError(
        "silver",
        2,
        {"at": ("date", None)},
        descriptions=["at is gone"],
        steps=OutsideAct("do this"),
        breaks=["shop/gold"],
    ),
    "ContractRefusedError": errors.ContractRefusedError(
        "shop", "silver", 3, schema_change_id="0a1b2c3d4e5f", changes=["new field gate"], declared="a" * 16
    ),
    "CheckpointCorruptError": errors.CheckpointCorruptError("damaged", path="/x"),
    "StateLostError": errors.StateLostError("lost", path="/x"),
    "StateCodeChangedError": errors.StateCodeChangedError("decisions", 3, 1, "payments:decide"),
    "LateRowsDroppedError": errors.LateRowsDroppedError("decisions", 3, 7, "silver.payments"),
    "NotDeliveredError": errors.NotDeliveredError("landing folder /x", "the source's path"),
    "MovedLandingFolderError": errors.MovedLandingFolderError("shop", "bronze", before="/a b/shop", now="/c/shop"),
    "SourceRewrittenError": errors.SourceRewrittenError("decisions", "silver.payments", 1),
    "DamagedFileError": errors.DamagedFileError("/x", "Input data was truncated", OutsideAct("restore it")),
    "GateRefusedError": errors.GateRefusedError(VERDICT),
    "RewriteRefusedError": errors.RewriteRefusedError(
        "silver",
        "backfill 3 of 2026-01-05",
        impact={"deleted": 355},
        reasons=["delete 355 of 355 rows (100.0%), more than 10.0%"],
        correct=OutsideAct("give the command again"),
        accept=Command.tidegate("run", "shop", "--accept", "silver:deleted=355"),
    ),
    "TransformRefusedError": errors.TransformRefusedError(
        dataclasses.replace(VERDICT, suite=""),
        transform="flights:clean",
        raised=["CAST_INVALID_INPUT", "ValueError"],
        problem="on more rows than allowed",
        remedy=Edit("correct it", "transform"),
        share=0.1,
    ),
    "BatchHeldError": errors.BatchHeldError(
        "shop",
        Verdict(
            flow="silver",
            batch_id=3,
            app_id="shop/silver/v1/0",
            suite="",
            suite_fingerprint="",
            code_fingerprint="c",
            outcome="refused",
        ),
        statistics_fingerprint="s",
    ),
    "GapError": errors.GapError("shop", "bronze", "clicks", {1: (3, 7), 0: (10, 14)}),
    "TopicReplacedError": errors.TopicReplacedError("bronze", 1, "clicks", cluster="host:1", expected="A", actual="B"),
    "OtherClusterError": errors.OtherClusterError("bronze", 1, "clicks", cluster="h:1", expected="A", actual="B"),
    "LedgerImbalanceError": errors.LedgerImbalanceError("silver", 3, {"read": 1}, "one row has no disposition"),
    "LeaseHeldError": errors.LeaseHeldError("table:silver.flights", "attempt a1"),
    "LeaseLostError": errors.LeaseLostError("table:silver.flights", 31, is_taken=False),
    "RunCancelledError": errors.RunCancelledError("ada", "cancelled by ada at 2026-01-05T00:00:00Z"),
    "RunReplacedError": errors.RunReplacedError("a1", "a2"),
    "SettingsError": errors.SettingsError("there is no setting 'lak'", file=Path("/shop/tidegate.toml"), line=3),
    "OtherProjectError": errors.OtherProjectError("/lake", "project 'shop'", "project 'flights'", ""),
    "SinkError": errors.SinkError("sent", "kafka.alerts", "Kafka has no such topic"),
    "SinkUnavailableError": errors.SinkUnavailableError("sent", "kafka.alerts", "no Kafka broker answers"),
    "StoppedError": errors.StoppedError(15),
    "LossNotAcceptedError": errors.LossNotAcceptedError([("shop", "bronze", "2 files", "bronze:lost=2")]),
    "NotRecoveredError": errors.NotRecoveredError(["shop/silver: silver.shop: it is gone"]),
    "TableUnreadableError": errors.TableUnreadableError(
        Path("/lake/tables/silver/orders"), Path("/lake/tables/silver/orders/_delta_log/1.json"), "is empty"
    ),
    "TableInDoubtError": errors.TableInDoubtError(
        Doubt(
            table="silver.flights", reason="rewritten", what="version 7 is a RESTORE", version=7, operation="RESTORE"
        ),
        flow="silver",
        known_by="shop/silver",
        is_own=True,
        way_out=Command.tidegate("run", "shop", "--mode", "full_refresh", says="derive it again with `{}`"),
    ),
    "TableDiffersError": errors.TableDiffersError(
        "silver", "silver.flights", "1 missing", OutsideAct("a backfill derives rows again")
    ),
}
KINDS = {name: kind for name, kind in vars(errors).items() if inspect.isclass(kind) and issubclass(kind, TidegateError)}
TRANSIENT = {
    "SourceUnavailableError",
    "LakeUnwritableError",
    "MachineUnavailableError",
    "WriteConflictError",
    "SinkUnavailableError",
    "LeaseHeldError",
    "LeaseLostError",
    "RunReplacedError",
    "AirflowUnavailableError",
}
EXIT_CODES = {
    os.EX_USAGE: {"RequestError"},
    os.EX_DATAERR: {
        "RefusedError", "GateRefusedError", "BatchHeldError", "TransformRefusedError", "ContractRefusedError",
        "RewriteRefusedError", "OffsetsExpiredError", "GapError", "SourceRewrittenError",
        "TableInDoubtError", "LossNotAcceptedError", "NotRecoveredError",
    },
    os.EX_SOFTWARE: {"TidegateError", "LedgerImbalanceError", "LateRowsDroppedError", "UnexpectedError", "StoppedError"},
    os.EX_TEMPFAIL: TRANSIENT,
    errors.EX_DIFFERS: {"TableDiffersError"},
    128 + signal.SIGTERM: {"RunCancelledError"},
    os.EX_CONFIG: {
        "NotDeliveredError",
        "MovedLandingFolderError",
        "MachineError",
        "SetupError", "SettingsError", "OtherProjectError",
        "SpecError", "FieldError", "DeclarationConflictError", "UndeclaredDependenceError",
        "CheckpointError", "CheckpointIncompatibleError",
        "SchemaChangedError", "StateLostError", "StateSchemaChangedError", "StateCodeChangedError",
        "CheckpointCorruptError", "DamagedFileError", "SourceError", "LakeVersionError", "MissingJavaError",
        "TopicReplacedError", "OtherClusterError", "SinkError", "TableUnreadableError",
    },
}  # fmt: skip


def example(name: str) -> TidegateError:
    return RAISED.get(name) or KINDS[name]("do this")


def test_only_errors_that_may_go_away_are_transient() -> None:
    assert {name for name, kind in KINDS.items() if kind.transient} == TRANSIENT


def test_every_error_has_the_exit_code_of_its_kind() -> None:
    assert {name: kind.exit_code for name, kind in KINDS.items()} == {
        name: code for code, names in EXIT_CODES.items() for name in names
    }


@pytest.mark.parametrize("name", KINDS)
def test_every_error_is_described_as_json(name: str) -> None:
    error = example(name)
    description = ErrorReport.of(error)
    printed = description.to_json()
    assert json.loads(json.dumps(printed)).keys() == printed.keys()
    assert json_codec.decode(json_codec.encode(description), ErrorReport) == description
    assert (description.kind, description.message) == (name, str(error))
    assert (description.transient, description.exit_code) == (error.transient, error.exit_code)


def test_an_incompatible_checkpoint_names_the_fields_and_the_fix() -> None:
    message = RAISED["CheckpointIncompatibleError"].message
    assert "keys: ['a'] -> ['b']" in message
    assert "checkpoint_version=3" in message


def test_a_refusal_names_failed_expectations_with_counts_and_no_values() -> None:
    message = RAISED["GateRefusedError"].message
    assert "not_null(origin) (40 of 1,000 rows break it, mostly 0.99)" in message
    assert "batch 3 refused by suite 'flights/silver'" in message
    assert ErrorReport.of(RAISED["GateRefusedError"]).attributes["verdict"]["outcome"] == "refused"


def test_a_refusal_because_of_the_transform_names_flow_classes_and_next_step() -> None:
    assert RAISED["TransformRefusedError"].message == (
        "flow 'silver': batch 3 refused: transform 'flights:clean' raises CAST_INVALID_INPUT, ValueError on more rows than allowed. "
        "Correct it, then run the flow again: it tries the same batch again."
    )


def test_every_refusal_says_what_its_batch_waits_for() -> None:
    refusals = {name for name, kind in KINDS.items() if issubclass(kind, errors.RefusedError)} - {"RefusedError"}
    waiting = {name: RAISED[name].refusal() for name in refusals}  # type: ignore[attr-defined]  # checked above
    assert {refusal.batch_id for refusal in waiting.values()} == {3}
    assert {name: type(refusal) for name, refusal in waiting.items()} == {
        "GateRefusedError": GateRefusal,
        "BatchHeldError": HeldBatch,
        "TransformRefusedError": TransformRefusal,
        "ContractRefusedError": ContractRefusal,
    }


@pytest.mark.parametrize(
    ("options", "what", "then"),
    [
        ({}, "batch 3 refused", "run the flow again"),
        ({"is_backfill": True}, "backfill 3 refused", "run the backfill again: the table is unchanged"),
        ({"is_replay": True, "is_backfill": True}, "replay 3 refused", "replay again"),
    ],
)
def test_what_a_frozen_contract_refused_is_named_with_its_next_step(
    options: dict[str, Any], what: str, then: str
) -> None:
    refused = errors.ContractRefusedError(
        "shop", "silver", 3, schema_change_id="0a1b2c3d4e5f", changes=["new field gate"], declared="a" * 16, **options
    )
    assert what in refused.message and f"then {then}" in refused.message


def test_a_gap_names_the_lost_offsets_and_the_command_that_accepts_it() -> None:
    message = RAISED["GapError"].message
    assert 'tidegate flow accept-gap shop bronze 0:10-14 1:3-7 --reason "…"' in message
    assert ErrorReport.of(RAISED["GapError"]).attributes["lost"] == {"0": [10, 14], "1": [3, 7]}


def test_a_held_lease_names_the_holder_and_the_next_step() -> None:
    assert RAISED["LeaseHeldError"].message == (
        "table:silver.flights is held by attempt a1; wait until it ends, or stop it; then try again"
    )


@pytest.mark.parametrize(("error", "message"), [(ValueError("bad\nvalues: 1, 2"), "bad"), (KeyError(), "KeyError")])
def test_any_other_exception_is_terminal_and_described_in_one_line(error: Exception, message: str) -> None:
    description = ErrorReport.of(error)
    assert (description.message, description.transient, description.exit_code) == (message, False, os.EX_SOFTWARE)
