"""``scripts/typed_advice.py`` refuses advice as free text, and commands that do not exist."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from tests import typed_advice as script

pytestmark = pytest.mark.slow

typed_advice = script.load()


@cache
def kinds() -> Any:
    return typed_advice.kinds(typed_advice.sources())


def _problems(source: str) -> list[str]:
    return list(typed_advice.check("tidegate/x.py", source, kinds()))


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ('raise SpecError("the file is gone")', "SpecError has no advice"),
        ('raise CheckpointCorruptError("it is gone", path=path)', "CheckpointCorruptError has no advice"),
        (
            'raise SpecError("it is gone; restore it from a backup", advice)',
            "has advice in its problem ('; restore it')",
        ),
        ('raise SpecError(f"{what} is gone. Run it again", advice)', "has advice in its problem ('. Run it')"),
        ('raise SpecError(f"see `tidegate flow show {name}`", advice)', "has advice in its problem ('tidegate flow')"),
        ('raise LedgerImbalanceError(flow, 1, {}, "raise checkpoint_version", advice)', "has advice in its problem"),
        ('Command.tidegate("runs", name)', "there is no command `tidegate runs`"),
        ('Command.tidegate("quarantine", "takes", name)', "there is no command `tidegate quarantine takes`"),
        ('Command.tidegate("run", name, "--flows", flow)', "unexpected"),
        ('Command.tidegate("quarantine", "take", name)', "missing: flow"),
        ('Command.tidegate("status", name, flow, "x")', "unexpected"),
        ('of = (name, "--flows", flow)\nCommand.tidegate("run", *of)', "unexpected"),
        ('Edit("nothing is left to do", "request")', "'nothing is left to do' is no act"),
        ('OutsideAct(f"no file of {name} is needed")', "is no act"),
    ],
)
def test_free_advice_and_commands_that_do_not_exist_are_found(source: str, problem: str) -> None:
    assert len(problems := _problems(source)) == 1, problems
    assert problem in problems[0]


@pytest.mark.parametrize(
    "source",
    [
        'raise SpecError("the file is gone", OutsideAct("restore it from a backup"))',
        'raise SpecError(f"{where}: {cause.problem}", cause.advice)',
        'raise CheckpointCorruptError("it is gone", advice=REPAIR, path=path)',
        'raise FieldError("Table", "keys", keys, "a tuple")',
        'raise BatchHeldError(pipeline, verdict, statistics_fingerprint="x")',
        'Command.tidegate("quarantine", "take", name, flow, "--reason", "…", says="send it to quarantine ({})")',
        'of = (name, "--flow", flow)\nCommand.tidegate("run", *of)',
        'Command.tidegate("run", name, *options)',
    ],
)
def test_typed_advice_and_commands_that_exist_pass(source: str) -> None:
    assert _problems(source) == []


def test_every_class_of_error_that_is_raised_has_advice() -> None:
    written = typed_advice.advices_of_project()
    without = {name for name, each in written.items() if not each}
    bases = {
        "TidegateError",
        "CheckpointError",
        "MachineError",
        "MachineUnavailableError",
        "LakeUnwritableError",
        "RefusedError",
    }
    assert without <= bases | {
        "UnexpectedError",
        "StoppedError",
        "SinkError",
        "SinkUnavailableError",
        "DamagedFileError",
    }, without
