"""Advice of errors is followed on the lake that gave it, and the next run ends well.

`CASES` provokes errors; each way to follow the advice of each is tried on its own copy of the lake. The tables must have what the
landed records make, by an independent computation. Acts outside of Tidegate are done where a case has them, else the way is left out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import slices
from tests import typed_advice as script
from tests.advice.cases import CASES, D2, SAMPLE, two_runs
from tests.advice.shop import Part, Shop, follow, settle, ways
from tests.deployment import Deployment
from tidegate import errors
from tidegate.advice import Command, Edit
from tidegate.alerting.rules import RULES
from tidegate.cli.project import readings
from tidegate.environment import Environment
from tidegate.errors import TidegateError
from tidegate.runtime import java
from tidegate.states import STATES, status_of

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).parents[2]
ELSEWHERE = {
    "MachineUnavailableError": "tests/clusters/standalone/test_waits.py::test_a_run_without_room_on_the_cluster_ends_as_transient",
    "GapError": "tests/cli/test_gap.py::test_the_command_in_the_error_message_accepts_the_gap",
    "MovedLandingFolderError": "tests/spark/test_moved_landing_folder.py::test_a_moved_folder_stops_the_flow_until_it_is_accepted",
    "LakeVersionError": "tests/ops/test_upgrade.py::test_an_upgrade_that_is_killed_at_any_write_goes_on",
    "MissingJavaError": "tests/advice/test_errors.py::test_a_setting_that_is_corrected_ends_the_error",
    "OtherProjectError": "tests/cli/test_claim.py::test_the_lake_of_another_project_is_refused_until_it_is_claimed",
    "SettingsError": "tests/environment/test_project_file.py::test_a_wrong_file_is_an_error_with_the_line_and_what_to_write",
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


OF_WEEK = {*SAMPLE, *slices.of_week(sorted(CASES), 2)}
"""The cases that run: the sample in `make test`, others at night."""


def test_every_class_with_a_command_or_an_edit_has_a_case_or_a_reason() -> None:
    typed_advice = script.load()
    written = typed_advice.advices_of_project()
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
        (errors.SetupError, {"TIDEGATE_LAKE": "hdfs://lake"}, {"TIDEGATE_LAKE": "/lake"}, Environment.read),
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
    "name",
    [pytest.param(name, marks=() if name in SAMPLE else pytest.mark.nightly) for name in CASES if name in OF_WEEK],
)
def test_every_way_that_an_error_advises_ends_well(name: str, shop: Shop) -> None:
    case = CASES[name]
    flow, error = case.provoke(shop)
    assert type(error) is case.kind or isinstance(error, case.kind)
    assert error.advice is not None
    fields, records, copy = dict(shop.fields), list(shop.records), Path(shop.layout.root).with_name("copy")
    Path(shop.layout.root).mkdir(exist_ok=True)
    subprocess.run(["cp", "-a", Path(shop.layout.root), copy], check=True)
    of_error, of_state = list(ways(error.advice)), list(_ways_of_state(shop, flow, case.state))
    followed: list[tuple[Part, ...]] = []
    for way in (*of_error, *of_state):
        if followed:
            shutil.rmtree(Path(shop.layout.root))
            subprocess.run(["cp", "-a", copy, Path(shop.layout.root)], check=True)
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
    (status,) = (status_of(each) for each in readings(shop.deployment.environment, "shop", 30) if each.flow == flow)
    assert status.name == name
    assert status.advice is not None
    yield from ways(status.advice)


REFUSED: dict[tuple[str, ...], str] = {
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
        if (refusal := REFUSED.get(argv[:2])) is not None:
            with pytest.raises(errors.RequestError, match=refusal):
                shop.command(*arguments)
        else:
            shop.command(*arguments)
    settle(shop, {})
    assert shop.differences() == []
