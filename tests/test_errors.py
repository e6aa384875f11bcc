"""Every error says what to do, whether waiting heals it, and which exit code a command ends with."""

from __future__ import annotations

import inspect
import json
import os
from typing import Any

import pytest

from tidegate import errors
from tidegate.errors import TidegateError
from tidegate.report import ExpectationResult, Verdict, describe_error

VERDICT = Verdict(
    flow="silver",
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
    "CheckpointIncompatibleError": errors.CheckpointIncompatibleError("silver", 2, {"keys": (["a"], ["b"])}),
    "SchemaChangedError": errors.SchemaChangedError(
        "silver", 2, {"at": ("date", None)}, told=["at is gone"], steps=["do this;"], breaks=["shop/gold"]
    ),
    "ContractRefusedError": errors.ContractRefusedError(
        "shop", "silver", 3, drift="0a1b2c3d4e5f", changes=["new field gate"], declared="a" * 16
    ),
    "CheckpointCorruptError": errors.CheckpointCorruptError("torn", path="/x"),
    "GateRefusedError": errors.GateRefusedError(VERDICT),
    "GapError": errors.GapError("shop", "bronze", "clicks", {1: (3, 7), 0: (10, 14)}),
    "TopicReplacedError": errors.TopicReplacedError("bronze", 1, "clicks", known="A", found="B"),
    "OtherClusterError": errors.OtherClusterError("bronze", 1, "clicks", bootstrap="h:1", known="A", found="B"),
    "LedgerImbalanceError": errors.LedgerImbalanceError("silver", 3, {"read": 1}, "one row has no fate"),
    "LeaseHeldError": errors.LeaseHeldError("table:silver.flights", "attempt a1"),
    "StoppedError": errors.StoppedError(15),
}
KINDS = {name: kind for name, kind in vars(errors).items() if inspect.isclass(kind) and issubclass(kind, TidegateError)}
TRANSIENT = {"SourceUnavailableError", "LakeUnwritableError", "SinkConflictError", "LeaseHeldError", "NoAnswerError"}
EXIT_CODES = {
    os.EX_USAGE: {"RequestError"},
    os.EX_DATAERR: {"GateRefusedError", "ContractRefusedError", "OffsetsExpiredError", "GapError"},
    os.EX_SOFTWARE: {"TidegateError", "LedgerImbalanceError", "UnexpectedError", "StoppedError"},
    os.EX_TEMPFAIL: TRANSIENT,
    os.EX_CONFIG: {
        "SetupError", "SpecError", "FieldError", "SpecDriftError", "CheckpointError", "CheckpointIncompatibleError",
        "SchemaChangedError", "CheckpointCorruptError", "SourceError", "LakeVersionError", "MissingJavaError",
        "TopicReplacedError", "OtherClusterError",
    },
}  # fmt: skip


def made(name: str) -> TidegateError:
    return RAISED.get(name) or KINDS[name]("do this")


def test_those_that_waiting_heals_are_transient_and_no_others() -> None:
    assert {name for name, kind in KINDS.items() if kind.transient} == TRANSIENT


def test_every_error_has_the_exit_code_of_its_kind() -> None:
    assert {name: kind.exit_code for name, kind in KINDS.items()} == {
        name: code for code, names in EXIT_CODES.items() for name in names
    }


@pytest.mark.parametrize("name", KINDS)
def test_every_error_is_told_as_plain_json(name: str) -> None:
    error = made(name)
    told = describe_error(error)
    assert json.loads(json.dumps(told)).keys() == told.keys()
    assert (told["kind"], told["message"]) == (name, str(error))
    assert (told["transient"], told["exit_code"]) == (error.transient, error.exit_code)


def test_an_incompatible_checkpoint_names_the_fields_and_the_fix() -> None:
    message = RAISED["CheckpointIncompatibleError"].message
    assert "keys: ['a'] -> ['b']" in message
    assert "checkpoint_version=3" in message


def test_a_refusal_names_what_broke_with_counts_and_no_values() -> None:
    message = RAISED["GateRefusedError"].message
    assert "not_null(origin) (40 of 1,000 rows break it, mostly 0.99)" in message
    assert "batch 3 refused by suite 'flights/silver'" in message
    assert describe_error(RAISED["GateRefusedError"])["verdict"]["outcome"] == "refused"


def test_a_gap_names_what_is_gone_and_the_command_that_gives_it_up() -> None:
    message = RAISED["GapError"].message
    assert 'tidegate flow accept-gap shop bronze 0:10-14 1:3-7 --reason "…"' in message
    assert describe_error(RAISED["GapError"])["lost"] == {"0": [10, 14], "1": [3, 7]}


def test_a_held_lease_says_who_and_what_to_do() -> None:
    assert RAISED["LeaseHeldError"].message == (
        "table:silver.flights is held by attempt a1; wait for it to end, or stop it, and try again."
    )


@pytest.mark.parametrize(("error", "message"), [(ValueError("bad\nvalues: 1, 2"), "bad"), (KeyError(), "KeyError")])
def test_an_error_that_is_not_ours_is_terminal_and_told_in_one_line(error: Exception, message: str) -> None:
    told: dict[str, Any] = describe_error(error)
    assert (told["message"], told["transient"], told["exit_code"]) == (message, False, os.EX_SOFTWARE)
